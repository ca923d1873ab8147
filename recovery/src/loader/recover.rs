//! Recovery of one segment: every batch is looked at, what is unsound goes, indexes are made new.

use std::ops::{Bound, ControlFlow};

use alluvium_record_format::{CorruptKind, Corruption, Offset};
use alluvium_segment::{FileKind, SegmentFileName};
use alluvium_sparse_index::{AbortedTxn, BuiltIndexes, IndexBuilder};

use super::snapshots::Scratch;
use super::{Change, LoadError, Loader, Progress, Reason, RecoveredSegment, Warning};
use crate::replay::{Replay, rebuild, take_replayed};
use crate::scan::{ScanEnd, scan};
use crate::{FileError, FoundBatch, LeaderEpochCache, ProducerState, SnapshotStore};

/// What becomes of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// The file is cut there: the bytes were not synced.
    Cut,
    /// The bytes stay, as they were synced once. Indexes cover what can be walked.
    Keep,
}

/// Why a segment is recovered, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    pub(super) base: Offset,
    pub(super) reason: Reason,
    pub(super) damage: Damage,
}

/// The outcome of a recovery.
#[derive(Clone, Copy, Debug)]
pub(super) enum Recovered {
    /// The segment is sound now and was not cut.
    Whole,
    /// The segment was cut: whatever follows it must go.
    Cut,
    /// An offset does not fit, so the segment must be split.
    Overflow(Offset),
}

/// Why a walk over a segment ended before its file did.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Damage(Corruption),
    Overflow(Offset),
    OutOfOrder { last: Offset, found: Offset },
    Interrupted,
}

