//! A load as its caller sees it: planned, applied, or both at once.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_segment::{FileKind, PartitionDir, Segment, SegmentFileName, Suffix};
use tracing::field::Empty;

use super::directory::Directory;
use super::engine::Outcome;
use super::make::{self, PlannedStep};
use super::{Change, LoadConfig, LoadError, LoadReport, Loader, Progress, Step};
use crate::producers::{is_snapshot, snapshot_name};
use crate::{LeaderEpochCache, ProducerState, SnapshotDir, SnapshotStore};

/// A log that is ready for use.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedLog {
    /// All segments, rising, at least one. The last is the active one; it has no writer yet.
    pub segments: Vec<Arc<Segment>>,
    /// The first visible offset.
    pub log_start_offset: Offset,
    /// Everything below was synced before the load.
    pub recovery_point: Offset,
    /// The offset of the next record.
    pub log_end_offset: Offset,
    /// The producers up to the log end.
    pub producers: ProducerState,
    /// The snapshots of producer state.
    pub snapshots: SnapshotDir,
    /// The leader epochs. Where they are dirty, write them before the recovery point moves.
    pub epochs: LeaderEpochCache,
    /// Files that wait for their removal, by name with `.deleted`; some may not be there.
    pub deleted: Vec<SegmentFileName>,
    /// Files that were written or cut and not synced, after an unclean stop the snapshots too that
    /// were there: sync them, then the directory, before the recovery point moves or what they
    /// know goes. A crash before that only repeats the recovery.
    pub unsynced: Vec<SegmentFileName>,
    /// What was found and done.
    pub report: LoadReport,
}

/// What a load would do.
#[derive(Debug)]
pub struct LoadPlan {
    config: LoadConfig,
    steps: Vec<PlannedStep>,
    listed: Vec<(SegmentFileName, u64)>,
    log_start_offset: Offset,
    recovery_point: Offset,
    log_end_offset: Offset,
    producers: ProducerState,
    epochs: LeaderEpochCache,
    report: LoadReport,
}

