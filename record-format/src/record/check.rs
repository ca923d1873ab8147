//! Checks all records of a payload at once.

use super::Records;
use super::decode::Fields;
use crate::{Corruption, Offset, Timestamp};

/// What [`Records::check`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordsSummary {
    /// Records that were there.
    pub record_count: u32,
    /// The smallest offset; `None` without records.
    pub min_offset: Option<Offset>,
    /// The largest offset; `None` without records.
    pub max_offset: Option<Offset>,
    /// Whether each offset was above the one before.
    pub offsets_rise: bool,
    /// The earliest time, records without one left out.
    pub min_timestamp: Option<Timestamp>,
    /// The latest time, records without one left out.
    pub max_timestamp: Option<Timestamp>,
}

impl Records<'_> {
    /// Reads all records, with the checks of the iterator, and tells what there was.
    ///
    /// # Errors
    ///
    /// The error that the iterator would yield.
    pub fn check(mut self) -> Result<RecordsSummary, Corruption> {
        let context = *self.context();
        let mut record_count = 0_u32;
        let mut offsets_rise = true;
        let mut last_delta = None;
        let (mut min_delta, mut max_delta) = (i32::MAX, i32::MIN);
        let (mut min_timestamp, mut max_timestamp) = (i64::MAX, i64::MIN);
        while let Some(body) = self.next_body() {
            let body = body?;
            let start = Fields::read(body).map_err(|kind| self.fail_in(body, kind))?.start;
            record_count = record_count.saturating_add(1);
            let delta = start.offset_delta;
            offsets_rise &= last_delta < Some(delta);
            last_delta = Some(delta);
            min_delta = min_delta.min(delta);
            max_delta = max_delta.max(delta);
            let timestamp = context.timestamp(start.timestamp_delta);
            if timestamp != -1 {
                min_timestamp = min_timestamp.min(timestamp);
                max_timestamp = max_timestamp.max(timestamp);
            }
        }
        let some = last_delta.is_some();
        let timed = min_timestamp <= max_timestamp;
        Ok(RecordsSummary {
            record_count,
            min_offset: some.then(|| context.offset(min_delta)),
            max_offset: some.then(|| context.offset(max_delta)),
            offsets_rise,
            min_timestamp: timed.then_some(Timestamp::new(min_timestamp)),
            max_timestamp: timed.then_some(Timestamp::new(max_timestamp)),
        })
    }
}
