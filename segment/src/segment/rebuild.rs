//! Builds the indexes of a segment again from its log.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use alluvium_record_format::{CorruptClass, Corruption, Offset, Position};
use alluvium_sparse_index::{
    BatchInfo, BuiltIndexes, IndexBuilder, OffsetEntry, OffsetIndex, TimeIndex,
};
use arc_swap::Guard;

use super::{Largest, OffsetHints, Segment};
use crate::error::{IoOp, SegmentError};
use crate::headers::{BatchAt, HeaderScan, SCRATCH_BYTES, Step};
use crate::names::FileKind;

impl Segment {
    /// Builds the offset and time index again from the headers in the log and puts them in the
    /// place of what is there. Returns false, and does nothing, while the segment is active: its
    /// writer knows its indexes.
    ///
    /// Steps over the log by its headers and does not check content. A batch that ends at or below
    /// an offset before it gets no entry. Damage is passed by the index that there was: the walk
    /// goes on at its next entry that fits the log, so that what it reached stays reachable.
    /// Without such an entry, what lies behind the damage gets none.
    ///
    /// # Errors
    ///
    /// `ReadOnly`, `Gone`, `Io`.
    pub fn rebuild_indexes(&self) -> Result<bool, SegmentError> {
        self.dir.lock()?;
        let alone = self.maintenance.lock();
        if self.is_active() {
            return Ok(false);
        }
        let built = Rebuild::new(self).run()?;
        // What readers learned of the entries counts no more, nor what they learn meanwhile.
        let truncation = self.begin_truncation();
        self.replace_indexes(&built)?;
        drop(truncation);
        drop(alone);
        Ok(true)
    }

    /// Called by a reader that found an entry which does not fit the log. Returns whether another
    /// look into the index is worth while.
    pub(crate) fn drop_bad_index(&self) -> Result<bool, SegmentError> {
        if self.dir.is_read_only() { Ok(false) } else { self.rebuild_indexes() }
    }

    /// Puts these bytes in the place of both indexes. The caller holds `maintenance`, and the
    /// segment has no writer.
    pub(crate) fn replace_indexes(&self, built: &BuiltIndexes) -> Result<(), SegmentError> {
        self.mark_indexes_unsynced();
        self.index_style.store(0, Ordering::Release);
        self.replace_offset_index(&built.offset_index)?;
        self.replace_time_index(&built.time_index)?;
        *self.largest.lock() = Largest::Unknown;
        Ok(())
    }

    /// A mapped index is changed through its one object: its readers see fewer entries for a
    /// while. A copy is let go, and the file written as any other.
    fn replace_offset_index(&self, bytes: &[u8]) -> Result<(), SegmentError> {
        self.offset_index.drop_if(|hints| hints.mapped().is_none());
        let gate = self.offset_index.hold();
        let open = gate.upgrade();
        let Some(index) = open.as_ref().and_then(|hints| hints.mapped()) else {
            return self.write_index(FileKind::OffsetIndex, bytes);
        };
        index.set_path(self.path(FileKind::OffsetIndex));
        let rewrite = || {
            index.truncate()?;
            index.resize(file_len(bytes))?;
            OffsetIndex::new(self.base, bytes).iter().try_for_each(|entry| index.append(entry))?;
            index.trim_to_valid_size()
        };
        rewrite().map(drop).map_err(SegmentError::index)
    }

    fn replace_time_index(&self, bytes: &[u8]) -> Result<(), SegmentError> {
        self.time_index.drop_if(|hints| hints.mapped().is_none());
        let gate = self.time_index.hold();
        let open = gate.upgrade();
        let Some(index) = open.as_ref().and_then(|hints| hints.mapped()) else {
            return self.write_index(FileKind::TimeIndex, bytes);
        };
        index.set_path(self.path(FileKind::TimeIndex));
        let append = |entry| index.append_final(entry).map(drop);
        let rewrite = || {
            index.truncate()?;
            index.resize(file_len(bytes))?;
            TimeIndex::new(self.base, bytes).iter().try_for_each(append)?;
            index.trim_to_valid_size()
        };
        rewrite().map(drop).map_err(SegmentError::index)
    }

