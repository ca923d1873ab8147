//! Cuts batches off the end.

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_sparse_index::TimeEntry;

use super::{ActiveSegment, BlocksAhead, FirstTimestamp, has_room};
use crate::error::{IoOp, SegmentError};
use crate::names::FileKind;

impl ActiveSegment {
    /// Removes all batches with an offset of `offset` or above, whole batches alone: one that
    /// holds `offset` inside goes too, so [`ActiveSegment::next_offset`] may end up below.
    /// Returns how many bytes were removed. An empty segment counts as made `now`.
    ///
    /// Source: `LogSegment.truncateTo` in Kafka.
    ///
    /// # Errors
    ///
    /// `Corrupt`, `Index`, `Io`; `InDoubt` after an earlier failure. If the cut itself fails, the
    /// segment is in doubt.
    pub fn truncate_to(&mut self, offset: Offset, now: Timestamp) -> Result<u32, SegmentError> {
        if self.segment.log().is_in_doubt() {
            return Err(SegmentError::InDoubt { path: self.segment.path(FileKind::Log) });
        }
        // Before the indexes lose the entries that lead there.
        let cut = self.segment.batch_of(offset)?.map(|batch| batch.position);
        let before = self.segment.size_bytes();
        self.cut_indexes(offset, cut)?;
        if cut.is_some() {
            // Blocks behind the end went with what was cut.
            self.ahead = BlocksAhead::of(&self.config);
        }
        let size = self.segment.size_bytes();
        if size == 0 {
            self.birth.now = now;
            self.segment.set_birth(self.birth);
            self.first_timestamp = FirstTimestamp::Unknown;
        }
        let largest = self.largest_after_cut()?;
        self.segment.set_largest(largest);
        self.rule.restart(largest);
        let next_offset = self.segment.tail()?.next_offset;
        self.last_offset = (size > 0).then(|| Offset::new(next_offset.get().saturating_sub(1)));
        Ok(before - size)
    }

    fn cut_indexes(&mut self, offset: Offset, cut: Option<Position>) -> Result<(), SegmentError> {
        let indexes = self.indexes()?.clone();
        // Readers find out that what they look at may vanish. First the entries go, then the
        // size, then the bytes.
        let _truncation = self.segment.begin_truncation();
        let max_bytes = self.config.max_index_bytes;
        if let Some(index) = indexes.offset.mapped() {
            index.truncate_to(offset).map_err(SegmentError::index)?;
            has_room(index.resize(max_bytes))?;
        }
        if let Some(index) = indexes.time.mapped() {
            index.truncate_to(offset).map_err(SegmentError::index)?;
            has_room(index.resize(max_bytes))?;
        }
        self.segment.mark_indexes_unsynced();
        self.segment.truncate_aborted(offset)?;
        match cut {
            Some(position) => self.cut_log(position),
            None => Ok(()),
        }
    }

    fn cut_log(&self, position: Position) -> Result<(), SegmentError> {
        let segment = &self.segment;
        let file = segment.log_for_write()?;
        let path = || segment.path(FileKind::Log);
        segment.publish_size(position.get());
        let cut = segment.dir().io().set_len(&file, &path, position.get().into());
        segment.log().mark_unsynced();
        cut.map_err(|source| {
            segment.log().mark_in_doubt();
            SegmentError::io(IoOp::SetLen, path(), position.get(), source)
        })
    }

    /// The largest timestamp of what is left: the last entry of the time index, or a larger one
    /// of a batch from there on.
    fn largest_after_cut(&mut self) -> Result<Option<TimeEntry>, SegmentError> {
        let known = self.indexes()?.time.last_entry();
        self.segment.largest_from(known)
    }
}
