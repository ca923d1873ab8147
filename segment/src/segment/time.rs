//! From a timestamp to a record, and the largest timestamp.

use std::cell::Cell;
use std::fs::File;

use alluvium_record_format::{
    CorruptClass, Corruption, Decompressor, Entry, LeaderEpoch, Offset, Position, Timestamp,
};
use alluvium_sparse_index::TimeEntry;

use super::{Largest, Segment};
use crate::error::{IoOp, SegmentError};
use crate::headers::{BatchAt, HeaderScan, SCRATCH_BYTES, Step};
use crate::names::FileKind;
use crate::walk::{LARGE_BYTES, check_large, to_usize};

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

impl Segment {
    /// The first record, by offset, whose timestamp is not below `target` and whose offset is not
    /// below `start`.
    ///
    /// Compressed batches are decompressed one record at a time; none may be longer than
    /// `max_record_bytes` (`max.decompressed.message.bytes`). Control records count, as in Kafka.
    ///
    /// Cost: two index look-ups, a `pread` per header on the way and one per batch that is
    /// searched.
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
        let hint = self.time_hints()?.as_ref().and_then(|hints| hints.lookup(target));
        let from = hint.map_or(start, |entry| entry.offset.max(start));
        self.find_from(
            from,
            max_record_bytes,
            |batch| batch.max_timestamp.is_some_and(|largest| largest >= target),
            |offset, timestamp| timestamp >= target && offset >= start,
        )
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
        self.find_from(
            entry.offset,
            max_record_bytes,
            |batch| batch.max_timestamp == Some(entry.timestamp),
            |_, timestamp| timestamp == entry.timestamp,
        )
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

    /// The first record that `wanted` takes, in the batches that `worth` takes, from the batch
    /// that holds `from` on.
    fn find_from(
        &self,
        from: Offset,
        max_record_bytes: usize,
        worth: impl Fn(&BatchAt) -> bool,
        wanted: impl Fn(Offset, Timestamp) -> bool,
    ) -> Result<Option<FoundRecord>, SegmentError> {
        let file = self.log_file()?;
        let Some(first) = self.locate(&file, from)? else { return Ok(None) };
        let path = || self.path(FileKind::Log);
        let range = (first.position.get(), self.size_bytes());
        let mut scan = HeaderScan::new(self.dir.io(), &file, &path, range, SCRATCH_BYTES);
        loop {
            match scan.step()? {
                Step::Batch(batch) if !worth(&batch) => {}
                Step::Batch(batch) => {
                    if let Some(found) = self.find_in(&file, &batch, max_record_bytes, &wanted)? {
                        return Ok(Some(found));
                    }
                }
                Step::Damage(damage) if damage.class() != CorruptClass::Incomplete => {
                    return Err(SegmentError::corrupt(path(), damage));
                }
                Step::End | Step::Damage(_) => return Ok(None),
            }
        }
    }

    /// The first record of one batch that `wanted` takes.
    fn find_in(
        &self,
        file: &File,
        at: &BatchAt,
        max_record_bytes: usize,
        wanted: &impl Fn(Offset, Timestamp) -> bool,
    ) -> Result<Option<FoundRecord>, SegmentError> {
        let path = || self.path(FileKind::Log);
        let corrupt = |damage| SegmentError::corrupt(path(), damage);
        let (io, position, need) = (self.dir.io(), at.position, to_usize(at.size_bytes));
        if need > LARGE_BYTES {
            check_large(io, file, &path, (position, need, at.magic))?.map_err(corrupt)?;
        }
        let mut work = WORK.take();
        work.bytes.clear();
        work.bytes.resize(need, 0);
        let read = io.read_full(file, &path, &mut work.bytes, position.get().into());
        let count = read.map_err(|e| SegmentError::io(IoOp::Read, path(), position.get(), e))?;
        work.bytes.truncate(count);
        let found = work.find(position, max_record_bytes, wanted).map_err(corrupt);
        if work.bytes.capacity() <= LARGE_BYTES {
            WORK.set(work);
        }
        found
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

/// Memory that the look-ups of a thread use again and again.
#[derive(Default)]
struct Work {
    bytes: Vec<u8>,
    inflated: Vec<u8>,
    decompressor: Decompressor,
}

impl Work {
    /// The first record that `wanted` takes, in the entry whose bytes were read.
    fn find(
        &mut self,
        at: Position,
        max_record_bytes: usize,
        wanted: &impl Fn(Offset, Timestamp) -> bool,
    ) -> Result<Option<FoundRecord>, Corruption> {
        match Entry::parse(&self.bytes, at)? {
            Entry::Batch(batch) => {
                let leader_epoch = batch.header().leader_epoch();
                let mut records = self.decompressor.records(&batch, max_record_bytes)?;
                while let Some(record) = records.next_partial() {
                    let record = record?;
                    if let Some(timestamp) = record.timestamp
                        && wanted(record.offset, timestamp)
                    {
                        let offset = record.offset;
                        return Ok(Some(FoundRecord { offset, timestamp, leader_epoch }));
                    }
                }
            }
            Entry::Legacy(entry) => {
                let limit = max_record_bytes;
                let inflated = &mut self.inflated;
                for record in self.decompressor.inflate_legacy(&entry, limit, inflated)? {
                    let record = record?;
                    if let Some(timestamp) = record.timestamp()
                        && wanted(record.offset(), timestamp)
                    {
                        let offset = record.offset();
                        return Ok(Some(FoundRecord { offset, timestamp, leader_epoch: None }));
                    }
                }
            }
            _ => {}
        }
        Ok(None)
    }
}

thread_local! {
    static WORK: Cell<Work> = Cell::default();
}
