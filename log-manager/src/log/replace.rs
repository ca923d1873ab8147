//! Segments of a log that others take the place of: what a cleaner does, and what it must know.

use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_recovery::{ProducerEntry, SnapshotDir, SnapshotStore};
use alluvium_segment::Segment;
use alluvium_segment::replace::Replacement;

use super::{Effects, Log, LogError, LogPosition, SegmentList, Shared, Writer};
use crate::LogConfig;

/// What a cleaner must know of a log, at one moment.
///
/// Nothing keeps the log from going on: a cleaner keeps truncation off by its
/// [`CleaningGate`](crate::CleaningGate), and appends only add to the active segment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CleaningView {
    /// All segments, in order; the last one is active.
    pub segments: Vec<Arc<Segment>>,
    /// The first offset that a reader may ask for.
    pub log_start_offset: Offset,
    /// The offset of the next record.
    pub log_end_offset: Offset,
    /// The offset below which records are replicated.
    pub high_watermark: Offset,
    /// The offset below which every transaction has ended: no cleaning goes further.
    pub last_stable_offset: Offset,
    /// The settings in force.
    pub config: Arc<LogConfig>,
}

impl CleaningView {
    /// The active segment, which no cleaning touches.
    #[must_use]
    pub fn active(&self) -> Option<&Arc<Segment>> {
        self.segments.last()
    }
}

impl Log {
    /// What a cleaner must know to choose what to clean. Never waits.
    ///
    /// # Errors
    ///
    /// `Closed`, `Offline`.
    pub fn cleaning_view(&self) -> Result<CleaningView, LogError> {
        let shared = &*self.shared;
        shared.check_open()?;
        // The bounds first: what they bound is then in the list.
        let (high_watermark, last_stable_offset) =
            (self.high_watermark(), shared.last_stable_offset());
        let segments = shared.segments.load();
        Ok(CleaningView {
            segments: segments.to_vec(),
            log_start_offset: shared.log_start(),
            log_end_offset: shared.log_end(),
            high_watermark,
            last_stable_offset,
            config: shared.config.load_full(),
        })
    }

    /// The producers that the log remembers, in no order: their last batches must survive a
    /// cleaning, empty if need be, or the next start forgets their sequences.
    ///
    /// Source: `UnifiedLog.lastRecordsOfActiveProducers` in Kafka.
    ///
    /// # Errors
    ///
    /// `Closed`, `Offline`.
    pub fn active_producers(&self) -> Result<Vec<ProducerEntry>, LogError> {
        let writer = self.shared.writer.lock();
        self.shared.check_open()?;
        Ok(writer.producers.producers().cloned().collect())
    }

    /// Puts new segments in the place of old ones. When it returns, new reads see the new ones;
    /// who reads an old one goes on. The files of the old ones, and producer snapshots whose
    /// segment does not stay, go after `file.delete.delay.ms`.
    ///
    /// The old ones must be neighbours in this log and sealed; the new ones durable, with the
    /// suffix `.cleaned`, and within the offsets of the old ones. Appends go on beside all renames
    /// and syncs, and wait for the change of the list alone. Retention and truncations wait for all
    /// of it. The log is flushed first.
    ///
    /// Source: `UnifiedLog.replaceSegments` in Kafka; `docs/format/segment.md#swap`.
    ///
    /// # Errors
    ///
    /// `SegmentsChanged` where retention or a truncation was quicker: then the new segments are
    /// removed and nothing has changed. `Closed`, likewise. `Offline`: a rename or sync has
    /// failed, now or before; the next start goes on from there.
    pub fn replace_segments(&self, mut replacement: Replacement) -> Result<(), LogError> {
        let shared = &self.shared;
        let layout = shared.layout.lock();
        let fits = shared.check_open().and_then(|()| replaced(shared, &replacement));
        if let Err(error) = fits {
            drop(layout);
            discard(&error, replacement.new_segments());
            return Err(error);
        }
        // What a cleaning drops lives on in what came later: in newer records, in the marker of a
        // transaction, in a snapshot of the producers.
        shared.keep_producers()?;
        shared.flush_all()?;
        let mut effects = Effects::default();
        shared.swap(&mut replacement, &mut effects).map_err(|error| shared.disk_failed(error))?;
        drop(layout);
        effects.run(shared);
        tracing::info!(
            log = shared.name(),
            old = replacement.old_segments().len(),
            new = replacement.new_segments().len(),
            "replaced segments"
        );
        Ok(())
    }

