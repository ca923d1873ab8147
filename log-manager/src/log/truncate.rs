//! Cuts the end of a log off, or all of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alluvium_record_format::Offset;
use alluvium_segment::Segment;

use super::{Effects, Log, LogError, SegmentList, Shared, Writer};
use crate::LogConfig;
use crate::sync::MutexGuard;

impl Log {
    /// Drops the records from `offset` on; returns whether there were any. Whole batches go: a
    /// batch that holds `offset` goes as a whole, and the log ends at `offset` all the same.
    ///
    /// The cut is durable when the call returns: a sync of each file of the segment, one of the
    /// directory, and another of it for each segment that goes, the newest first, so that a crash
    /// leaves no hole; two where leader epochs go.
    /// The recovery point is lowered before, and what is kept of it by a
    /// [`OffsetKeeper`](crate::OffsetKeeper): two syncs more, and as many again for a
    /// log start that goes back.
    ///
    /// At or above the log end nothing is removed, but leader epochs that begin there are
    /// forgotten: two elections without records in between leave such.
    ///
    /// Source: `UnifiedLog.truncateTo` in Kafka.
    ///
    /// # Errors
    ///
    /// `IllegalOffset` below 0, `Closed`. Where a file cannot be changed, the log stands half
    /// cut: its directory goes `Offline`, and recovery mends it.
    pub fn truncate_to(&self, offset: Offset) -> Result<bool, LogError> {
        self.cut_at(offset, offset, |writer, shared, config, effects| {
            let end = shared.log_end();
            if offset >= end {
                return writer.cut_epochs(shared, end).map(|()| false);
            }
            let cut = if offset < writer.segments.first().base_offset() {
                writer.restart_at(shared, config, offset, offset, effects)
            } else {
                writer.cut(shared, config, offset, effects)
            };
            cut.map(|()| true).map_err(|error| shared.disk_failed(error))
        })
    }

    /// Drops all records; the log then begins and ends at `offset`. `log_start_offset` may lie
    /// below.
    ///
    /// Source: `UnifiedLog.truncateFullyAndStartAt` in Kafka.
    ///
    /// # Errors
    ///
    /// As [`truncate_to`](Self::truncate_to); `IllegalOffset` too where the log would start above
    /// its end.
    pub fn truncate_fully_and_start_at(
        &self,
        offset: Offset,
        log_start_offset: Option<Offset>,
    ) -> Result<(), LogError> {
        let start = log_start_offset.unwrap_or(offset);
        self.cut_at(offset, start, |writer, shared, config, effects| {
            let restarted = writer.restart_at(shared, config, offset, start, effects);
            restarted.map_err(|error| shared.disk_failed(error))
        })
    }

    /// Changes the log under its lock, then does what may wait and wakes who waits.
    pub(super) fn change<T>(
        &self,
        work: impl FnOnce(&mut Writer, &Arc<Shared>, &LogConfig, &mut Effects) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        self.change_holding(self.shared.writer.lock(), (), work)
    }

    /// As [`change`](Self::change), for a cut at `offset` after which the log starts no higher than
    /// at `start`: no flush, no retention and no replacement runs beside it, and neither the
    /// recovery point nor a log start that is kept lies above.
    fn cut_at<T>(
        &self,
        offset: Offset,
        start: Offset,
        work: impl FnOnce(&mut Writer, &Arc<Shared>, &LogConfig, &mut Effects) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let shared = &self.shared;
        shared.check_open()?;
        // Before any lock: no log start ever comes down to an offset below 0.
        check_cut(offset, start)?;
        let layout = shared.layout.lock();
        let flushing = shared.flushing.lock();
        loop {
            let limit = shared.lower_log_start(start)?;
            shared.lower_recovery_point(offset)?;
            let writer = shared.writer.lock();
            // A log start that has passed the cut meanwhile took the recovery point along.
            if !shared.is_recovered_above(offset) && (limit.is_some() || !shared.lies_below(start))
            {
                return self.change_holding(writer, (limit, flushing, layout), work);
            }
        }
    }

    fn change_holding<T, H>(
        &self,
        mut writer: MutexGuard<'_, Writer>,
        held: H,
        work: impl FnOnce(&mut Writer, &Arc<Shared>, &LogConfig, &mut Effects) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let shared = &self.shared;
        let config = shared.config.load();
        let mut effects = Effects::default();
        shared.check_open()?;
        let result = work(&mut writer, shared, &config, &mut effects);
        drop(writer);
        drop(held);
        effects.run(shared);
        shared.notifier.notify();
        result
    }
}

/// Refuses an offset that no log can be cut at.
pub(super) fn check_offset(offset: Offset, max: Offset) -> Result<(), LogError> {
    let min = Offset::new(0);
    if offset < min || offset > max {
        return Err(LogError::IllegalOffset { offset, min, max });
    }
    Ok(())
}

/// Whether a log may end at `offset` and start at `start`.
pub(crate) fn check_cut(offset: Offset, start: Offset) -> Result<(), LogError> {
    check_offset(offset, Offset::MAX)?;
    check_offset(start, offset)
}

/// Keeps a log start above that of a cut from being kept anew until the cut is over.
struct LogStartLimit<'a>(&'a Shared);

impl Drop for LogStartLimit<'_> {
    fn drop(&mut self) {
        self.0.log_start_limit.store(i64::MAX, Ordering::Release);
    }
}