    fn write_index(&self, kind: FileKind, bytes: &[u8]) -> Result<(), SegmentError> {
        let dir = self.dir.pin();
        let path = dir.join(self.name(kind).to_string());
        let io = self.dir.io();
        let named = &|| path.clone();
        let fail = |op| {
            let path: &Path = &path;
            move |source| SegmentError::file(op, path, source)
        };
        let file = match io.open(&path, true) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let created = io.create_new(&path);
                self.dir.names_changed();
                created.map_err(fail(IoOp::Create))?
            }
            other => other.map_err(fail(IoOp::Open))?,
        };
        io.write_all(&file, named, bytes, 0).map_err(fail(IoOp::Write))?;
        io.set_len(&file, named, file_len(bytes).into()).map_err(fail(IoOp::SetLen))
    }

    /// Steps over all batch headers until `take` returns false or the log ends or is damaged.
    /// Returns the damage; an incomplete batch at the end is one.
    pub(crate) fn for_each_batch(
        &self,
        mut take: impl FnMut(&BatchAt) -> bool,
    ) -> Result<Option<Corruption>, SegmentError> {
        let file = self.log_file()?;
        let path = || self.path(FileKind::Log);
        let range = (0, self.size_bytes());
        let mut scan = HeaderScan::new(self.dir.io(), &file, &path, range, SCRATCH_BYTES);
        loop {
            match scan.step()? {
                Step::Batch(batch) if take(&batch) => {}
                Step::Batch(_) | Step::End => return Ok(None),
                Step::Damage(damage) => return Ok(Some(damage)),
            }
        }
    }

    /// Whether every entry of the offset index starts at a batch and holds the last offset of a
    /// batch from there up to the next entry: an index by the rule of old brokers.
    pub(crate) fn every_entry_ends_a_batch(&self) -> Result<bool, SegmentError> {
        let guard = self.offset_hints()?;
        let Some(hints) = guard.as_ref() else { return Ok(false) };
        let mut index = 0;
        let mut next = hints.entry(0);
        let mut open: Option<Offset> = None;
        let mut sound = true;
        let damage = self.for_each_batch(|batch| {
            if let Some(entry) = next
                && entry.position <= batch.position
            {
                // The entry before must have met its last offset by now.
                sound &= open.is_none()
                    && entry.position == batch.position
                    && batch.base_offset <= entry.offset;
                index += 1;
                next = hints.entry(index);
                open = Some(entry.offset);
            }
            if open == Some(batch.last_offset) {
                open = None;
            }
            sound
        })?;
        let whole = damage.is_none_or(|damage| damage.class() == CorruptClass::Incomplete);
        Ok(sound && whole && open.is_none() && next.is_none())
    }
}

/// A rebuild of both indexes under way.
struct Rebuild<'s> {
    segment: &'s Segment,
    builder: IndexBuilder,
    /// The offset after the last batch with or without an entry.
    next_offset: Offset,
    /// The index that there was, if it can be read, and its first entry not yet passed.
    old: Option<Arc<OffsetHints>>,
    slot: usize,
}

impl<'s> Rebuild<'s> {
    fn new(segment: &'s Segment) -> Self {
        let old = segment.offset_index.get(segment.dir.pool(), || segment.open_offset_index());
        Self {
            segment,
            builder: IndexBuilder::new(segment.base, segment.config().index_interval_bytes),
            next_offset: segment.base,
            old: old.ok().and_then(Guard::into_inner),
            slot: 0,
        }
    }

    fn run(mut self) -> Result<BuiltIndexes, SegmentError> {
        let file = self.segment.log_file()?;
        let (mut at, mut resumed) = (Position::new(0), None);
        loop {
            at = self.walk(&file, at, resumed)?;
            resumed = self.entry_behind(at);
            match resumed {
                Some(entry) => at = entry.position,
                // Refused is a final time entry below the last one, which the rule never makes.
                None => return Ok(self.builder.finish().unwrap_or_default()),
            }
        }
    }

    /// Takes the batches from byte `at` on, unless the entry that led there is of another one.
    /// Returns the byte behind the last.
    fn walk(
        &mut self,
        file: &File,
        mut at: Position,
        mut resumed: Option<OffsetEntry>,
    ) -> Result<Position, SegmentError> {
        let segment = self.segment;
        let path = || segment.path(FileKind::Log);
        let range = (at.get(), segment.size_bytes());
        let mut scan = HeaderScan::new(segment.dir.io(), file, &path, range, SCRATCH_BYTES);
        while let Step::Batch(batch) = scan.step()? {
            let entry = resumed.take();
            if entry.is_some_and(|entry| !self.is_of(entry, &batch)) {
                break;
            }
            if entry.is_some() {
                self.builder.make_next_due();
            }
            self.take(&batch);
            at = batch.end();
        }
        Ok(at)
    }

    fn take(&mut self, batch: &BatchAt) {
        if batch.last_offset < self.next_offset {
            return;
        }
        // Refused is an offset that no index can hold: no damage to those that follow.
        if self.builder.push(batch_info(batch)).is_ok() {
            self.next_offset = batch.next_offset();
        }
    }

    /// The next entry of the old index that points behind byte `at`, and not past the log.
    fn entry_behind(&mut self, at: Position) -> Option<OffsetEntry> {
        let old = self.old.as_ref()?;
        let end = self.segment.size_bytes();
        loop {
            let entry = old.entry(self.slot)?;
            self.slot += 1;
            if entry.position > at && entry.position.get() < end {
                return Some(entry);
            }
        }
    }

    /// Whether the entry is that of `batch`, or of an append that began with it.
    fn is_of(&self, entry: OffsetEntry, batch: &BatchAt) -> bool {
        (self.next_offset..=entry.offset).contains(&batch.base_offset)
    }
}

/// The length of an index file with these bytes.
fn file_len(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// What the index rule needs to know of a batch.
pub(crate) fn batch_info(batch: &BatchAt) -> BatchInfo {
    BatchInfo::new(batch.last_offset, batch.position, batch.size_bytes, batch.max_timestamp)
}
