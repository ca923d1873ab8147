//! The passes of a load, in order.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use alluvium_record_format::Offset;
use alluvium_segment::{FileKind, SegmentFileName, Suffix};
use tracing::field::Empty;

use super::directory::Directory;
use super::recover::{Damage, Recovered, Recovery};
use super::{Change, LoadConfig, LoadError, LoadReport, Progress, Reason, Warning};
use crate::replay::bases_between;
use crate::scan::{Step, Walk};
use crate::{FileError, LeaderEpochCache, ProducerState, SnapshotStore, read_epochs};

/// A load under way.
pub(super) struct Loader<'p> {
    pub(super) config: LoadConfig,
    /// The log start offset of the checkpoint, at least 0.
    pub(super) log_start_offset: Offset,
    pub(super) directory: Directory,
    pub(super) epochs: LeaderEpochCache,
    pub(super) report: LoadReport,
    pub(super) progress: &'p mut dyn FnMut(Progress) -> ControlFlow<()>,
    /// The last segment and the offset after its last batch.
    pub(super) end: Option<(Offset, Offset)>,
    /// Segments that would be split if they were not damaged.
    pub(super) unsplit: BTreeSet<Offset>,
    /// The segment that was recovered last while its snapshots were trusted, if all of it is sound,
    /// and the producers behind it.
    pub(super) aside: Option<(Offset, ProducerState)>,
}

/// The log after a load.
pub(super) struct Outcome {
    pub(super) directory: Directory,
    pub(super) report: LoadReport,
    pub(super) epochs: LeaderEpochCache,
    pub(super) producers: ProducerState,
    pub(super) log_start_offset: Offset,
    pub(super) recovery_point: Offset,
    pub(super) log_end_offset: Offset,
}

/// What a segment needs before its log can be used.
#[derive(Clone, Copy, Debug)]
enum Need {
    Recover(Reason, Damage),
    Split(Offset, Damage),
}

