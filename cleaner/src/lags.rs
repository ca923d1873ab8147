//! The compaction lags of a topic.

use std::sync::Arc;

use alluvium_log_manager::LogConfig;
use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{Segment, SegmentError};

use crate::group::values;

/// What the times of a log's dirty segments say of `min.compaction.lag.ms` and
/// `max.compaction.lag.ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionLags {
    /// The base of the first segment with a record that is too young to be cleaned.
    pub first_young: Option<Offset>,
    /// Milliseconds by which the oldest dirty record is late for cleaning.
    pub overdue_ms: u64,
}

impl CompactionLags {
    /// Looks at the segments of a log from the one that may hold `first_dirty` on; the last one is
    /// active and left out.
    ///
    /// Cost: one read of each dirty segment, for its first batch; with a `min.compaction.lag.ms`
    /// its largest timestamp besides, up to the first young one.
    ///
    /// Source: `LogCleanerManager.cleanableOffsets` and `maxCompactionDelay` in Kafka;
    /// `docs/format/compaction.md#range`.
    ///
    /// # Errors
    ///
    /// What reading a segment yields.
    pub fn of(
        segments: &[Arc<Segment>],
        first_dirty: Offset,
        config: &LogConfig,
        now: Timestamp,
    ) -> Result<Self, SegmentError> {
        let Some(active) = segments.last() else { return Ok(Self::default()) };
        let dirty = values(segments, first_dirty, active.base_offset());
        Ok(Self {
            first_young: first_young(dirty, config.min_compaction_lag_ms(), now)?,
            overdue_ms: overdue_ms(dirty, config.max_compaction_lag_ms(), now)?,
        })
    }
}

/// The base of the first segment with a record that is too young.
fn first_young(
    dirty: &[Arc<Segment>],
    lag_ms: u64,
    now: Timestamp,
) -> Result<Option<Offset>, SegmentError> {
    if lag_ms == 0 {
        return Ok(None);
    }
    let oldest = before(now, lag_ms);
    for segment in dirty {
        if segment.largest_timestamp()?.get() > oldest {
            return Ok(Some(segment.base_offset()));
        }
    }
    Ok(None)
}

fn overdue_ms(dirty: &[Arc<Segment>], lag_ms: u64, now: Timestamp) -> Result<u64, SegmentError> {
    if i64::try_from(lag_ms).is_ok_and(|lag| lag == i64::MAX) {
        return Ok(0);
    }
    let mut earliest: Option<i64> = None;
    for segment in dirty {
        let time = segment.first_batch()?.and_then(|batch| batch.max_timestamp);
        if let Some(time) = time.map(Timestamp::get).filter(|time| *time > 0) {
            earliest = Some(earliest.map_or(time, |least| least.min(time)));
        }
    }
    let late = earliest.map_or(0, |earliest| before(now, lag_ms).saturating_sub(earliest));
    Ok(u64::try_from(late).unwrap_or(0))
}

fn before(now: Timestamp, ms: u64) -> i64 {
    now.get().saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX))
}
