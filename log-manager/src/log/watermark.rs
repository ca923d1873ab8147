//! High watermark, last stable offset, log start.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alluvium_record_format::Offset;

use super::{Log, LogError, LogPosition, Shared, Writer};

impl Log {
    /// The offset below which records are on all replicas that count; readers see no further.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.shared.high_watermark.load().offset
    }

    /// The offset below which every transaction has ended and is replicated.
    #[must_use]
    pub fn last_stable_offset(&self) -> Offset {
        self.shared.last_stable_offset()
    }

    /// Sets the high watermark, within log start and log end, and returns what it is then.
    ///
    /// May move it back, as a follower must.
    ///
    /// Source: `UnifiedLog.updateHighWatermark` in Kafka.
    ///
    /// # Errors
    ///
    /// `Closed`, `Offline`.
    pub fn update_high_watermark(&self, offset: Offset) -> Result<Offset, LogError> {
        let shared = &*self.shared;
        let mut writer = shared.writer.lock();
        shared.check_open()?;
        let set = writer.set_high_watermark(shared, offset);
        drop(writer);
        shared.notifier.notify();
        Ok(set)
    }

    /// Moves the high watermark forward; `None` where it is there already. What a leader does.
    ///
    /// Source: `UnifiedLog.maybeIncrementHighWatermark` in Kafka.
    ///
    /// # Errors
    ///
    /// `IllegalOffset` above the log end, `Closed`, `Offline`.
    pub fn increment_high_watermark(&self, offset: Offset) -> Result<Option<Offset>, LogError> {
        let shared = &*self.shared;
        shared.check_open()?;
        let check = || {
            let (min, max) = (shared.log_start(), shared.log_end());
            if offset > max { Err(LogError::IllegalOffset { offset, min, max }) } else { Ok(()) }
        };
        check()?;
        // What readers see is compared: the base offset of the batch that the old one lies in.
        shared.high_watermark_position()?;
        let mut writer = shared.writer.lock();
        shared.check_open()?;
        check()?;
        let old = shared.high_watermark.load().offset;
        if offset <= old {
            return Ok(None);
        }
        writer.set_high_watermark(shared, offset);
        drop(writer);
        shared.notifier.notify();
        Ok(Some(old))
    }
}

impl Shared {
    /// The last stable offset.
    pub(super) fn last_stable_offset(&self) -> Offset {
        let high_watermark = self.high_watermark.load().offset;
        match &*self.first_unstable.load() {
            Some(unstable) if unstable.offset < high_watermark => unstable.offset,
            _ => high_watermark,
        }
    }

    /// The high watermark with its place.
    ///
    /// Where the place was not known, the watermark becomes that of the batch found there: a
    /// reader must not see part of it.
    ///
    /// Source: `UnifiedLog.fetchHighWatermarkMetadata` in Kafka.
    pub(super) fn high_watermark_position(&self) -> Result<LogPosition, LogError> {
        let current = self.high_watermark.load();
        if current.place.is_some() {
            return Ok(**current);
        }
        let Some(found) = self.locate_bound(&current)? else { return Ok(**current) };
        // A watermark that was set meanwhile stays.
        self.high_watermark.compare_and_swap(&*current, Arc::new(found));
        // Kafka sets it as an update does. Never waits: a writer at work publishes the first
        // unstable offset itself. The watermark of now: a truncation may have come between.
        if let Some(mut writer) = self.writer.try_lock() {
            writer.producers.on_high_watermark(self.high_watermark.load().offset);
            writer.publish_first_unstable(self);
        }
        Ok(found)
    }

    /// The place of a bound of what readers see; `None` where it lies outside of the log: a writer
    /// who has moved an end of the log is about to move it, and until then it lets nobody see
    /// anything.
    fn locate_bound(&self, bound: &LogPosition) -> Result<Option<LogPosition>, LogError> {
        match self.locate(bound.offset) {
            Err(LogError::OffsetOutOfRange { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The last stable offset with its place.
    ///
    /// Source: `UnifiedLog.fetchLastStableOffsetMetadata` in Kafka.
    pub(super) fn last_stable_position(&self) -> Result<LogPosition, LogError> {
        let high_watermark = self.high_watermark_position()?;
        let unstable = self.first_unstable.load();
        match &*unstable {
            Some(unstable) if unstable.offset < high_watermark.offset => {
                if unstable.place.is_some() {
                    return Ok(**unstable);
                }
                let Some(found) = self.locate_bound(unstable)? else { return Ok(**unstable) };
                self.first_unstable.compare_and_swap(unstable, Some(Arc::new(found)));
                Ok(found)
            }
            _ => Ok(high_watermark),
        }
    }
}

impl Writer {
    /// Sets the high watermark within its bounds.
    pub(super) fn set_high_watermark(&mut self, shared: &Shared, offset: Offset) -> Offset {
        let end = shared.log_end_position(&self.segments);
        let position = if offset < shared.log_start() {
            LogPosition::somewhere(shared.log_start())
        } else if offset >= end.offset {
            end
        } else {
            LogPosition::somewhere(offset)
        };
        self.publish_high_watermark(shared, position);
        position.offset
    }

    /// Keeps a high watermark that the log end has come down to, or gone past in another
    /// segment, at the log end.
    ///
    /// Source: `UnifiedLog.updateHighWatermarkWithLogEndOffset` in Kafka.
    pub(super) fn cap_high_watermark(&mut self, shared: &Shared) {
        if shared.high_watermark.load().offset >= shared.log_end() {
            let end = shared.log_end_position(&self.segments);
            self.publish_high_watermark(shared, end);
        }
    }

    fn publish_high_watermark(&mut self, shared: &Shared, position: LogPosition) {
        shared.high_watermark.store(Arc::new(position));
        self.producers.on_high_watermark(position.offset);
        self.publish_first_unstable(shared);
    }

    /// Moves the log start up and everything that must not lie below it.
    ///
    /// Source: `UnifiedLog.updateLogStartOffset` in Kafka.
    pub(super) fn raise_log_start(&mut self, shared: &Shared, offset: Offset) {
        shared.log_start.store(offset.get(), Ordering::Release);
        if shared.high_watermark.load().offset < offset {
            self.set_high_watermark(shared, offset);
        }
        shared.recovery_point.fetch_max(offset.get(), Ordering::AcqRel);
        shared.flushed.fetch_max(offset.get(), Ordering::AcqRel);
    }
}
