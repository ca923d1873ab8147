//! Searches batches for the first record with a certain time.

use std::cell::RefCell;
use std::fs::File;
use std::path::PathBuf;

use alluvium_record_format::{
    BatchHeader, Codec, CorruptClass, Corruption, Decompressor, Entry, Offset, Position, Records,
    Timestamp,
};

use super::{FoundRecord, Segment};
use crate::error::{IoOp, SegmentError};
use crate::headers::{BatchAt, HeaderScan, SCRATCH_BYTES, Step};
use crate::names::FileKind;
use crate::walk::{LARGE_BYTES, check_large, to_usize};

/// What is searched for.
pub(super) struct Search<'a, B, R> {
    pub(super) segment: &'a Segment,
    pub(super) max_record_bytes: usize,
    /// Whether a batch with this largest timestamp can hold the record.
    pub(super) worth: B,
    /// Whether a record with this offset and timestamp is the one.
    pub(super) wanted: R,
}

/// What a search found.
struct Hit {
    record: FoundRecord,
    /// Whether no record comes before it in the segment; false where that is not known.
    is_first_of_segment: bool,
}

impl From<FoundRecord> for Hit {
    fn from(record: FoundRecord) -> Self {
        Self { record, is_first_of_segment: false }
    }
}

impl<B: Fn(Timestamp) -> bool, R: Fn(Offset, Timestamp) -> bool> Search<'_, B, R> {
    /// Searches from the batch that holds `from` on. `after` says that this batch itself cannot
    /// hold the record.
    pub(super) fn run(
        &self,
        from: Offset,
        after: bool,
    ) -> Result<Option<FoundRecord>, SegmentError> {
        let generation = self.segment.generation();
        let file = self.segment.log_file()?;
        WORK.with_borrow_mut(|work| {
            // What is left there is of another search.
            work.filled = 0;
            let found = self.run_in(&file, work, from, after);
            if work.buffer.capacity() > LARGE_BYTES || work.inflated.capacity() > LARGE_BYTES {
                *work = Work::default();
            }
            let found = found?;
            if let Some(Hit { record, is_first_of_segment: true }) = found {
                self.segment.learn_first(record, generation);
            }
            Ok(found.map(|hit| hit.record))
        })
    }

    fn run_in(
        &self,
        file: &File,
        work: &mut Work,
        from: Offset,
        after: bool,
    ) -> Result<Option<Hit>, SegmentError> {
        let guess = if after {
            self.batch_after(file, work, from)?
        } else {
            self.batch_at_start(file, work, from)?
        };
        let first = match guess {
            Some(batch) => batch,
            None => match self.segment.locate(file, from)? {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        if let Some(found) = self.look_into(file, work, &first)? {
            return Ok(Some(found));
        }
        let path = || self.path();
        let range = (first.end().get(), self.segment.size_bytes());
        // Large batches follow large ones.
        let large = to_usize(first.size_bytes) > SCRATCH_BYTES;
        let block = if large { 0 } else { SCRATCH_BYTES };
        let mut scan = HeaderScan::new(self.segment.dir().io(), file, &path, range, block);
        loop {
            match scan.step()? {
                Step::Batch(batch) => {
                    if let Some(found) = self.look_into(file, work, &batch)? {
                        return Ok(Some(found));
                    }
                }
                Step::Damage(damage) if damage.class() != CorruptClass::Incomplete => {
                    return Err(self.corrupt(damage));
                }
                Step::End | Step::Damage(_) => return Ok(None),
            }
        }
    }

    /// The batch that follows the one which ends at `last`, if the index has an entry for each of
    /// them, and the start of it in memory.
    fn batch_after(
        &self,
        file: &File,
        work: &mut Work,
        last: Offset,
    ) -> Result<Option<BatchAt>, SegmentError> {
        let hints = self.segment.offset_hints()?;
        let Some(near) = hints.as_ref().map(|hints| hints.lookup_near(last)) else {
            return Ok(None);
        };
        let (Some(floor), Some(next)) = (near.floor, near.next) else { return Ok(None) };
        drop(hints);
        let left = self.segment.size_bytes().saturating_sub(next.position.get());
        if floor.offset != last {
            return Ok(None);
        }
        self.read(file, work, next.position, to_usize(left).min(CHUNK_BYTES))?;
        let Ok(batch) = BatchAt::of(work.bytes(), next.position) else { return Ok(None) };
        let adjoins = batch.magic == 2
            && last.checked_add(1) == Some(batch.base_offset)
            && batch.last_offset == next.offset
            && batch.size_bytes <= left;
        Ok(adjoins.then_some(batch))
    }

    /// The first batch of the segment, if `from` lies in it, and the start of it in memory. A
    /// search that begins there is most often for a time before the segment's, and its first
    /// record is the answer.
    fn batch_at_start(
        &self,
        file: &File,
        work: &mut Work,
        from: Offset,
    ) -> Result<Option<BatchAt>, SegmentError> {
        let hints = self.segment.offset_hints()?;
        let first_entry = hints.as_ref().and_then(|hints| hints.entry(0));
        drop(hints);
        let size = self.segment.size_bytes();
        if size == 0 || first_entry.is_some_and(|entry| entry.offset <= from) {
            return Ok(None);
        }
        self.read(file, work, Position::new(0), to_usize(size).min(FIRST_BYTES))?;
        let Ok(batch) = BatchAt::of(work.bytes(), Position::new(0)) else { return Ok(None) };
        let is_whole = batch.magic == 2 && batch.size_bytes <= size;
        Ok((is_whole && from <= batch.last_offset).then_some(batch))
    }

    /// The record, if it is in this batch.
    fn look_into(
        &self,
        file: &File,
        work: &mut Work,
        batch: &BatchAt,
    ) -> Result<Option<Hit>, SegmentError> {
        if !batch.max_timestamp.is_some_and(&self.worth) {
            return Ok(None);
        }
        let need = to_usize(batch.size_bytes);
        if let Some(header) = &batch.header
            && header.attributes().codec() == Some(Codec::None)
        {
            // Not compressed: the record may be near the start, in what is in memory already.
            let mut looked_at = BatchHeader::LEN;
            for piece in [work.len_at(batch.position).min(need), need.min(CHUNK_BYTES)] {
                if piece <= looked_at {
                    continue;
                }
                looked_at = piece;
                self.read(file, work, batch.position, piece)?;
                // Where these bytes break off, or are damaged, is left to a look at all of them.
                if let Ok(Some(found)) = self.find_plain(header, work.bytes(), batch.position) {
                    return Ok(Some(found));
                }
            }
        }
        if need > LARGE_BYTES {
            let read = |buffer: &mut [u8], from| {
                let io = self.segment.dir().io();
                io.read_full(file, &|| self.path(), buffer, from).map_err(|source| {
                    let at = u32::try_from(from).unwrap_or(u32::MAX);
                    SegmentError::io(IoOp::Read, self.path(), at, source)
                })
            };
            let checked = check_large(&read, batch.position, need, batch.magic)?;
            checked.map_err(|damage| self.corrupt(damage))?;
        }
        self.read(file, work, batch.position, need)?;
        self.find_whole(work, batch.position).map_err(|damage| self.corrupt(damage))
    }

    /// The record, among those that are whole in the first `bytes` of a batch that is not
    /// compressed.
    fn find_plain(
        &self,
        header: &BatchHeader,
        bytes: &[u8],
        at: Position,
    ) -> Result<Option<Hit>, Corruption> {
        let payload = bytes.get(BatchHeader::LEN..).unwrap_or_default();
        for (index, record) in Records::new(header, payload, at)?.keys().enumerate() {
            let record = record?;
            if let Some(timestamp) = record.timestamp()
                && (self.wanted)(record.offset(), timestamp)
            {
                let leader_epoch = header.leader_epoch();
                let offset = record.offset();
                let record = FoundRecord { offset, timestamp, leader_epoch };
                let is_first_of_segment = index == 0 && at.get() == 0;
                return Ok(Some(Hit { record, is_first_of_segment }));
            }
        }
        Ok(None)
    }

    /// The record, in the entry whose bytes were read.
    fn find_whole(&self, work: &mut Work, at: Position) -> Result<Option<Hit>, Corruption> {
        let Work { buffer, filled, inflated, decompressor, .. } = work;
        match Entry::parse(&buffer[..*filled], at)? {
            Entry::Batch(batch) if batch.header().attributes().codec() == Some(Codec::None) => {
                return self.find_plain(batch.header(), batch.bytes(), batch.payload_position());
            }
            Entry::Batch(batch) => {
                let leader_epoch = batch.header().leader_epoch();
                let mut records = decompressor.records(&batch, self.max_record_bytes)?;
                while let Some(record) = records.next_partial() {
                    let record = record?;
                    if let Some(timestamp) = record.timestamp
                        && (self.wanted)(record.offset, timestamp)
                    {
                        let offset = record.offset;
                        return Ok(Some(FoundRecord { offset, timestamp, leader_epoch }.into()));
                    }
                }
            }
            Entry::Legacy(entry) => {
                let limit = self.max_record_bytes;
                for record in decompressor.inflate_legacy(&entry, limit, inflated)? {
                    let record = record?;
                    if let Some(timestamp) = record.timestamp()
                        && (self.wanted)(record.offset(), timestamp)
                    {
                        let offset = record.offset();
                        let found = FoundRecord { offset, timestamp, leader_epoch: None };
                        return Ok(Some(found.into()));
                    }
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Makes sure that `work` holds the first `need` bytes of what lies at `at`.
    fn read(
        &self,
        file: &File,
        work: &mut Work,
        at: Position,
        need: usize,
    ) -> Result<(), SegmentError> {
        if work.at != at {
            work.at = at;
            work.filled = 0;
        }
        let have = work.filled;
        if have >= need {
            work.filled = need;
            return Ok(());
        }
        if work.buffer.len() < need {
            work.buffer.resize(need, 0);
        }
        let from = u64::from(at.get()) + have as u64;
        let io = self.segment.dir().io();
        let read = io.read_full(file, &|| self.path(), &mut work.buffer[have..need], from);
        let count =
            read.map_err(|source| SegmentError::io(IoOp::Read, self.path(), at.get(), source))?;
        work.filled = have + count;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.segment.path(FileKind::Log)
    }

    fn corrupt(&self, damage: Corruption) -> SegmentError {
        SegmentError::corrupt(self.path(), damage)
    }
}

/// Memory that the searches of a thread use again and again.
#[derive(Default)]
struct Work {
    /// Begins with what was read from byte `at` on; it never becomes shorter.
    buffer: Vec<u8>,
    filled: usize,
    at: Position,
    inflated: Vec<u8>,
    decompressor: Decompressor,
}

impl Work {
    /// How many bytes are in memory of what lies at `at`.
    fn len_at(&self, at: Position) -> usize {
        if self.at == at { self.filled } else { 0 }
    }

    /// What was read from byte `at` on.
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

thread_local! {
    static WORK: RefCell<Work> = RefCell::default();
}

/// Bytes of a batch that are read at first.
const CHUNK_BYTES: usize = 8192;

/// Bytes of a segment that are read at first, where its first record is likely to be the answer.
const FIRST_BYTES: usize = 1024;
