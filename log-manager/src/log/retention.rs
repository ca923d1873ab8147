//! Which old segments go, and how.

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_recovery::SnapshotDir;
use alluvium_segment::{Segment, Suffix};
use tracing::field::Empty;

use super::segments::bytes_of;
use super::{Effects, Log, LogError, SegmentList, Shared, Writer};
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
    /// A crash leaves no hole that anybody reads: each loss is durable before the next, by one sync
    /// of the directory a segment. Where more than three go and a
    /// [`OffsetKeeper`](crate::OffsetKeeper) keeps the log start, that is durable
    /// before the first, and one sync does for all. When it returns, all losses are durable.
    /// Appends go on meanwhile; a truncation and a replacement wait until the next 500 segments at
    /// most are gone, a close for the next one.
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
        if !matches!(deleted, Ok(0)) {
            shared.notifier.notify();
        }
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
        if matches!(moved, Ok(true)) {
            shared.notifier.notify();
        }
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

    /// Moves the log start to the first segment that stays, and lets go of what belongs to those
    /// before it: from now on no reader asks for them.
    fn leave_first(
        &mut self,
        count: usize,
        shared: &Shared,
        effects: &mut Effects,
    ) -> Result<Leaving, LogError> {
        let segments = Arc::clone(&self.segments);
        let mut all = segments.all();
        let going: Vec<_> = all.by_ref().take(count).cloned().collect();
        let new_start = all.next().map_or(shared.log_end(), |next| next.base_offset());
        if new_start > shared.log_start() {
            self.increment_log_start(shared, new_start, effects)?;
        }
        let snapshots = self.snapshots.take(going.iter().map(|segment| segment.base_offset()));
        self.unsynced_snapshots.retain(|offset| *offset >= new_start);
        Ok(Leaving { segments: going, snapshots })
    }
}

/// Segments that are below the log start, and their snapshots.
struct Leaving {
    segments: Vec<Arc<Segment>>,
    snapshots: SnapshotDir,
}

impl Shared {
    /// Drops what the rules no longer keep, some segments at a time. Appends go on beside all of it
    /// but the move of the log start and the change of the list. Where the active segment may go
    /// too, it and those before it are judged once more while appends wait.
    fn delete_old_segments(&self, effects: &mut Effects) -> Result<usize, LogError> {
        let config = self.config.load();
        let (name, segments, bytes) = (self.name(), Empty, Empty);
        let span = tracing::info_span!("retention", log = name, segments, bytes).entered();
        let (mut deleted, mut deleted_bytes) = (0, 0);
        for &rule in RetentionRule::of(&config) {
            loop {
                // Let go of each time: a truncation that waits comes in between.
                let layout = self.layout.lock();
                let gone = self.delete_for(rule, &config, effects)?;
                drop(layout);
                deleted += gone.len();
                deleted_bytes += bytes_of(&gone);
                if gone.len() < MOST_AT_ONCE {
                    break;
                }
            }
        }
        if deleted > 0 {
            span.record("segments", deleted).record("bytes", deleted_bytes);
        }
        Ok(deleted)
    }

    /// Drops the oldest segments that one rule no longer keeps, [`MOST_AT_ONCE`] at most, and
    /// returns them.
    fn delete_for(
        &self,
        rule: RetentionRule,
        config: &LogConfig,
        effects: &mut Effects,
    ) -> Result<Vec<Arc<Segment>>, LogError> {
        self.check_open()?;
        let (segments, judged_at) = (self.segments.load_full(), self.retention_state());
        let mut count = self.count_for(rule, config, &segments, judged_at)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut goes_whole = false;
        let mut writer = self.writer.lock();
        self.check_open()?;
        let watermark = self.high_watermark.load().offset;
        if count == segments.len() || watermark < judged_at.high_watermark {
            // What was appended meanwhile may keep the active segment, and a watermark that was
            // moved back keeps more.
            let segments = Arc::clone(&writer.segments);
            count = self.count_for(rule, config, &segments, self.retention_state())?;
            if count == 0 {
                return Ok(Vec::new());
            }
            if count == segments.len() {
                writer.roll(self, config, None, effects)?;
                goes_whole = true;
            }
        }
        tracing::info!(log = self.name(), count, ?rule, "deleting old segments");
        let mut leaving = writer.leave_first(count, self, effects)?;
        drop(writer);
        // Those alone know the producers of what goes.
        self.keep_producers()?;
        if goes_whole {
            self.keep_last_name()?;
        }
        let is_start_kept = self.keep_log_start(count)?;
        let (snapshots, removed) = self.rename_all(&mut leaving, is_start_kept);
        let Leaving { segments: gone, .. } = leaving;
        let mut writer = self.writer.lock();
        // Also where one could not go: the list says what is on the disk.
        let list = writer.segments.without_first(gone.len());
        writer.publish_segments(self, list);
        drop(writer);
        crate::metrics::segments_deleted(gone.len());
        effects.delete(config.file_delete_delay_ms(), gone.clone(), snapshots);
        removed.map(|()| gone)
    }

