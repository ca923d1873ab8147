//! Which old segments go, and how.

use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_segment::Segment;
use tracing::field::Empty;

use super::segments::bytes_of;
use super::{Effects, Log, LogError, Shared, Writer};
use crate::LogConfig;
use crate::RetentionPlan;
use crate::retention::{Judge, RetentionFinding, RetentionRule, RetentionState};

impl Log {
    /// Drops the oldest segments that the settings no longer keep, and returns how many.
    ///
    /// Segments go whole, from the oldest on, as far as the high watermark. The files follow
    /// after `file.delete.delay.ms`; who reads them goes on. A log that is only compacted loses
    /// what lies below the log start.
    ///
    /// Each loss is durable before the next, so a crash leaves no hole: one sync of the directory
    /// a segment. Appends go on after every 16 segments.
    ///
    /// Source: `UnifiedLog.deleteOldSegments` in Kafka.
    ///
    /// # Errors
    ///
    /// `Closed`; what reading a segment's times yields. Where a file cannot be renamed, its
    /// directory goes `Offline`. What went before stays gone.
    pub fn delete_old_segments(&self) -> Result<usize, LogError> {
        let shared = &self.shared;
        let mut effects = Effects::default();
        let deleted = shared.delete_old_segments(&mut effects);
        effects.run(shared);
        deleted
    }

    /// What [`delete_old_segments`](Self::delete_old_segments) would do now, and why it leaves the
    /// rest. Changes nothing.
    ///
    /// # Errors
    ///
    /// What reading a segment's times yields.
    pub fn retention_plan(&self) -> Result<RetentionPlan, LogError> {
        let shared = &self.shared;
        let segments = shared.segments.load_full();
        let state = shared.retention_state();
        Ok(RetentionPlan::new(&segments.to_vec(), &shared.config.load(), state)?)
    }

    /// Moves the log start up to `offset`, the high watermark at most; returns whether it moved.
    /// Segments that lie below it as a whole go with the next
    /// [`delete_old_segments`](Self::delete_old_segments).
    ///
    /// Source: `UnifiedLog.maybeIncrementLogStartOffset` in Kafka.
    ///
    /// # Errors
    ///
    /// `OffsetOutOfRange` above the high watermark, `Closed`, `Offline`.
    pub fn increment_log_start_offset(&self, offset: Offset) -> Result<bool, LogError> {
        let shared = &self.shared;
        let mut effects = Effects::default();
        let mut writer = shared.writer.lock();
        shared.check_open()?;
        let moved = writer.increment_log_start(shared, offset, &mut effects);
        drop(writer);
        effects.run(shared);
        moved
    }

    /// Deletes the records below `offset`, or below the high watermark; returns the log start.
    ///
    /// Source: `DeleteRecords` in Kafka's protocol, `ReplicaManager.deleteRecordsOnLocalLog`.
    ///
    /// # Errors
    ///
    /// `NotDeletable` on a log that is only compacted, `OffsetOutOfRange` below 0 and above the
    /// high watermark, `Closed`, `Offline`.
    pub fn delete_records(&self, offset: Option<Offset>) -> Result<Offset, LogError> {
        let policy = self.shared.config.load().cleanup_policy();
        if policy.compacts() && !policy.deletes() {
            return Err(LogError::NotDeletable);
        }
        let max = self.high_watermark();
        let offset = offset.unwrap_or(max);
        if offset.get() < 0 || offset > max {
            let min = self.log_start_offset();
            return Err(LogError::OffsetOutOfRange { offset, min, max });
        }
        self.increment_log_start_offset(offset)?;
        Ok(self.log_start_offset())
    }
}

impl Writer {
    fn increment_log_start(
        &mut self,
        shared: &Shared,
        offset: Offset,
        effects: &mut Effects,
    ) -> Result<bool, LogError> {
        let (min, max) = (shared.log_start(), shared.high_watermark.load().offset);
        if offset > max {
            return Err(LogError::OffsetOutOfRange { offset, min, max });
        }
        if offset <= min {
            return Ok(false);
        }
        tracing::info!(log = shared.name(), from = min.get(), to = offset.get(), "log start moves");
        self.raise_log_start(shared, offset);
        if self.epochs.truncate_from_start(offset) {
            self.publish_epochs(shared);
            effects.write_epochs();
        }
        self.producers.on_log_start(offset, self.newest_snapshot());
        self.publish_first_unstable(shared);
        Ok(true)
    }