    /// Takes the log directory offline, because a file in it has failed under somebody else's
    /// hands, and returns the error that all its logs give from now on.
    ///
    /// Source: `LogDirFailureChannel.maybeAddOfflineLogDir` in Kafka.
    #[must_use]
    pub fn dir_failed(&self, source: impl Into<LogError>) -> LogError {
        self.shared.disk_failed(source.into())
    }
}

impl Shared {
    /// All steps. Only the new list is made under the writer's lock.
    fn swap(&self, replacement: &mut Replacement, effects: &mut Effects) -> Result<(), LogError> {
        replacement.to_swap()?;
        let mut snapshots = self.writer.lock().show_new(self, replacement)?;
        replacement.retire_unsynced()?;
        let mut doomed = Vec::new();
        for base in snapshots.offsets().clone() {
            let snapshot = snapshots.mark_deleted(base)?;
            doomed.extend(snapshot.map(|name| self.dir.file_path(name)));
        }
        // Old files are not removed before the new names are durable.
        replacement.retire()?;
        let delay_ms = self.config.load().file_delete_delay_ms();
        effects.delete(delay_ms, replacement.old_segments().to_vec(), doomed);
        Ok(())
    }
}

impl Writer {
    /// Puts the new segments into the list, which may have grown meanwhile, and returns the
    /// snapshots that go.
    fn show_new(
        &mut self,
        shared: &Shared,
        replacement: &Replacement,
    ) -> Result<SnapshotDir, LogError> {
        let list = replaced(shared, replacement)?;
        self.publish_segments(shared, list);
        self.forget_places(shared, replacement.old_segments());
        let new = replacement.new_segments();
        let stays = |base: &Offset| new.iter().any(|segment| segment.base_offset() == *base);
        let old = replacement.old_segments().iter().map(|segment| segment.base_offset());
        Ok(self.snapshots.take(old.filter(|base| !stays(base))))
    }

    /// Bytes lie elsewhere in the new segments: places in old ones say nothing any more.
    fn forget_places(&mut self, shared: &Shared, old: &[Arc<Segment>]) {
        let lies_in_old = |position: &LogPosition| {
            let base = position.place.map(|place| place.segment_base);
            old.iter().any(|segment| Some(segment.base_offset()) == base)
        };
        let high_watermark = shared.high_watermark.load();
        if lies_in_old(&high_watermark) {
            let somewhere = Arc::new(LogPosition::somewhere(high_watermark.offset));
            shared.high_watermark.compare_and_swap(&*high_watermark, somewhere);
        }
        let unstable = shared.first_unstable.load();
        if let Some(position) = unstable.as_deref()
            && lies_in_old(position)
        {
            let somewhere = Arc::new(LogPosition::somewhere(position.offset));
            shared.first_unstable.compare_and_swap(&*unstable, Some(somewhere));
        }
        self.located_unstable = self.located_unstable.filter(|(_, found)| !lies_in_old(found));
    }
}

/// The list of segments after the replacement.
fn replaced(shared: &Shared, replacement: &Replacement) -> Result<SegmentList, LogError> {
    let segments = shared.segments.load();
    let (all, old, new) =
        (segments.to_vec(), replacement.old_segments(), replacement.new_segments());
    let changed = || LogError::SegmentsChanged { path: shared.dir.path() };
    let first = old.first().ok_or_else(changed)?;
    let start = all.iter().position(|segment| Arc::ptr_eq(segment, first)).ok_or_else(changed)?;
    let (before, rest) = all.split_at(start);
    let (found, after) = rest.split_at_checked(old.len()).ok_or_else(changed)?;
    let is_run = found.iter().zip(old).all(|(found, old)| Arc::ptr_eq(found, old));
    let next = after.first().ok_or_else(changed)?;
    let fits = new.is_sorted_by(|a, b| a.base_offset() < b.base_offset())
        && new.iter().all(|segment| {
            (first.base_offset()..next.base_offset()).contains(&segment.base_offset())
        });
    if !is_run || !fits {
        return Err(changed());
    }
    Ok(SegmentList::new(&[before, new, after].concat()))
}

/// Removes new segments that did not come into use. What cannot be removed now goes at the next
/// start.
fn discard(error: &LogError, new: &[Arc<Segment>]) {
    if !matches!(error, LogError::Offline { .. }) {
        for segment in new {
            drop(segment.delete_files());
        }
    }
}
