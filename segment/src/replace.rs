//! Segments that take the place of others: after cleaning, after a split, after a crash.
//!
//! The one place that renames through `.cleaned` and `.swap`. Both halves are here: the renames
//! of a running log, as a list of steps that can be stopped after any of them, and what to do
//! with what a crash left. `docs/format/segment.md#swap`.

mod leftovers;
mod split;

use std::sync::Arc;

use alluvium_record_format::Offset;

use crate::error::SegmentError;
use crate::names::{FileKind, Suffix};
use crate::partition_dir::PartitionDir;
use crate::segment::Segment;

pub use leftovers::{FileStep, plan_leftovers};
pub use split::split_overflowed;

/// New segments on their way to the place of old ones.
///
/// The new ones are complete, synced, and have the suffix `.cleaned`. Three calls, each of which
/// must have succeeded before the next:
///
/// 1. [`Replacement::to_swap`]: from now on a restart uses the new segments.
/// 2. The caller puts the new segments into its map in the place of the old ones.
/// 3. [`Replacement::retire`]: the old files get `.deleted`, the new ones their final names.
///
/// The caller removes the old files later, with [`Segment::delete_files`], and snapshots of old
/// segments whose base does not stay.
///
/// Source: `LocalLog.replaceSegments` in Kafka.
#[derive(Debug)]
pub struct Replacement {
    dir: Arc<PartitionDir>,
    new: Vec<Arc<Segment>>,
    old: Vec<Arc<Segment>>,
    done: usize,
}

/// One rename of a replacement, or a sync of the directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReplaceStep {
    /// A file gets another suffix.
    #[non_exhaustive]
    Rename {
        /// Whose file.
        segment: Arc<Segment>,
        /// Which.
        kind: FileKind,
        /// Its suffix afterwards.
        to: Suffix,
    },
    /// The names in the directory are made durable: what follows builds on them.
    SyncNames,
}

impl Replacement {
    /// Prepares to replace `old` by `new`, both in one directory and in ascending order. `new`
    /// may be empty: then `old` only goes.
    ///
    /// # Errors
    ///
    /// `ReadOnly`.
    pub fn new(
        dir: &Arc<PartitionDir>,
        new: Vec<Arc<Segment>>,
        old: Vec<Arc<Segment>>,
    ) -> Result<Self, SegmentError> {
        dir.lock()?;
        Ok(Self { dir: Arc::clone(dir), new, old, done: 0 })
    }

    /// Renames the new segments to `.swap`, from the highest base to the lowest, and syncs the
    /// directory after each.
    ///
    /// # Errors
    ///
    /// As [`Segment::rename`]. Calling it again goes on where it stopped.
    pub fn to_swap(&mut self) -> Result<(), SegmentError> {
        self.run_to(self.new.len() * (FileKind::SEGMENT.len() + 1))
    }

    /// Renames the old segments to `.deleted` and the new ones to their final names, both in
    /// ascending order, and syncs the directory after each of the two.
    ///
    /// # Errors
    ///
    /// As [`Segment::rename`]. Calling it again goes on where it stopped.
    pub fn retire(&mut self) -> Result<(), SegmentError> {
        self.run_to(usize::MAX)
    }

    /// As [`retire`](Self::retire), without the last sync: for a caller that has more names to
    /// change that the same sync is to make durable. It calls `retire` afterwards; old files must
    /// not be removed before that.
    ///
    /// # Errors
    ///
    /// As [`Segment::rename`]. Calling it again goes on where it stopped.
    pub fn retire_unsynced(&mut self) -> Result<(), SegmentError> {
        self.run_to(self.steps().len() - 1)
    }

    /// The new segments.
    #[must_use]
    pub fn new_segments(&self) -> &[Arc<Segment>] {
        &self.new
    }

    /// The old segments.
    #[must_use]
    pub fn old_segments(&self) -> &[Arc<Segment>] {
        &self.old
    }

    /// All steps, in order: so that a test can stop after each of them.
    #[must_use]
    pub fn steps(&self) -> Vec<ReplaceStep> {
        let all = |segments: &mut dyn Iterator<Item = &Arc<Segment>>, to: Suffix| -> Vec<_> {
            let files = |segment: &Arc<Segment>| {
                let segment = Arc::clone(segment);
                FileKind::SEGMENT.map(move |kind| ReplaceStep::Rename {
                    segment: Arc::clone(&segment),
                    kind,
                    to,
                })
            };
            segments.flat_map(files).collect()
        };
        // Names may reach the disk in another order than they were changed in. A new segment that
        // is not `.swap` yet must not meet the loss of an old one, and one that has its final name
        // must not meet an old one that it covers.
        let mut steps = Vec::new();
        for new in self.new.iter().rev() {
            steps.extend(all(&mut [new].into_iter(), Suffix::Swap));
            steps.push(ReplaceStep::SyncNames);
        }
        steps.extend(all(&mut self.old.iter(), Suffix::Deleted));
        steps.push(ReplaceStep::SyncNames);
        steps.extend(all(&mut self.new.iter(), Suffix::None));
        steps.push(ReplaceStep::SyncNames);
        #[cfg(alluvium_mutant)]
        steps.sort_by_key(|step| {
            let is_old = matches!(step, ReplaceStep::Rename { to: Suffix::Deleted, .. });
            !(is_old && crate::mutant::is("swapped-rename"))
        });
        steps
    }

    /// Takes steps until `end` of them are done, or all.
    ///
    /// # Errors
    ///
    /// As [`Segment::rename`].
    pub fn run_to(&mut self, end: usize) -> Result<(), SegmentError> {
        let steps = self.steps();
        for step in steps.iter().take(end).skip(self.done) {
            match step {
                ReplaceStep::Rename { segment, kind, to } => segment.rename_file(*kind, *to)?,
                ReplaceStep::SyncNames => self.dir.sync_names()?,
            }
            self.done += 1;
        }
        Ok(())
    }
}

/// Removes left-over `.cleaned` files of a segment that is about to be written.
///
/// # Errors
///
/// `ReadOnly`, `Io`.
pub fn remove_cleaned(dir: &Arc<PartitionDir>, base: Offset) -> Result<(), SegmentError> {
    for kind in FileKind::SEGMENT {
        let name = crate::SegmentFileName::new(base, kind).with_suffix(Suffix::Cleaned);
        match FileStep::Remove(name).run(dir) {
            Err(SegmentError::Gone { .. }) => {}
            other => other?,
        }
    }
    Ok(())
}