    /// Drops the oldest segments that one rule no longer keeps, [`MOST_AT_ONCE`] at most; returns
    /// how many, and their bytes.
    fn delete_for(
        &mut self,
        rule: RetentionRule,
        shared: &Shared,
        config: &LogConfig,
        effects: &mut Effects,
    ) -> Result<(usize, u64), LogError> {
        let segments = Arc::clone(&self.segments);
        let mut count = 0;
        let judge = Judge::new(rule, config, shared.retention_state(), segments.all());
        for found in judge.take(MOST_AT_ONCE) {
            let found = found?;
            warn_of_future(shared, found);
            if !found.lets_go() {
                break;
            }
            count += 1;
        }
        if count == 0 {
            return Ok((0, 0));
        }
        tracing::info!(log = shared.name(), count, ?rule, "deleting old segments");
        self.delete_first(shared, config, count, effects)?;
        crate::metrics::segments_deleted(count);
        Ok((count, bytes_of(segments.all().take(count))))
    }

    /// Drops the first `count` segments. Where these are all, a new one begins before.
    fn delete_first(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        count: usize,
        effects: &mut Effects,
    ) -> Result<(), LogError> {
        if self.segments.len() == count {
            self.roll(shared, config, None, effects)?;
        }
        let segments = Arc::clone(&self.segments);
        let Some(next) = segments.all().nth(count) else { return Ok(()) };
        let new_start = next.base_offset();
        if new_start > shared.log_start() {
            self.increment_log_start(shared, new_start, effects)?;
        }
        let mut gone = 0;
        let removed = segments.all().take(count).try_for_each(|oldest| {
            self.remove_oldest(shared, config, oldest, effects)?;
            gone += 1;
            Ok(())
        });
        // Also where one could not go: the list says what is on the disk.
        self.publish_segments(shared, segments.without_first(gone));
        removed
    }

    /// Renames the files of the oldest segment.
    fn remove_oldest(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        oldest: &Arc<Segment>,
        effects: &mut Effects,
    ) -> Result<(), LogError> {
        if std::mem::replace(&mut self.is_loss_unsynced, true) {
            // A crash must not keep the loss of this one and forget that of the one before.
            shared.sync_names()?;
        }
        self.remove_files(config, vec![Arc::clone(oldest)], effects)
            .map_err(|error| shared.disk_failed(error))
    }

    /// Renames the files of segments that are in no list any more, and leaves their deletion to
    /// later. Their snapshots go with them.
    pub(super) fn remove_files(
        &mut self,
        config: &LogConfig,
        segments: Vec<Arc<Segment>>,
        effects: &mut Effects,
    ) -> Result<(), LogError> {
        let mut snapshots = Vec::new();
        for segment in &segments {
            segment.rename(alluvium_segment::Suffix::Deleted)?;
            let snapshot = self.snapshots.mark_deleted(segment.base_offset())?;
            snapshots.extend(snapshot.map(|name| segment.dir().file_path(name)));
        }
        effects.delete(config.file_delete_delay_ms(), segments, snapshots);
        Ok(())
    }
}

impl Shared {
    /// Drops what the rules no longer keep, some at a time: appends wait for the syncs of those,
    /// not of all.
    fn delete_old_segments(&self, effects: &mut Effects) -> Result<usize, LogError> {
        let config = self.config.load();
        let (name, segments, bytes) = (self.name(), Empty, Empty);
        let span = tracing::info_span!("retention", log = name, segments, bytes).entered();
        let (mut deleted, mut deleted_bytes) = (0, 0);
        for &rule in RetentionRule::of(&config) {
            loop {
                let mut writer = self.writer.lock();
                self.check_open()?;
                let (count, bytes) = writer.delete_for(rule, self, &config, effects)?;
                // Who has waited for as long as some syncs take is given the lock.
                drop(writer);
                deleted += count;
                deleted_bytes += bytes;
                if count < MOST_AT_ONCE {
                    break;
                }
            }
        }
        if deleted > 0 {
            span.record("segments", deleted).record("bytes", deleted_bytes);
        }
        Ok(deleted)
    }

    fn retention_state(&self) -> RetentionState {
        RetentionState::new(self.log_start(), self.log_end(), self.clock.now())
            .high_watermark(self.high_watermark.load().offset)
    }
}

/// So many segments go at most while appends wait.
const MOST_AT_ONCE: usize = 16;

/// One record from the future keeps its segment and all later ones for as long.
fn warn_of_future(shared: &Shared, found: RetentionFinding) {
    if let RetentionFinding::Ages { largest, .. } = found
        && found.is_from_the_future()
    {
        let timestamp = largest.get();
        tracing::warn!(log = shared.name(), timestamp, "a record from the future keeps segments");
    }
}