impl<'p> Loader<'p> {
    pub(super) fn new(
        directory: Directory,
        config: LoadConfig,
        progress: &'p mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Self {
        Self {
            config,
            log_start_offset: config.log_start_offset.max(Offset::new(0)),
            directory,
            epochs: LeaderEpochCache::default(),
            report: LoadReport::default(),
            progress,
            end: None,
            aside: None,
            unsplit: BTreeSet::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<Outcome, LoadError> {
        let foreign = self.directory.take_foreign();
        for name in &foreign {
            tracing::warn!(name, "left alone: not a name that a log writes");
        }
        self.report.warnings.extend(foreign.into_iter().map(Warning::ForeignName));
        self.directory.clear_leftovers().map_err(|e| self.failed(e))?;
        self.directory.remove_orphans().map_err(|e| self.failed(e))?;
        self.directory.make_time_indexes().map_err(|e| self.failed(e))?;
        let epochs_are_damaged = self.read_epochs()?;
        while let Some((base, offset, damage)) = self.recover_pass()? {
            // Split, then look at everything again.
            self.report.recovered.clear();
            if !self.split(base, offset, damage)? {
                self.unsplit.insert(base);
            }
        }
        if epochs_are_damaged {
            self.rebuild_epochs().map_err(|e| self.failed(e))?;
        }
        self.pass_overlap().map_err(|e| self.failed(e))?;
        let is_empty = self.clear_if_start_is_beyond_end()?;
        self.finish(is_empty)
    }

    /// Recovers segment after segment until one is cut. Returns one that must be split.
    fn recover_pass(&mut self) -> Result<Option<(Offset, Offset, Damage)>, LoadError> {
        // What an earlier pass has seen may have been cut or split since.
        self.end = None;
        let needs = self.needs().map_err(|e| self.failed(e))?;
        let mut remaining = needs.len();
        if remaining > 0 {
            let bytes = self.bytes_of(&needs).map_err(|e| self.failed(e))?;
            self.tell(Progress::Started { segments: remaining, bytes })?;
        }
        for (base, need) in needs {
            let (reason, damage) = match need {
                Need::Recover(reason, damage) => (reason, damage),
                Need::Split(offset, damage) => return Ok(Some((base, offset, damage))),
            };
            let base_offset = base.get();
            let span = tracing::info_span!("recover_segment", base_offset, kept_bytes = Empty);
            let _entered = span.enter();
            tracing::info!(
                base_offset,
                dir = %self.directory.path().display(),
                %reason,
                "Recovering unflushed segment"
            );
            let recovered = self.recover(Recovery { base, reason, damage })?;
            if let Some(segment) = self.report.recovered.last() {
                span.record("kept_bytes", segment.kept_bytes);
            }
            match recovered {
                Recovered::Whole => {}
                Recovered::Cut => return Ok(None),
                Recovered::Overflow(offset) => return Ok(Some((base, offset, damage))),
            }
            remaining = remaining.saturating_sub(1);
            self.tell(Progress::Scanned { base_offset: base, remaining })?;
        }
        Ok(None)
    }

    /// What each segment needs that needs anything.
    fn needs(&mut self) -> Result<Vec<(Offset, Need)>, FileError> {
        let bases = self.directory.bases();
        let unflushed = if self.config.clean_shutdown {
            &[]
        } else {
            // Nobody reads below the log start: damage there must not cost what lies above.
            let from = self.config.recovery_point.max(self.log_start_offset);
            bases_between(&bases, from, Offset::MAX)
        };
        let first_unflushed = unflushed.first().copied();
        let mut needs = Vec::new();
        let nexts = bases.iter().skip(1).copied().map(Some).chain([None]);
        for (base, next) in bases.iter().copied().zip(nexts) {
            let need = match next {
                _ if first_unflushed.is_some_and(|first| base >= first) => {
                    Some(Need::Recover(Reason::Unflushed, Damage::Cut))
                }
                Some(next) => self.need_of_sealed(base, next)?,
                None => self.need_of_active(base)?,
            };
            needs.extend(need.map(|need| (base, need)));
        }
        Ok(needs)
    }

    /// A sealed segment that counts as synced is not read, unless something about it is missing.
    fn need_of_sealed(&mut self, base: Offset, next: Offset) -> Result<Option<Need>, FileError> {
        let is_wide = next.relative_to(base).is_none();
        if is_wide && !self.unsplit.contains(&base) {
            let tail = self.directory.tail(SegmentFileName::new(base, FileKind::Log))?;
            if let Some(offset) = overflow(base, tail.next_offset) {
                return Ok(Some(Need::Split(offset, Damage::Keep)));
            }
        }
        let reason = self.missing(base)?;
        Ok(reason.map(|reason| Need::Recover(reason, Damage::Keep)))
    }

    /// The active segment must end where its file does: appends go to the end of the file, and
    /// records behind a torn batch would never be found.
    fn need_of_active(&mut self, base: Offset) -> Result<Option<Need>, FileError> {
        let tail = self.directory.tail(SegmentFileName::new(base, FileKind::Log))?;
        self.end = Some((base, tail.next_offset));
        if let Some(offset) = overflow(base, tail.next_offset) {
            return Ok(Some(Need::Split(offset, Damage::Cut)));
        }
        let reason = match self.missing(base)? {
            Some(reason) => Some(reason),
            None if !tail.index_fits || self.directory.is_time_index_cut(base)? => {
                Some(Reason::IndexDamaged)
            }
            None => tail.damage.map(Reason::Damage),
        };
        Ok(reason.map(|reason| Need::Recover(reason, Damage::Cut)))
    }

    fn missing(&mut self, base: Offset) -> Result<Option<Reason>, FileError> {
        if !self.directory.has(base, FileKind::OffsetIndex) {
            return Ok(Some(Reason::IndexMissing));
        }
        let is_sound = self.directory.is_txn_index_sound(base)?;
        Ok((!is_sound).then_some(Reason::TransactionIndexDamaged))
    }

    /// Removes the segments behind `base`, and everything that belongs to them, last one first:
    /// wherever a crash stops it, what is left has no hole.
    pub(super) fn remove_behind(&mut self, base: Offset, reason: Reason) -> Result<(), LoadError> {
        let behind = |name: &SegmentFileName| {
            name.offset > base && name.suffix == Suffix::None && name.kind != FileKind::Snapshot
        };
        let mut names = self.directory.names();
        names.retain(behind);
        if names.is_empty() {
            return Ok(());
        }
        tracing::warn!(behind = base.get(), %reason, "Deleting segments as part of log recovery");
        // Of one segment, indexes go before the log: without it they would be orphans.
        for name in names.into_iter().rev() {
            let change = Change::MarkDeleted(name);
            self.directory.change(change, reason).map_err(|e| self.failed(e))?;
        }
        self.directory.change(Change::SyncNames, Reason::Order).map_err(|e| self.failed(e))
    }

    /// Notes the end of the log, if this is its last segment.
    pub(super) fn note_end(&mut self, base: Offset, next_offset: Offset) {
        if self.directory.last_base() == Some(base) {
            self.end = Some((base, next_offset));
        }
    }

    fn bytes_of(&mut self, needs: &[(Offset, Need)]) -> Result<u64, FileError> {
        let mut bytes = 0_u64;
        for (base, _) in needs {
            let len = self.directory.len(SegmentFileName::new(*base, FileKind::Log))?;
            bytes = bytes.saturating_add(len);
        }
        Ok(bytes)
    }

    fn tell(&mut self, progress: Progress) -> Result<(), LoadError> {
        if (self.progress)(progress).is_break() {
            return Err(LoadError::Interrupted { dir: self.directory.path().clone() });
        }
        Ok(())
    }

    pub(super) fn failed(&self, source: FileError) -> LoadError {
        LoadError::file(self.directory.path(), source)
    }

    fn read_epochs(&mut self) -> Result<bool, LoadError> {
        match read_epochs(self.directory.dir().io(), self.directory.path()) {
            Ok(entries) => self.epochs = LeaderEpochCache::new(&entries),
            Err(FileError::Corrupt { path, source }) => {
                tracing::warn!(path = %path.display(), error = %source, "leader epochs are damaged");
                self.report.warnings.push(Warning::EpochsRebuilt(source));
                return Ok(true);
            }
            Err(error) => return Err(self.failed(error)),
        }
        Ok(false)
    }

    /// Reads the epochs of all batches: the file is of no use.
    fn rebuild_epochs(&mut self) -> Result<(), FileError> {
        self.epochs.clear();
        for base in self.directory.bases() {
            let file = self.directory.open_log(SegmentFileName::new(base, FileKind::Log))?;
            let mut walk = Walk::headers(&file, 0);
            while let Step::Batch(batch) | Step::Bad(batch, _) = walk.step()? {
                if let Some(epoch) = batch.leader_epoch()
                    && self.epochs.latest().is_none_or(|latest| epoch > latest.epoch)
                {
                    self.epochs.assign(epoch, batch.base_offset());
                }
            }
        }
        Ok(())
    }

    /// A log that ends before it starts has lost its segments, or its start ran ahead: what is
    /// left of it goes. Returns whether no segment is left.
    fn clear_if_start_is_beyond_end(&mut self) -> Result<bool, LoadError> {
        let Some((_, end)) = self.end.filter(|_| !self.directory.bases().is_empty()) else {
            return Ok(true);
        };
        if end >= self.log_start_offset {
            return Ok(false);
        }
        tracing::warn!(
            log_end_offset = end.get(),
            log_start_offset = self.log_start_offset.get(),
            "Deleting all segments because the log end offset is smaller than its start"
        );
        let before_all = Offset::new(-1);
        self.remove_behind(before_all, Reason::LogStartBeyondEnd)?;
        self.directory
            .change(Change::ClearEpochs, Reason::LogStartBeyondEnd)
            .map_err(|e| self.failed(e))?;
        self.epochs = LeaderEpochCache::default();
        for offset in self.directory.offsets().clone() {
            SnapshotStore::remove(&mut self.directory, offset, "the log starts beyond its end")
                .map_err(|e| self.failed(e))?;
        }
        Ok(true)
    }

    /// Fixes epochs and offsets, and brings producer state up to the end.
    fn finish(mut self, is_empty: bool) -> Result<Outcome, LoadError> {
        let checkpoint = self.log_start_offset;
        if is_empty {
            for kind in [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex] {
                let name = SegmentFileName::new(checkpoint, kind);
                let made = self.directory.write(name, Vec::new(), Reason::NoSegment, false);
                made.map_err(|e| self.failed(e))?;
            }
            self.end = Some((checkpoint, checkpoint));
            if !self.epochs.entries().is_empty() {
                self.epochs.clear();
            }
        }
        let bases = self.directory.bases();
        let first = bases.first().copied().unwrap_or(checkpoint);
        let log_end_offset = self.end.map_or(checkpoint, |(_, end)| end);
        let log_start_offset = checkpoint.max(first);
        self.epochs.truncate_from_end(log_end_offset);
        self.epochs.truncate_from_start(checkpoint);
        let is_trusted = self.config.clean_shutdown && !is_empty;
        let flushed = if is_trusted { Offset::MAX } else { self.config.recovery_point };
        let recovery_point = flushed.min(log_end_offset).max(log_start_offset);

        let mut producers = ProducerState::new(self.config.producers);
        if is_empty {
            producers.reset(log_start_offset);
        }
        let bases: BTreeSet<_> = bases.into_iter().collect();
        ProducerState::remove_stray_snapshots(&mut self.directory, &bases)
            .map_err(|e| self.failed(e))?;
        self.log_start_offset = log_start_offset;
        self.replay(&mut producers, log_end_offset, self.config.clean_shutdown)?;
        self.directory.settle_snapshots().map_err(|e| self.failed(e))?;
        Ok(Outcome {
            directory: self.directory,
            report: self.report,
            epochs: self.epochs,
            producers,
            log_start_offset,
            recovery_point,
            log_end_offset,
        })
    }
}

/// The last offset of a segment that ends at `next_offset`, if it does not fit.
pub(super) fn overflow(base: Offset, next_offset: Offset) -> Option<Offset> {
    let last = Offset::new(next_offset.get().saturating_sub(1));
    (last > base && last.relative_to(base).is_none()).then_some(last)
}
