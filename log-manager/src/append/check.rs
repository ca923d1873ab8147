//! The rules that single records must keep.
//!
//! Source: `LogValidator.validateRecord` in Kafka.

use alluvium_record_format::{Position, RecordsSummary, Timestamp, TimestampType};

use super::{InvalidBatch, InvalidRecord, RecordError, ValidationError};
use crate::LogConfig;

/// Checks one record after the other and keeps the largest time.
#[derive(Debug)]
pub(super) struct Check {
    needs_key: bool,
    topic_type: TimestampType,
    batch_type: TimestampType,
    earliest: i64,
    latest: i64,
    count: u32,
    max_timestamp: i64,
    inner_offset: Option<InvalidBatch>,
    errors: Vec<RecordError>,
}

impl Check {
    /// Checks records of a batch whose times are of `batch_type`, for a topic with `config`.
    pub(super) fn new(config: &LogConfig, batch_type: TimestampType, now: Timestamp) -> Self {
        let limit = |ms: u64| i64::try_from(ms).ok().filter(|&ms| ms != i64::MAX);
        let before = limit(config.message_timestamp_before_max_ms());
        let after = limit(config.message_timestamp_after_max_ms());
        Self {
            needs_key: config.cleanup_policy().compacts(),
            topic_type: config.message_timestamp_type(),
            batch_type,
            earliest: before.map_or(i64::MIN, |ms| now.get().saturating_sub(ms)),
            latest: after.map_or(i64::MAX, |ms| now.get().saturating_add(ms)),
            count: 0,
            max_timestamp: -1,
            inner_offset: None,
            errors: Vec::new(),
        }
    }

    /// Checks all records of a batch by what they have in common, the fast way: `None` where it
    /// takes a closer look, because one is to be refused.
    pub(super) fn all(&self, seen: &RecordsSummary) -> Option<Checked> {
        let min = seen.min_timestamp.map_or(i64::MAX, Timestamp::get);
        let max = seen.max_timestamp.map_or(-1, Timestamp::get);
        let in_time = self.topic_type == TimestampType::LogAppendTime
            || seen.min_timestamp.is_none()
            || (min >= self.earliest && max <= self.latest);
        let keyed = seen.all_keyed || !self.needs_key;
        let sound = keyed && in_time && self.batch_type == TimestampType::CreateTime;
        let checked = Checked { count: seen.record_count, max_timestamp: max.max(-1) };
        (sound && seen.offsets_dense).then_some(checked)
    }

    /// Checks the next record. `offset` is its offset within the batch, where those must be 0,
    /// 1, 2 and so on.
    #[inline]
    pub(super) fn record(&mut self, has_key: bool, timestamp: i64, offset: Option<i64>) {
        let index = self.count;
        self.count += 1;
        if let Some(offset) = offset
            && offset != i64::from(index)
        {
            self.inner_offset.get_or_insert(InvalidBatch::InnerOffset { index, offset });
        }
        match self.refuse(has_key, timestamp) {
            None => self.max_timestamp = self.max_timestamp.max(timestamp),
            Some(reason) => self.errors.push(RecordError { index, reason }),
        }
    }

    /// Refuses the next record for a reason found elsewhere.
    pub(super) fn refuse_record(&mut self, reason: InvalidRecord) {
        self.errors.push(RecordError { index: self.count, reason });
        self.count += 1;
    }

    /// The times of later records are of this type: the next message of an old format.
    pub(super) fn set_batch_type(&mut self, batch_type: TimestampType) {
        self.batch_type = batch_type;
    }

    /// Whether no record was refused so far.
    pub(super) fn is_sound(&self) -> bool {
        self.errors.is_empty() && self.inner_offset.is_none()
    }

    /// How many records there were and their largest time, -1 for none.
    pub(super) fn finish(self, position: Position) -> Result<Checked, ValidationError> {
        if !self.errors.is_empty() {
            return Err(ValidationError::Records { records: self.errors });
        }
        if let Some(reason) = self.inner_offset {
            return Err(ValidationError::Batch { position, reason });
        }
        Ok(Checked { count: self.count, max_timestamp: self.max_timestamp })
    }

    #[inline]
    fn refuse(&self, has_key: bool, timestamp: i64) -> Option<InvalidRecord> {
        if self.needs_key && !has_key {
            return Some(InvalidRecord::NoKey);
        }
        if self.topic_type == TimestampType::CreateTime && timestamp != -1 {
            if timestamp < self.earliest || timestamp > self.latest {
                let (min, max) = (self.earliest, self.latest);
                return Some(InvalidRecord::Timestamp { timestamp, min, max });
            }
        } else if self.batch_type == TimestampType::LogAppendTime {
            return Some(InvalidRecord::TimestampType);
        }
        None
    }
}

/// What the records of a sound append are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    pub(super) count: u32,
    pub(super) max_timestamp: i64,
}
