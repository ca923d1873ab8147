//! How dirty a log is, and what of it can be cleaned.

use std::sync::Arc;

use alluvium_log_manager::{CleaningView, Log};
use alluvium_record_format::{Offset, Timestamp};
use alluvium_recovery::TopicPartition;
use alluvium_segment::Segment;

use crate::error::CleanError;
use crate::group::values;
use crate::lags::CompactionLags;
use crate::options::{ActiveProducers, CleanOptions};

/// A log that may be cleaned.
///
/// Source: `LogToClean` in Kafka.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) partition: TopicPartition,
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
        let lags = CompactionLags::of(segments, first_dirty, &view.config, now)
            .map_err(CleanError::segment)?;
        let mut bound = view.last_stable_offset.min(view.high_watermark).min(active);
        if let Some(young) = lags.first_young {
            bound = bound.min(young);
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
            overdue_ms: i64::try_from(lags.overdue_ms).unwrap_or(i64::MAX),
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
        let producers = self.log.active_producers().map_err(|source| CleanError::Log { source })?;
        let options = CleanOptions::new(self.range.first_dirty, self.range.first_uncleanable, now)
            .topic(config)
            .high_watermark(self.view.high_watermark)
            .active_producers(ActiveProducers::from_iter(&producers));
        Ok(options)
    }
}

/// Rounds down to the base of a segment.
fn whole_segments(segments: &[Arc<Segment>], bound: Offset) -> Offset {
    let after = segments.partition_point(|segment| segment.base_offset() <= bound);
    let floor = segments.get(after.saturating_sub(1));
    floor.map_or(bound, |segment| segment.base_offset())
}