impl Loader<'_> {
    /// Recovers a segment, and removes those behind it if it is cut.
    pub(super) fn recover(&mut self, recovery: Recovery) -> Result<Recovered, LoadError> {
        let log = SegmentFileName::new(recovery.base, FileKind::Log);
        let mut state = if self.is_trusted(recovery) {
            self.state_aside(recovery.base)?
        } else {
            let mut state = ProducerState::new(self.config.producers);
            self.replay(&mut state, recovery.base, false)?;
            state
        };
        let file = self.directory.open_log(log).map_err(|e| self.failed(e))?;
        let mut walk = SegmentWalk::new(self, recovery, &mut state, file.len());
        let end = scan(&file, recovery.base, walk.config.scan, &mut |batch, damage| {
            walk.take(batch, damage)
        });
        let outcome = end.map(|end| walk.finish(end));
        let found = outcome.map_err(|e| self.failed(e))?;
        match found.stop {
            Some(Stop::Interrupted) => {
                return Err(LoadError::Interrupted { dir: self.directory.path().clone() });
            }
            Some(Stop::Overflow(offset)) => return Ok(Recovered::Overflow(offset)),
            _ => {}
        }
        self.settle(recovery, &found, state, file.len())
    }

    /// Brings the files of a segment to what its walk has found.
    fn settle(
        &mut self,
        recovery: Recovery,
        found: &Found,
        mut state: ProducerState,
        file_bytes: u32,
    ) -> Result<Recovered, LoadError> {
        let base = recovery.base;
        let is_cut = found.kept_bytes < file_bytes && recovery.damage == Damage::Cut;
        // The snapshot at the base of a segment goes with the segment, also one just taken: the
        // load ends with a replay that knows more than one batch of each producer.
        let goes = is_cut && self.directory.bases().contains(&found.next_offset);
        if is_cut {
            tracing::warn!(
                base_offset = base.get(),
                kept_bytes = found.kept_bytes,
                next_offset = found.next_offset.get(),
                "Corruption found in segment, Truncating segment"
            );
            // Before the cut: a crash between must not leave a hole that looks sound.
            self.remove_behind(base, Reason::AfterCut(found.next_offset))?;
        }
        let is_walked = is_cut || found.kept_bytes == file_bytes;
        self.write_indexes(recovery, found, is_walked).map_err(|e| self.failed(e))?;
        if is_cut {
            self.cut(base, file_bytes, found).map_err(|e| self.failed(e))?;
        }
        if !self.is_trusted(recovery) {
            if !goes {
                state.take_snapshot(&mut self.directory, true).map_err(|e| self.failed(e))?;
            }
        } else if found.is_whole() && base >= self.log_start_offset {
            self.aside = Some((base, state));
        }
        self.note_end(base, found.next_offset);
        let kept_bytes = if is_cut { found.kept_bytes } else { file_bytes };
        self.report.recovered.push(RecoveredSegment {
            base_offset: base,
            file_bytes: file_bytes.into(),
            kept_bytes: kept_bytes.into(),
            batch_count: found.batch_count,
            next_offset: found.next_offset,
            damage: found.damage,
        });
        Ok(if is_cut { Recovered::Cut } else { Recovered::Whole })
    }

    /// Whether the segment was synced once. Then the epochs of its batches are known, and the
    /// snapshots behind it are as good as before; a cut is seen to at the end of the load.
    fn is_trusted(&self, recovery: Recovery) -> bool {
        self.config.clean_shutdown || recovery.damage == Damage::Keep
    }

    /// Writes the indexes where they differ. Behind damage that no walk passes, those that are
    /// there know more than what was found: they stay.
    fn write_indexes(
        &mut self,
        recovery: Recovery,
        found: &Found,
        is_walked: bool,
    ) -> Result<(), FileError> {
        // The offset index last: it is the one that a later start misses.
        let files = [
            (FileKind::TimeIndex, &found.indexes.time_index),
            (FileKind::TransactionIndex, &found.aborted),
            (FileKind::OffsetIndex, &found.indexes.offset_index),
        ];
        for (kind, bytes) in files {
            let name = SegmentFileName::new(recovery.base, kind);
            let is_there = self.directory.has(recovery.base, kind);
            if !is_walked && is_there && self.is_readable(name)? {
                continue;
            }
            // A segment without aborted transactions has no such file.
            let is_needed = is_there || kind != FileKind::TransactionIndex || !bytes.is_empty();
            let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let is_same = is_there
                && self.directory.len(name)? == len
                && self.directory.read(name, len)? == *bytes;
            if is_needed && !is_same {
                let sync = self.is_trusted(recovery);
                self.directory.write(name, bytes.clone(), recovery.reason, sync)?;
            }
        }
        Ok(())
    }

    /// Whether the entries of an index can be read, right or wrong.
    fn is_readable(&mut self, index: SegmentFileName) -> Result<bool, FileError> {
        match index.kind {
            FileKind::TransactionIndex => self.directory.is_txn_index_sound(index.offset),
            FileKind::TimeIndex => Ok(!self.directory.is_time_index_cut(index.offset)?),
            _ => self.directory.is_offset_index_whole(index),
        }
    }

    fn cut(&mut self, base: Offset, file_bytes: u32, found: &Found) -> Result<(), FileError> {
        let change = Change::Cut {
            file: SegmentFileName::new(base, FileKind::Log),
            from_bytes: file_bytes.into(),
            to_bytes: found.kept_bytes.into(),
        };
        let reason = match (found.stop, found.damage) {
            (Some(Stop::OutOfOrder { last, found }), _) => Reason::OutOfOrder { last, found },
            (_, Some(damage)) => Reason::Damage(damage),
            (_, None) => Reason::LeftOver,
        };
        self.directory.change(change, reason)
    }

    /// Rebuilds producer state up to an offset, with what is loaded so far.
    pub(super) fn replay(
        &mut self,
        state: &mut ProducerState,
        end: Offset,
        is_clean: bool,
    ) -> Result<(), LoadError> {
        let bases = self.directory.shared_bases();
        let mut replay = Replay::new(self.log_start_offset, end, self.config.now);
        replay.is_clean = is_clean;
        let mut open = |directory: &mut super::directory::Directory, base: Offset| {
            directory.open_log(SegmentFileName::new(base, FileKind::Log)).map(Some)
        };
        let mut warn = warn_once(&mut self.report.warnings);
        rebuild(state, &mut self.directory, &bases, &replay, &mut open, &mut warn)
            .map_err(|e| LoadError::file(self.directory.path(), e))
    }

    /// The producers at the base of a segment, the snapshots left as they are. What the walk over
    /// the segment before it came to is taken up: without snapshots, each segment would have all
    /// before it read again.
    fn state_aside(&mut self, base: Offset) -> Result<ProducerState, LoadError> {
        let bases = self.directory.shared_bases();
        let before = bases.iter().take(bases.partition_point(|it| *it < base)).next_back().copied();
        let walked = self.aside.take().filter(|(walked, _)| Some(*walked) == before);
        if let Some((walked, mut state)) = walked {
            let newer = (Bound::Excluded(walked), Bound::Included(base));
            if self.directory.offsets().range(newer).next().is_none() {
                state.set_map_end_offset(base);
                return Ok(state);
            }
        }
        let mut state = ProducerState::new(self.config.producers);
        self.replay_aside(&mut state, base)?;
        Ok(state)
    }

    /// As [`replay`](Self::replay), leaving the snapshots as they are.
    fn replay_aside(&mut self, state: &mut ProducerState, end: Offset) -> Result<(), LoadError> {
        let bases = self.directory.shared_bases();
        let replay = Replay::new(self.log_start_offset, end, self.config.now);
        let mut open = |scratch: &mut Scratch<'_>, base: Offset| {
            scratch.directory.open_log(SegmentFileName::new(base, FileKind::Log)).map(Some)
        };
        let mut scratch = Scratch::new(&mut self.directory);
        let mut warn = warn_once(&mut self.report.warnings);
        rebuild(state, &mut scratch, &bases, &replay, &mut open, &mut warn)
            .map_err(|e| LoadError::file(self.directory.path(), e))
    }
}