impl Shared {
    /// Lowers the log start where it is kept, for a cut that is about to move it down to `start`.
    fn lower_log_start(&self, start: Offset) -> Result<Option<LogStartLimit<'_>>, LogError> {
        self.check_open()?;
        if !self.lies_below(start) {
            return Ok(None);
        }
        // First, so that no checkpoint is written with the log start that there is still.
        self.log_start_limit.store(start.get(), Ordering::Release);
        let limit = LogStartLimit(self);
        if let Some(keeper) = &self.keeper {
            let lowered = keeper.lower_log_start(start);
            lowered.map_err(|source| self.disk_failed(LogError::File { source }))?;
        }
        Ok(Some(limit))
    }

    /// Whether this is below the log start.
    fn lies_below(&self, start: Offset) -> bool {
        start < self.log_start()
    }

    /// Lowers the recovery point to a cut that is about to be made, where it is kept too.
    fn lower_recovery_point(&self, offset: Offset) -> Result<(), LogError> {
        self.check_open()?;
        if !self.is_recovered_above(offset) {
            return Ok(());
        }
        self.recovery_point.fetch_min(offset.get(), Ordering::AcqRel);
        #[cfg(alluvium_mutant)]
        if alluvium_segment::mutant::is("late-recovery-point") {
            return Ok(());
        }
        let Some(keeper) = &self.keeper else { return Ok(()) };
        keeper.lower(offset).map_err(|source| self.disk_failed(LogError::File { source }))
    }

    /// The log ends at `offset` now: what comes there next was never synced.
    fn lower_flushed(&self, offset: Offset) {
        self.recovery_point.fetch_min(offset.get(), Ordering::AcqRel);
        self.flushed.fetch_min(offset.get(), Ordering::AcqRel);
        self.commits.lower(offset);
    }

    /// Whether a cut at `offset` removes something below the recovery point.
    fn is_recovered_above(&self, offset: Offset) -> bool {
        offset < self.log_end() && offset.get() < self.recovery_point.load(Ordering::Acquire)
    }
}

impl Writer {
    /// Drops the epochs that begin at `offset` or above. Durably: were one to come back in a crash,
    /// it would lie over what is appended next in an older one, as a follower does.
    fn cut_epochs(&mut self, shared: &Shared, offset: Offset) -> Result<(), LogError> {
        if !self.epochs.truncate_from_end(offset) {
            return Ok(());
        }
        self.publish_epochs(shared);
        self.write_epochs(shared)
    }

    fn cut(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        offset: Offset,
        effects: &mut Effects,
    ) -> Result<(), LogError> {
        let to = offset.get();
        let _span = tracing::info_span!("truncate", log = shared.name(), to).entered();
        tracing::info!(log = shared.name(), to, "Truncating log");
        self.located_unstable = None;
        let mut kept = self.segments.to_vec();
        let keep = kept.partition_point(|segment| segment.base_offset() <= offset);
        let gone = kept.split_off(keep);
        // Readers must not look for records that are about to go.
        shared.log_end.store(offset.get(), Ordering::Release);
        if !gone.is_empty() {
            self.publish_segments(shared, SegmentList::new(&kept));
            let last = Arc::clone(self.segments.active());
            self.reopen_active(shared, config, last)?;
            self.remove_last(shared, config, gone, effects)?;
        }
        let now = shared.clock.now();
        self.active_mut().truncate_to(offset, now)?;
        self.segments.publish_end();
        self.sync_cut(shared)?;
        shared.lower_flushed(offset);
        self.cut_epochs(shared, offset)?;
        shared.log_start.fetch_min(offset.get(), Ordering::AcqRel);
        self.rebuild_producers(shared, offset)?;
        self.cap_high_watermark(shared);
        Ok(())
    }

    /// Renames the files of segments that end the log, the newest first, and leaves their deletion
    /// to later; their snapshots go with them. Each loss is durable before the next one, and before
    /// anything below is cut: of what a crash leaves, no part lies above a hole.
    fn remove_last(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        segments: Vec<Arc<Segment>>,
        effects: &mut Effects,
    ) -> Result<(), LogError> {
        let mut snapshots = Vec::new();
        for segment in segments.iter().rev() {
            shared.rename_leaving(segment, &mut self.snapshots, &mut snapshots)?;
            shared.dir.sync_names()?;
        }
        effects.delete(config.file_delete_delay_ms(), segments, snapshots);
        Ok(())
    }

    /// Were the cut lost in a crash, what is appended next would lie behind what was cut off.
    fn sync_cut(&mut self, shared: &Shared) -> Result<(), LogError> {
        #[cfg(alluvium_mutant)]
        if alluvium_segment::mutant::is("unsynced-cut") {
            return Ok(());
        }
        // With its indexes: no flush looks below the cut again, and an aborted transaction that
        // came back would hide what another one commits.
        self.active_mut().segment().flush()?;
        Ok(shared.dir.sync_names()?)
    }

    fn restart_at(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        offset: Offset,
        start: Offset,
        effects: &mut Effects,
    ) -> Result<(), LogError> {
        let at = offset.get();
        let _span = tracing::info_span!("truncate", log = shared.name(), to = at).entered();
        tracing::info!(log = shared.name(), at, "Truncating and starting log");
        self.located_unstable = None;
        self.active = None;
        // Were an old segment to come back in a crash, it would lie over the new one.
        self.remove_last(shared, config, self.segments.to_vec(), effects)?;
        let next = self.new_segment(shared, config, offset)?;
        let list = SegmentList::new(&[Arc::clone(next.segment())]);
        self.active = Some(next);
        shared.log_end.store(offset.get(), Ordering::Release);
        self.publish_segments(shared, list);
        shared.lower_flushed(offset);
        self.epochs.clear();
        self.publish_epochs(shared);
        self.write_epochs(shared)?;
        self.forget_producers(offset)?;
        shared.log_start.store(start.get(), Ordering::Release);
        self.rebuild_producers(shared, offset)?;
        self.set_high_watermark(shared, offset);
        Ok(())
    }
}
