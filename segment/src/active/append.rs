//! Appends: one write, then the indexes.

use std::fs::File;
use std::io;

use alluvium_record_format::{BatchHeader, CorruptKind, Corruption, Offset, Position, Timestamp};
use alluvium_sparse_index::{BatchInfo, IndexRule, OffsetIndexFile, TimeIndexFile};

use super::{ActiveSegment, BlocksAhead, FirstTimestamp, Indexes};
use crate::error::{IoOp, SegmentError};
use crate::names::FileKind;
use crate::walk::{MAX_SEGMENT_BYTES, to_usize};

/// What an append would do, worked out before anything is changed.
struct Plan {
    bytes: u32,
    last_offset: Offset,
    first_timestamp: Option<Timestamp>,
    rule: IndexRule,
}

impl ActiveSegment {
    /// Appends one or more whole batches of magic 2 with one positioned write. Returns the byte
    /// where the first one starts.
    ///
    /// Offsets and checksums in the batches are the caller's. If the write fails or falls short,
    /// what reached the file is cut off again, and nothing else has moved: size, indexes and
    /// counters are as before, and the same append can be tried again.
    ///
    /// Cost: one `pwrite`, and one look at each batch header.
    ///
    /// Source: `LogSegment.append` in Kafka; `docs/format/segment.md#append`.
    ///
    /// # Errors
    ///
    /// Before anything is written: `Corrupt` if `bytes` are not whole batches, `OutOfOrder`,
    /// `OffsetOverflow`, `TooLarge`, `InDoubt`, `Index` if there is no room on the disk for index
    /// entries. `Io` if the write failed and was undone; `CutFailed` if that failed too.
    pub fn append(&mut self, bytes: &[u8]) -> Result<Position, SegmentError> {
        let size = self.segment.size_bytes();
        let plan = self.plan(bytes, size)?;
        if bytes.is_empty() {
            return Ok(Position::new(size));
        }
        let indexes = if self.due.is_empty() { None } else { Some(self.reserve()?) };
        let end = size + plan.bytes;
        self.write(bytes, size, end)?;
        self.segment.publish_size(end);
        if size == 0 {
            self.first_timestamp = FirstTimestamp::Known(plan.first_timestamp);
        }
        self.last_offset = Some(plan.last_offset);
        if plan.rule.max_timestamp() != self.rule.max_timestamp() {
            self.segment.set_largest(plan.rule.max_timestamp());
        }
        self.rule = plan.rule;
        if let Some(indexes) = indexes {
            self.add_entries(&indexes);
        }
        Ok(Position::new(size))
    }

    /// Says whether appends go around the page cache from now on: for who writes much that nobody
    /// reads soon. Off at first.
    pub const fn set_uncached(&mut self, yes: bool) {
        self.uncached = yes;
    }

    /// Looks at all batches, and collects the index entries that they bring about.
    fn plan(&mut self, bytes: &[u8], size: u32) -> Result<Plan, SegmentError> {
        if self.segment.log().is_in_doubt() {
            return Err(SegmentError::InDoubt { path: self.segment.path(FileKind::Log) });
        }
        let total = self.total_size(bytes, size)?;
        let mut rule = self.rule;
        let mut last_offset = self.last_offset;
        let mut first_timestamp = None;
        self.due.clear();
        let mut done = 0;
        while done < bytes.len() {
            let at = Position::new(size).saturating_add_len(done);
            let header = whole_batch(&bytes[done..], at).map_err(|damage| {
                SegmentError::corrupt(self.segment.path(FileKind::Log), damage)
            })?;
            let batch = BatchInfo::from_header(header, at);
            self.check_offsets(header, last_offset)?;
            last_offset = Some(batch.last_offset);
            if done == 0 {
                first_timestamp = batch.max_timestamp;
            }
            self.due.extend(rule.on_batch(batch));
            done += to_usize(batch.size_bytes);
        }
        let last_offset = last_offset.unwrap_or(self.segment.base_offset());
        Ok(Plan { bytes: total - size, last_offset, first_timestamp, rule })
    }