/// Finds out what a load would do, and changes nothing.
///
/// A pure function of the directory and the config. Holds the indexes that are to be written in
/// memory, about 0.5 % of the log files that are scanned.
///
/// # Errors
///
/// [`LoadError`].
pub fn plan(
    dir: &Arc<PartitionDir>,
    config: &LoadConfig,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<LoadPlan, LoadError> {
    let mut directory = open(dir, true)?;
    let listed = listing(&mut directory)?;
    let outcome = Loader::new(directory, *config, progress).run()?;
    let (steps, mut report) = (outcome.directory.into_steps(), outcome.report);
    report.steps = public_steps(&steps);
    Ok(LoadPlan {
        config: *config,
        steps,
        listed,
        log_start_offset: outcome.log_start_offset,
        recovery_point: outcome.recovery_point,
        log_end_offset: outcome.log_end_offset,
        producers: outcome.producers,
        epochs: outcome.epochs,
        report,
    })
}

/// Loads a log: does what [`plan`] finds, step by step, and opens the segments.
///
/// It can be interrupted at any point, by the callback or by a crash, and then be run again: the
/// outcome is the same. Damage is mended and reported, not returned as an error.
///
/// Source: `LogLoader.load`, `UnifiedLog.create` in Kafka; `docs/recovery.md`.
///
/// # Errors
///
/// [`LoadError`]: the directory is to go offline, except after [`LoadError::Interrupted`].
pub fn load(
    dir: &Arc<PartitionDir>,
    config: &LoadConfig,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<LoadedLog, LoadError> {
    let (shown, clean) = (dir.path(), config.clean_shutdown);
    let (dir_shown, end, cut_bytes) = (shown.display(), Empty, Empty);
    let span = tracing::info_span!("load_log", dir = %dir_shown, clean, end, cut_bytes).entered();
    let outcome = Loader::new(open(dir, false)?, *config, progress).run()?;
    span.record("end", outcome.log_end_offset.get());
    span.record("cut_bytes", outcome.report.cut_bytes());
    let Outcome { directory, mut report, epochs, producers, .. } = outcome;
    let snapshots = directory.offsets().clone();
    if !clean {
        // Nor has anybody synced the names that a process has left which was killed.
        dir.names_changed();
    }
    let bases = directory.bases();
    let steps = directory.into_steps();
    report.steps = public_steps(&steps);
    Ok(LoadedLog {
        segments: open_segments(dir, &bases, config)?,
        log_start_offset: outcome.log_start_offset,
        recovery_point: outcome.recovery_point,
        log_end_offset: outcome.log_end_offset,
        producers,
        unsynced: unsynced(&steps, config, &snapshots),
        snapshots: SnapshotDir::with_offsets(dir, snapshots),
        epochs,
        deleted: deleted(&steps),
        report,
    })
}

impl LoadPlan {
    /// Does what was planned, and opens the segments.
    ///
    /// # Errors
    ///
    /// [`LoadError::Changed`] where the directory holds other files than those that were planned
    /// with; else as [`load`].
    pub fn apply(self, dir: &Arc<PartitionDir>) -> Result<LoadedLog, LoadError> {
        if listing(&mut open(dir, true)?)? != self.listed {
            return Err(LoadError::Changed { dir: dir.path() });
        }
        for step in &self.steps {
            if let Change::Split { base, .. } = &step.step.change {
                make::split(dir, *base, self.config.segment)
                    .map_err(|e| LoadError::segment(&dir.path(), e))?;
            }
            step.make(dir).map_err(|e| LoadError::file(&dir.path(), e))?;
        }
        let directory = open(dir, false)?;
        if !self.config.clean_shutdown {
            dir.names_changed();
        }
        Ok(LoadedLog {
            segments: open_segments(dir, &directory.bases(), &self.config)?,
            log_start_offset: self.log_start_offset,
            recovery_point: self.recovery_point,
            log_end_offset: self.log_end_offset,
            producers: self.producers,
            snapshots: SnapshotDir::with_offsets(dir, directory.offsets().clone()),
            epochs: self.epochs,
            deleted: deleted(&self.steps),
            unsynced: unsynced(&self.steps, &self.config, directory.offsets()),
            report: self.report,
        })
    }

    /// What was found and would be done.
    #[must_use]
    pub const fn report(&self) -> &LoadReport {
        &self.report
    }

    /// Whether the directory is in order as it is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The first visible offset after the load.
    #[must_use]
    pub const fn log_start_offset(&self) -> Offset {
        self.log_start_offset
    }

    /// The recovery point after the load.
    #[must_use]
    pub const fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// The offset of the next record after the load.
    #[must_use]
    pub const fn log_end_offset(&self) -> Offset {
        self.log_end_offset
    }

    /// The producers after the load.
    #[must_use]
    pub const fn producers(&self) -> &ProducerState {
        &self.producers
    }

    /// The leader epochs after the load.
    #[must_use]
    pub const fn epochs(&self) -> &LeaderEpochCache {
        &self.epochs
    }
}

fn open(dir: &Arc<PartitionDir>, is_plan: bool) -> Result<Directory, LoadError> {
    Directory::open(dir, is_plan).map_err(|e| LoadError::file(&dir.path(), e))
}

fn listing(directory: &mut Directory) -> Result<Vec<(SegmentFileName, u64)>, LoadError> {
    directory.listing().map_err(|e| LoadError::file(directory.path(), e))
}

fn open_segments(
    dir: &Arc<PartitionDir>,
    bases: &[Offset],
    config: &LoadConfig,
) -> Result<Vec<Arc<Segment>>, LoadError> {
    let open = |base: &Offset| Segment::open(dir, *base, config.segment);
    bases.iter().map(|base| open(base).map_err(|e| LoadError::segment(&dir.path(), e))).collect()
}

fn public_steps(steps: &[PlannedStep]) -> Vec<Step> {
    steps.iter().map(|planned| planned.step.clone()).collect()
}

fn deleted(steps: &[PlannedStep]) -> Vec<SegmentFileName> {
    let mut files = Vec::new();
    for step in steps {
        match &step.step.change {
            Change::MarkDeleted(file) => files.push(file.with_suffix(Suffix::Deleted)),
            Change::Split { base, .. } => files.extend(
                FileKind::SEGMENT
                    .map(|kind| SegmentFileName::new(*base, kind).with_suffix(Suffix::Deleted)),
            ),
            _ => {}
        }
    }
    files
}

/// What was written and is still there under its name, and the snapshots that a process has left
/// which was killed. A split syncs its own files, and who opens a segment syncs those of that.
fn unsynced(
    steps: &[PlannedStep],
    config: &LoadConfig,
    snapshots: &BTreeSet<Offset>,
) -> Vec<SegmentFileName> {
    let left = snapshots.iter().filter(|_| !config.clean_shutdown);
    let in_order = |file: SegmentFileName| (is_snapshot(&file), file);
    let mut files: BTreeSet<_> = left.map(|offset| in_order(snapshot_name(*offset))).collect();
    for step in steps {
        match step.step.change {
            Change::Write { file, .. } | Change::Cut { file, .. } => {
                files.insert(in_order(file));
            }
            Change::Remove(file) | Change::MarkDeleted(file) => {
                files.remove(&in_order(file));
            }
            _ => {}
        }
    }
    files.into_iter().map(|(_, file)| file).collect()
}
