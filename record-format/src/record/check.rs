//! Checks all records of a payload at once.

use super::Records;
use super::decode::Start;
use super::shape::Shapes;
use super::short::Whole;
use crate::{Corruption, Offset, RecordStream, Timestamp};

/// The offsets of the records of a batch. Made by [`Records::check_offsets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OffsetRange {
    /// The smallest offset.
    pub min: Offset,
    /// The largest offset.
    pub max: Offset,
    /// Whether each offset was above the one before.
    pub offsets_rise: bool,
}

/// What all records of a batch have in common.
///
/// Made by [`Records::check`] and [`RecordStream::check`].
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
    /// Whether the offsets were the base offset and those that follow, without a gap.
    pub offsets_dense: bool,
    /// Whether every record had a key.
    pub all_keyed: bool,
    /// The earliest time, records without one left out.
    pub min_timestamp: Option<Timestamp>,
    /// The latest time, records without one left out.
    pub max_timestamp: Option<Timestamp>,
    /// Records without a time.
    pub untimed_count: u32,
}

impl Records<'_> {
    /// Reads all records, with the checks of the iterator, and tells what they have in common.
    ///
    /// # Errors
    ///
    /// The error that the iterator would yield.
    pub fn check(self) -> Result<RecordsSummary, Corruption> {
        // What is uncommon, and what is wrong, is read again.
        self.clone().check_usual().map_or_else(|| self.check_any(), Ok)
    }

    /// The summary of records without a gap that all have a time, as clients send them: with so
    /// little to keep count of, it takes two thirds of the time.
    fn check_usual(mut self) -> Option<RecordsSummary> {
        let context = *self.context();
        let (mut record_count, mut all_keyed) = (0_u32, true);
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        let all_usual = self.take_starts(|timestamp_delta, offset_delta, keyed| {
            let timestamp = context.timestamp(timestamp_delta);
            if offset_delta.cast_unsigned() != record_count || timestamp == -1 {
                return false;
            }
            record_count = record_count.wrapping_add(1);
            all_keyed &= keyed;
            min = min.min(timestamp);
            max = max.max(timestamp);
            true
        });
        if !all_usual.ok()? {
            return None;
        }
        let last_delta = record_count.checked_sub(1)?;
        let first = context.offset(0);
        Some(RecordsSummary {
            record_count,
            min_offset: Some(first),
            max_offset: Some(first.checked_add(last_delta.into())?),
            offsets_rise: true,
            offsets_dense: true,
            all_keyed,
            min_timestamp: Some(Timestamp::new(min)),
            max_timestamp: Some(Timestamp::new(max)),
            untimed_count: 0,
        })
    }

    fn check_any(mut self) -> Result<RecordsSummary, Corruption> {
        let context = *self.context();
        let mut tally = Tally::new(context.offset(0));
        self.take_starts(|timestamp_delta, offset_delta, keyed| {
            tally.add(context.offset(offset_delta), context.timestamp(timestamp_delta), keyed);
            true
        })?;
        Ok(tally.summary())
    }

    /// Reads all records, with the checks of the iterator, and tells the range of their offsets;
    /// `None` without records. Half the time of [`check`](Self::check).
    ///
    /// # Errors
    ///
    /// The error that the iterator would yield.
    pub fn check_offsets(mut self) -> Result<Option<OffsetRange>, Corruption> {
        let context = *self.context();
        let (mut last, mut rise) = (i32::MIN, true);
        let (mut min, mut max) = (i32::MAX, i32::MIN);
        self.take_starts(|_timestamp_delta, delta, _keyed| {
            rise &= last < delta || max < min;
            last = delta;
            min = min.min(delta);
            max = max.max(delta);
            true
        })?;
        Ok((min <= max).then(|| OffsetRange {
            min: context.offset(min),
            max: context.offset(max),
            offsets_rise: rise,
        }))
    }

    /// Reads records as long as `take` takes them: the deltas of time and offset, and whether
    /// there is a key. Returns whether it took all; what it refuses it may see twice.
    #[inline]
    fn take_starts(
        &mut self,
        mut take: impl FnMut(i64, i32, bool) -> bool,
    ) -> Result<bool, Corruption> {
        let mut shapes = Shapes::new();
        loop {
            let payload = self.rest;
            let Some(fields) = self.next_part::<Whole>() else { return Ok(true) };
            let Start { timestamp_delta, offset_delta, key } = fields?.start;
            if !take(timestamp_delta, offset_delta, key.is_some()) {
                return Ok(false);
            }
            if let Some(shape) = shapes.of_record(payload, self.rest) {
                // Those of one shape have keys, or have none.
                let passed = self.pass(&shape, |time, offset| take(time, offset, key.is_some()));
                shapes.passed(passed);
            }
        }
    }
}

impl RecordStream<'_> {
    /// Reads all records that are left, and tells what they have in common. Holds no record of
    /// more than 64 KiB whole.
    ///
    /// # Errors
    ///
    /// The error that [`next_record`](Self::next_record) would give.
    pub fn check(mut self) -> Result<RecordsSummary, Corruption> {
        let mut tally = Tally::new(self.context().offset(0));
        while let Some(record) = self.next_checked() {
            let record = record?;
            let timestamp = record.timestamp.map_or(-1, Timestamp::get);
            tally.add(record.offset, timestamp, record.key_bytes.is_some());
        }
        Ok(tally.summary())
    }
}

/// A summary that grows record by record.
struct Tally {
    record_count: u32,
    untimed_count: u32,
    /// The offset of the next record, if there is no gap.
    expected: i64,
    min_offset: i64,
    max_offset: i64,
    offsets_rise: bool,
    offsets_dense: bool,
    all_keyed: bool,
    min_timestamp: i64,
    max_timestamp: i64,
}

impl Tally {
    const fn new(base: Offset) -> Self {
        Self {
            record_count: 0,
            untimed_count: 0,
            expected: base.get(),
            min_offset: i64::MAX,
            max_offset: i64::MIN,
            offsets_rise: true,
            offsets_dense: true,
            all_keyed: true,
            min_timestamp: i64::MAX,
            max_timestamp: i64::MIN,
        }
    }

    #[inline]
    fn add(&mut self, offset: Offset, timestamp: i64, keyed: bool) {
        let offset = offset.get();
        self.offsets_rise &= self.max_offset < offset;
        self.offsets_dense &= self.expected == offset;
        self.record_count = self.record_count.wrapping_add(1);
        self.expected = self.expected.wrapping_add(1);
        self.min_offset = self.min_offset.min(offset);
        self.max_offset = self.max_offset.max(offset);
        self.all_keyed &= keyed;
        if timestamp == -1 {
            self.untimed_count = self.untimed_count.wrapping_add(1);
        } else {
            self.min_timestamp = self.min_timestamp.min(timestamp);
            self.max_timestamp = self.max_timestamp.max(timestamp);
        }
    }

    fn summary(&self) -> RecordsSummary {
        let some = self.record_count > 0;
        let timed = self.record_count > self.untimed_count;
        RecordsSummary {
            record_count: self.record_count,
            min_offset: some.then_some(Offset::new(self.min_offset)),
            max_offset: some.then_some(Offset::new(self.max_offset)),
            offsets_rise: self.offsets_rise,
            offsets_dense: self.offsets_dense,
            all_keyed: self.all_keyed,
            min_timestamp: timed.then_some(Timestamp::new(self.min_timestamp)),
            max_timestamp: timed.then_some(Timestamp::new(self.max_timestamp)),
            untimed_count: self.untimed_count,
        }
    }
}