    /// How many of the oldest segments one rule no longer keeps, as far as they go at once.
    fn count_for(
        &self,
        rule: RetentionRule,
        config: &LogConfig,
        segments: &SegmentList,
        state: RetentionState,
    ) -> Result<usize, LogError> {
        let mut count = 0;
        for found in Judge::new(rule, config, state, segments.all()).take(MOST_AT_ONCE) {
            let found = found?;
            warn_of_future(self, found);
            if !found.lets_go() {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Renames the files of segments from the oldest on; leaves those in `leaving` that it came to,
    /// and returns the snapshots of these.
    fn rename_all(
        &self,
        leaving: &mut Leaving,
        is_start_kept: bool,
    ) -> (Vec<PathBuf>, Result<(), LogError>) {
        let mut snapshots = Vec::new();
        let mut gone = 0;
        let removed = leaving.segments.iter().try_for_each(|oldest| {
            // A close waits.
            self.check_open()?;
            if gone > 0 && !is_start_kept {
                // A crash must not keep the loss of this one and forget that of the one before.
                self.sync_names()?;
            }
            let renamed = self.rename_leaving(oldest, &mut leaving.snapshots, &mut snapshots);
            renamed.map_err(|error| self.disk_failed(error))?;
            gone += 1;
            Ok(())
        });
        leaving.segments.truncate(gone);
        // Before the list begins at the log start, which need not be kept any more then: no
        // checkpoint holds it, and what came back would be read.
        let synced = self.sync_names();
        (snapshots, removed.and(synced))
    }

    /// Has the log start made durable where many segments are about to go.
    fn keep_log_start(&self, count: usize) -> Result<bool, LogError> {
        let Some(keeper) = self.keeper.as_ref().filter(|_| count > MOST_BY_SYNCS) else {
            return Ok(false);
        };
        #[cfg(alluvium_mutant)]
        if alluvium_segment::mutant::is("forgotten-log-start") {
            return Ok(true);
        }
        let kept = keeper.keep_log_start(self.log_start());
        kept.map_err(|source| self.disk_failed(LogError::File { source }))
    }

    /// Renames the files of a segment that is in no list any more, and its snapshot.
    pub(super) fn rename_leaving(
        &self,
        segment: &Segment,
        from: &mut SnapshotDir,
        renamed: &mut Vec<PathBuf>,
    ) -> Result<(), LogError> {
        segment.rename(Suffix::Deleted)?;
        let snapshot = from.mark_deleted(segment.base_offset())?;
        renamed.extend(snapshot.map(|name| self.dir.file_path(name)));
        Ok(())
    }

    fn retention_state(&self) -> RetentionState {
        RetentionState::new(self.log_start(), self.log_end(), self.clock.now())
            .high_watermark(self.high_watermark.load().offset)
    }
}

/// One record from the future keeps its segment and all later ones for as long.
fn warn_of_future(shared: &Shared, found: RetentionFinding) {
    if let RetentionFinding::Ages { largest, .. } = found
        && found.is_from_the_future()
    {
        let timestamp = largest.get();
        tracing::warn!(log = shared.name(), timestamp, "a record from the future keeps segments");
    }
}

/// With more, to keep the log start first takes fewer syncs: two for its file, one of the names.
const MOST_BY_SYNCS: usize = 3;

/// After as many, who waits to change the log comes in between. Without a keeper each takes a sync
/// of the directory, a few milliseconds on a hard disk.
const MOST_AT_ONCE: usize = 500;
