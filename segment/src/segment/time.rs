//! From a timestamp to a record, and the largest timestamp.

mod search;

use std::sync::Arc;

use alluvium_record_format::{LeaderEpoch, Offset, Timestamp};
use alluvium_sparse_index::TimeEntry;

use search::Search;

use super::{Largest, Segment};
use crate::error::SegmentError;
use crate::headers::{BatchAt, HeaderScan, SCRATCH_BYTES, Step};
use crate::names::FileKind;

/// The record that a look-up by time found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundRecord {
    /// Its offset.
    pub offset: Offset,
    /// Its time.
    pub timestamp: Timestamp,
    /// The epoch of the leader that wrote its batch.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// The first record of a segment, as a look-up has found it.
#[derive(Debug)]
pub(super) struct FirstRecord {
    generation: u32,
    record: FoundRecord,
}

impl Segment {
    /// The first record, by offset, whose timestamp is not below `target` and whose offset is not
    /// below `start`.
    ///
    /// Compressed batches are decompressed one record at a time; none may be longer than
    /// `max_record_bytes` (`max.decompressed.message.bytes`). Control records count, as in Kafka.
    ///
    /// Cost: two index look-ups; most often one `pread` of 8 KiB, or two, that find the batch and
    /// the record in it. A compressed batch is read whole. For a time before the segment's first,
    /// one
    /// `pread` of 1 KiB, and none once its first record was found so.
    ///
    /// Source: `LogSegment.findOffsetByTimestamp` in Kafka.
    ///
    /// # Errors
    ///
    /// `Corrupt` if a batch on the way is damaged or larger inside than allowed, `Gone`, `Io`,
    /// `Index`.
    pub fn find_by_timestamp(
        &self,
        target: Timestamp,
        start: Offset,
        max_record_bytes: usize,
    ) -> Result<Option<FoundRecord>, SegmentError> {
        if let Some(first) = self.first_record()
            && target <= first.timestamp
            && start <= first.offset
        {
            return Ok(Some(first));
        }
        let hint = self.time_hints()?.as_ref().and_then(|hints| hints.lookup(target));
        let from = hint.map_or(start, |entry| entry.offset.max(start));
        // The batch at the hint has no time above that of the hint.
        let after = hint.is_some_and(|hint| hint.timestamp < target && hint.offset == from);
        Search {
            segment: self,
            max_record_bytes,
            worth: |largest| largest >= target,
            wanted: |offset, timestamp| timestamp >= target && offset >= start,
        }
        .run(from, after)
    }

    /// The first record with the largest timestamp. `None` if no record has a timestamp.
    ///
    /// Source: `UnifiedLog.fetchOffsetByTimestamp` with the special timestamp -3 in Kafka.
    ///
    /// # Errors
    ///
    /// As [`Segment::find_by_timestamp`].
    pub fn find_largest_timestamp(
        &self,
        max_record_bytes: usize,
    ) -> Result<Option<FoundRecord>, SegmentError> {
        let Some(entry) = self.max_timestamp()? else { return Ok(None) };
        Search {
            segment: self,
            max_record_bytes,
            worth: |largest| largest == entry.timestamp,
            wanted: |_, timestamp| timestamp == entry.timestamp,
        }
        .run(entry.offset, false)
    }

    /// The largest timestamp and the last offset of the first batch that has it: the entry with
    /// which the time index ends. `None` if no batch has a timestamp.
    ///
    /// Read from the time index at first, then kept. Where that is empty and the log is not, the
    /// headers are stepped over once; Kafka then takes the log to have no timestamps.
    ///
    /// # Errors
    ///
    /// `Index`, `Gone`, `Io`.
    pub fn max_timestamp(&self) -> Result<Option<TimeEntry>, SegmentError> {
        if let Largest::Known(entry) = *self.largest.lock() {
            return Ok(entry);
        }
        let indexed = self.time_hints()?.as_ref().and_then(|hints| hints.last_entry());
        let mut largest = indexed;
        if indexed.is_none() && self.size_bytes() > 0 {
            self.for_each_batch(|batch| {
                note_timestamp(&mut largest, batch);
                true
            })?;
        }
        let mut known = self.largest.lock();
        if let Largest::Known(entry) = *known {
            return Ok(entry);
        }
        *known = Largest::Known(largest);
        Ok(largest)
    }

    /// What time retention goes by: the largest timestamp, or the time of the last write where no
    /// record has one.
    ///
    /// Source: `LogSegment.largestTimestamp` in Kafka.
    ///
    /// # Errors
    ///
    /// As [`Segment::max_timestamp`].
    pub fn largest_timestamp(&self) -> Result<Timestamp, SegmentError> {
        match self.max_timestamp()? {
            Some(entry) if entry.timestamp.get() >= 0 => Ok(entry.timestamp),
            _ => self.modified(),
        }
    }

    /// The first record, if a look-up has found it and nothing was cut since.
    fn first_record(&self) -> Option<FoundRecord> {
        let first = self.first_record.load();
        first
            .as_ref()
            .filter(|first| first.generation == self.generation())
            .map(|first| first.record)
    }

    /// Remembers the first record, found in `generation`. Nothing is known of a segment that
    /// others write to.
    fn learn_first(&self, record: FoundRecord, generation: u32) {
        if self.is_still(generation) && !self.dir.is_read_only() {
            self.first_record.store(Some(Arc::new(FirstRecord { generation, record })));
        }
    }

    /// The largest timestamp, given that the batches up to `known` have none above it.
    pub(crate) fn largest_from(
        &self,
        known: Option<TimeEntry>,
    ) -> Result<Option<TimeEntry>, SegmentError> {
        let file = self.log_file()?;
        let from = match known {
            Some(entry) => self.locate(&file, entry.offset)?.map(|batch| batch.position.get()),
            None => Some(0),
        };
        let mut largest = known;
        let Some(from) = from else { return Ok(largest) };
        let path = || self.path(FileKind::Log);
        let range = (from, self.size_bytes());
        let mut scan = HeaderScan::new(self.dir.io(), &file, &path, range, SCRATCH_BYTES);
        while let Step::Batch(batch) = scan.step()? {
            note_timestamp(&mut largest, &batch);
        }
        Ok(largest)
    }
}

/// Kafka starts from -1, so a timestamp below 0 is never the largest; of equal ones the first
/// counts.
pub(super) fn note_timestamp(largest: &mut Option<TimeEntry>, batch: &BatchAt) {
    let Some(timestamp) = batch.max_timestamp else { return };
    if timestamp > largest.map_or(Timestamp::new(-1), |entry| entry.timestamp) {
        *largest = Some(TimeEntry::new(timestamp, batch.last_offset));
    }
}
