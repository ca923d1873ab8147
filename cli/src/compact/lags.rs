//! The compaction lags of a topic.

use std::sync::Arc;

use alluvium_log_manager::LogConfig;
use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{Segment, SegmentError};

use crate::cleaning_range::CleaningRange;

/// What the times of the dirty segments say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lags {
    /// The base of the first segment with a record that is too young.
    pub(super) young: Option<Offset>,
    /// Milliseconds by which the oldest dirty record is late for cleaning.
    pub(super) overdue_ms: u64,
}

impl Lags {
    /// Looks at the dirty segments of a log, the active one left out.
    ///
    /// Source: `LogCleanerManager.cleanableOffsets` and `maxCompactionDelay` in Kafka.
    pub(super) fn of(
        segments: &[Arc<Segment>],
        range: &CleaningRange,
        config: &LogConfig,
        now: Timestamp,
    ) -> Result<Self, SegmentError> {
        let before = |ms: u64| now.get().saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX));
        let (min_ms, max_ms) = (config.min_compaction_lag_ms(), config.max_compaction_lag_ms());
        let from = segments.partition_point(|segment| segment.base_offset() <= range.first_dirty);
        let dirty = segments.split_last().map_or(&[][..], |(_active, sealed)| sealed);
        let dirty = dirty.get(from.saturating_sub(1)..).unwrap_or_default();
        let mut lags = Self::default();
        for segment in dirty {
            if min_ms > 0
                && lags.young.is_none()
                && segment.largest_timestamp()?.get() > before(min_ms)
            {
                lags.young = Some(segment.base_offset());
            }
            let first = segment.first_batch()?.and_then(|batch| batch.max_timestamp);
            if let Some(time) = first.map(Timestamp::get).filter(|time| *time > 0) {
                let late = before(max_ms).saturating_sub(time);
                lags.overdue_ms = lags.overdue_ms.max(u64::try_from(late).unwrap_or(0));
            }
        }
        if i64::try_from(max_ms).is_ok_and(|ms| ms == i64::MAX) {
            lags.overdue_ms = 0;
        }
        Ok(lags)
    }
}