    fn total_size(&self, bytes: &[u8], size: u32) -> Result<u32, SegmentError> {
        let total = u64::from(size).saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        match u32::try_from(total) {
            Ok(total) if total <= MAX_SEGMENT_BYTES => Ok(total),
            _ => Err(SegmentError::TooLarge {
                path: self.segment.path(FileKind::Log),
                found: total,
                max: u64::from(MAX_SEGMENT_BYTES),
            }),
        }
    }

    fn check_offsets(
        &self,
        header: &BatchHeader,
        before: Option<Offset>,
    ) -> Result<(), SegmentError> {
        let base = self.segment.base_offset();
        for offset in [header.base_offset(), header.last_offset()] {
            if offset.relative_to(base).is_none() {
                return Err(SegmentError::OffsetOverflow { base, offset });
            }
        }
        match before {
            Some(last) if header.last_offset() <= last => {
                Err(SegmentError::OutOfOrder { last, found: header.last_offset() })
            }
            _ => Ok(()),
        }
    }

    /// Finds room for the collected entries, so that none can fail once the log is written.
    fn reserve(&mut self) -> Result<Indexes, SegmentError> {
        let entries = self.due.len();
        let indexes = self.indexes()?.clone();
        if let Some(index) = indexes.offset.mapped() {
            index.reserve(entries).map_err(SegmentError::index)?;
        }
        if let Some(index) = indexes.time.mapped() {
            index.reserve(entries).map_err(SegmentError::index)?;
        }
        Ok(indexes)
    }

    fn write(&mut self, bytes: &[u8], size: u32, end: u32) -> Result<(), SegmentError> {
        let segment = &self.segment;
        let file = segment.log_for_write()?;
        let path = || segment.path(FileKind::Log);
        let io = segment.dir().io();
        let written = if self.uncached {
            io.write_all_uncached(&file, &path, bytes, size.into())
        } else {
            self.ahead.before_write(&file, size, end);
            io.write_all(&file, &path, bytes, size.into())
        };
        segment.log().mark_unsynced();
        let Err(write) = written else { return Ok(()) };
        let error = self.undo_write(&file, size, write);
        drop(file);
        self.ahead = BlocksAhead::of(&self.config);
        Err(error)
    }

    /// Cuts off what a failed write left, and says what is to be reported.
    fn undo_write(&self, file: &File, size: u32, write: io::Error) -> SegmentError {
        let segment = &self.segment;
        let path = || segment.path(FileKind::Log);
        let io = segment.dir().io();
        if let Err(source) = io.set_len(file, &path, size.into()) {
            segment.log().mark_in_doubt();
            let position = Position::new(size);
            return SegmentError::CutFailed { path: path(), position, write, source };
        }
        if let Some(bytes) = self.config.preallocate_bytes
            && bytes > size
        {
            // Only a saving is lost if this fails.
            drop(io.set_len(file, &path, bytes.into()));
        }
        SegmentError::io(IoOp::Write, path(), size, write)
    }

    /// Adds the collected entries. A full index goes without: it is a hint.
    fn add_entries(&mut self, indexes: &Indexes) {
        let added = indexes.offset.mapped().is_none_or(|index| self.add_offsets(index))
            & indexes.time.mapped().is_none_or(|index| self.add_times(index));
        self.indexes_lag |= !added;
        self.segment.mark_indexes_unsynced();
        self.indexes_have_room = false;
    }

    fn add_offsets(&self, index: &OffsetIndexFile) -> bool {
        self.due.iter().all(|due| index.is_full() || index.append(due.offset).is_ok())
    }

    fn add_times(&self, index: &TimeIndexFile) -> bool {
        let mut times = self.due.iter().filter_map(|due| due.time);
        times.all(|entry| index.is_full() || index.maybe_append(entry).is_ok())
    }
}

/// The header of the batch at the start of `bytes`, which holds all of it.
fn whole_batch(bytes: &[u8], at: Position) -> Result<&BatchHeader, Corruption> {
    let header = BatchHeader::parse(bytes, at)?;
    let need = usize::try_from(header.size_bytes()).unwrap_or(usize::MAX);
    if need > bytes.len() {
        return Err(CorruptKind::truncated(need, bytes.len()).at(at));
    }
    Ok(header)
}