/// Takes a warning, unless it is there: many replays may meet the same damage.
fn warn_once(warnings: &mut Vec<Warning>) -> impl FnMut(Warning) {
    |warning| {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// What the walk over a segment has found.
struct Found {
    indexes: BuiltIndexes,
    aborted: Vec<u8>,
    kept_bytes: u32,
    batch_count: u64,
    next_offset: Offset,
    damage: Option<Corruption>,
    stop: Option<Stop>,
}

impl Found {
    const fn is_whole(&self) -> bool {
        self.damage.is_none() && self.stop.is_none()
    }
}

/// The walk over a segment, with all that its batches change.
struct SegmentWalk<'w, 'p> {
    config: super::LoadConfig,
    recovery: Recovery,
    /// The segment was synced once, and with it the epochs of its batches.
    is_trusted: bool,
    /// It should be split, and is too damaged for that.
    is_unsplit: bool,
    builder: IndexBuilder,
    epochs: &'w mut LeaderEpochCache,
    state: &'w mut ProducerState,
    aborted: Vec<u8>,
    batch_count: u64,
    next_offset: Offset,
    damage: Option<Corruption>,
    stop: Option<Stop>,
    warnings: &'w mut Vec<Warning>,
    /// Of the batches that cannot be in producer state, the first of a segment is told.
    is_told: bool,
    progress: &'w mut (dyn FnMut(Progress) -> ControlFlow<()> + 'p),
    total_bytes: u32,
    /// The byte at which the callback is next told.
    tell_at: u32,
}

impl<'w, 'p> SegmentWalk<'w, 'p> {
    fn new(
        loader: &'w mut Loader<'p>,
        recovery: Recovery,
        state: &'w mut ProducerState,
        total_bytes: u32,
    ) -> Self {
        let interval = loader.config.segment.index_interval_bytes;
        Self {
            config: loader.config,
            recovery,
            is_trusted: loader.is_trusted(recovery),
            is_unsplit: loader.unsplit.contains(&recovery.base),
            builder: IndexBuilder::new(recovery.base, interval),
            epochs: &mut loader.epochs,
            state,
            aborted: Vec::new(),
            batch_count: 0,
            next_offset: recovery.base,
            damage: None,
            stop: None,
            warnings: &mut loader.report.warnings,
            is_told: false,
            progress: loader.progress,
            total_bytes,
            tell_at: 0,
        }
    }

    fn take(&mut self, batch: &FoundBatch, damage: Option<Corruption>) -> ControlFlow<()> {
        let result = self.tell(batch).and_then(|()| self.check(batch, damage));
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(stop) => {
                self.stop = Some(stop);
                ControlFlow::Break(())
            }
        }
    }

    fn check(&mut self, batch: &FoundBatch, damage: Option<Corruption>) -> Result<(), Stop> {
        if let Some(damage) = damage {
            if self.recovery.damage == Damage::Cut {
                return Err(Stop::Damage(damage));
            }
            self.damage.get_or_insert(damage);
        }
        let info = batch.index_info();
        if let Some(damage) = batch.misplaced(self.recovery.base) {
            return Err(Stop::Damage(damage));
        }
        if info.last_offset.relative_to(self.recovery.base).is_none() {
            return Err(self.overflow(info.last_offset, batch));
        }
        if let Some(fall) = batch.falls_back(self.next_offset) {
            if self.recovery.damage == Damage::Cut {
                let last = Offset::new(self.next_offset.get().saturating_sub(1));
                return Err(Stop::OutOfOrder { last, found: info.last_offset });
            }
            // Not in the indexes, whose offsets rise.
            self.damage.get_or_insert(fall);
            return Ok(());
        }
        if self.builder.push(info).is_err() {
            return Err(Stop::Overflow(info.last_offset));
        }
        self.batch_count = self.batch_count.saturating_add(1);
        self.next_offset = batch.next_offset();
        if damage.is_none() {
            self.note(batch);
        }
        Ok(())
    }

    fn overflow(&self, offset: Offset, batch: &FoundBatch) -> Stop {
        if self.is_unsplit {
            return Stop::Damage(CorruptKind::out_of_range(offset.get()).at(batch.position));
        }
        Stop::Overflow(offset)
    }

    /// Takes a sound batch into leader epochs, producer state and the transaction index.
    fn note(&mut self, batch: &FoundBatch) {
        if !self.is_trusted
            && let Some(epoch) = batch.leader_epoch()
            && self.epochs.latest().is_none_or(|latest| epoch > latest.epoch)
        {
            self.epochs.assign(epoch, batch.base_offset());
        }
        let aborted = &mut self.aborted;
        let taken = take_replayed(self.state, batch, &mut |state, txn| {
            if txn.is_aborted {
                let stable = state.last_stable_offset(txn);
                let txn =
                    AbortedTxn::new(txn.producer_id, txn.first_offset, txn.last_offset, stable);
                aborted.extend_from_slice(&txn.to_bytes());
            }
        });
        if let Err(error) = taken
            && !std::mem::replace(&mut self.is_told, true)
        {
            let offset = batch.base_offset();
            self.warnings.push(Warning::ProducerBatch { offset, error });
        }
        self.state.set_map_end_offset(batch.next_offset());
    }

    fn tell(&mut self, batch: &FoundBatch) -> Result<(), Stop> {
        if batch.position.get() < self.tell_at {
            return Ok(());
        }
        self.tell_at = batch.position.get().saturating_add(TELL_BYTES);
        let told = (self.progress)(Progress::Scanning {
            base_offset: self.recovery.base,
            done_bytes: batch.position.get().into(),
            total_bytes: self.total_bytes.into(),
        });
        if told.is_break() { Err(Stop::Interrupted) } else { Ok(()) }
    }

    fn finish(self, end: ScanEnd) -> Found {
        let stop = self.stop.or(end.damage.map(Stop::Damage));
        let damage = match stop {
            Some(Stop::Damage(damage)) => self.damage.or(Some(damage)),
            _ => self.damage,
        };
        if let Some(damage) = damage.filter(|_| self.recovery.damage == Damage::Keep) {
            let base_offset = self.recovery.base;
            self.warnings.push(Warning::DamageKept { base_offset, damage });
        }
        Found {
            // Offsets rise, so the final entry is never below the last one.
            indexes: self.builder.finish().unwrap_or_default(),
            aborted: self.aborted,
            kept_bytes: end.valid_bytes,
            batch_count: self.batch_count,
            next_offset: self.next_offset,
            damage,
            stop,
        }
    }
}

/// Bytes between two calls of the progress callback.
const TELL_BYTES: u32 = 16 << 20;
