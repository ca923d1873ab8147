//! How dirty a log is, and what of it can be cleaned.

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_log_manager::{CleaningView, Log};
use alluvium_record_format::{Offset, Timestamp};
use alluvium_recovery::TopicPartition;
use alluvium_segment::{Segment, SegmentConfig};

use crate::error::CleanError;
use crate::group::values;
use crate::options::{ActiveProducers, CleanOptions};

/// A log that may be cleaned.
///
/// Source: `LogToClean` in Kafka.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) partition: TopicPartition,
    pub(super) dir: PathBuf,
    pub(super) log: Log,
    pub(super) view: CleaningView,
    pub(super) range: DirtyRange,
}

/// The dirty part of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct DirtyRange {
    /// Everything before is clean.
    pub(super) first_dirty: Offset,
    /// The segment with this base and all after it stay as they are.
    pub(super) first_uncleanable: Offset,
    /// What the checkpoint said does not fit the log.
    pub(super) is_reset: bool,
    pub(super) clean_bytes: u64,
    pub(super) cleanable_bytes: u64,
    /// Milliseconds by which the oldest dirty record is late for cleaning.
    pub(super) overdue_ms: i64,
}

impl DirtyRange {
    /// What of `view` can be cleaned, given how far it is clean already.
    ///
    /// Source: `LogCleanerManager.cleanableOffsets` in Kafka; `docs/format/compaction.md#range`.
    pub(super) fn of(
        view: &CleaningView,
        checkpoint: Option<Offset>,
        now: Timestamp,
    ) -> Result<Self, CleanError> {
        let start = view.log_start_offset;
        let fits = |offset: &Offset| (start..=view.log_end_offset).contains(offset);
        let first_dirty = checkpoint.filter(fits).unwrap_or(start);
        let segments = &view.segments;
        let Some(active) = segments.last().map(|active| active.base_offset()) else {
            return Ok(Self { first_dirty, first_uncleanable: first_dirty, ..Self::default() });
        };
        let dirty = values(segments, first_dirty, active);
        let mut bound = view.last_stable_offset.min(view.high_watermark).min(active);
        if let Some(lagging) = first_lagging(dirty, view.config.min_compaction_lag_ms(), now)? {
            bound = bound.min(lagging);
        }
        let first_uncleanable = whole_segments(segments, bound.max(first_dirty));
        let bytes = |segments: &[Arc<Segment>]| {
            segments.iter().map(|segment| u64::from(segment.size_bytes())).sum()
        };
        let from = first_dirty.min(first_uncleanable);
        Ok(Self {
            first_dirty,
            first_uncleanable,
            is_reset: checkpoint.is_some_and(|offset| offset != first_dirty),
            clean_bytes: bytes(values(segments, Offset::new(i64::MIN), first_dirty)),
            cleanable_bytes: bytes(values(segments, from, first_uncleanable)),
            overdue_ms: overdue_ms(dirty, view.config.max_compaction_lag_ms(), now)?,
        })
    }

    /// The part of the bytes that is dirty, 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
    pub(super) fn ratio(&self) -> f64 {
        let total = self.clean_bytes.saturating_add(self.cleanable_bytes);
        if total == 0 { 0.0 } else { self.cleanable_bytes as f64 / total as f64 }
    }

    /// Whether it is time to clean the log.
    pub(super) fn is_due(&self, min_cleanable_dirty_ratio: f64) -> bool {
        let must = self.overdue_ms > 0 && self.cleanable_bytes > 0;
        must || self.ratio() > min_cleanable_dirty_ratio
    }
}

impl Candidate {
    /// What the cleaning is told.
    pub(super) fn options(&self, now: Timestamp) -> Result<CleanOptions, CleanError> {
        let config = &self.view.config;
        let segment = SegmentConfig::new()
            .index_interval_bytes(config.index_interval_bytes())
            .max_index_bytes(config.segment_index_bytes());
        let producers = self.log.active_producers().map_err(|source| CleanError::Log { source })?;
        let record_bytes = config.max_decompressed_message_bytes();
        let options = CleanOptions::new(self.range.first_dirty, self.range.first_uncleanable, now)
            .delete_retention_ms(i64::try_from(config.delete_retention_ms()).unwrap_or(i64::MAX))
            .segment_bytes(config.segment_bytes())
            .max_record_bytes(usize::try_from(record_bytes).unwrap_or(usize::MAX))
            .segment(segment)
            .high_watermark(self.view.high_watermark)
            .active_producers(ActiveProducers::from_iter(&producers));
        Ok(options)
    }
}

/// The base of the first segment with a record that is too young.
fn first_lagging(
    dirty: &[Arc<Segment>],
    lag_ms: u64,
    now: Timestamp,
) -> Result<Option<Offset>, CleanError> {
    if lag_ms == 0 {
        return Ok(None);
    }
    let oldest = before(now, lag_ms);
    for segment in dirty {
        if segment.largest_timestamp().map_err(CleanError::segment)?.get() > oldest {
            return Ok(Some(segment.base_offset()));
        }
    }
    Ok(None)
}

/// Rounds down to the base of a segment.
fn whole_segments(segments: &[Arc<Segment>], bound: Offset) -> Offset {
    let after = segments.partition_point(|segment| segment.base_offset() <= bound);
    let floor = segments.get(after.saturating_sub(1));
    floor.map_or(bound, |segment| segment.base_offset())
}

/// Source: `LogCleanerManager.maxCompactionDelay` in Kafka.
fn overdue_ms(dirty: &[Arc<Segment>], lag_ms: u64, now: Timestamp) -> Result<i64, CleanError> {
    if i64::try_from(lag_ms).is_ok_and(|lag| lag == i64::MAX) {
        return Ok(0);
    }
    let mut earliest: Option<i64> = None;
    for segment in dirty {
        let first = segment.first_batch().map_err(CleanError::segment)?;
        let time = first.and_then(|batch| batch.max_timestamp).map(Timestamp::get);
        if let Some(time) = time.filter(|time| *time > 0) {
            earliest = Some(earliest.map_or(time, |least| least.min(time)));
        }
    }
    let deadline = before(now, lag_ms);
    Ok(earliest.map_or(0, |earliest| deadline.saturating_sub(earliest).max(0)))
}

fn before(now: Timestamp, ms: u64) -> i64 {
    now.get().saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX))
}
