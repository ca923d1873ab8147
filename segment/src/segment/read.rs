//! From an offset to a slice of the log.

use alluvium_record_format::{Offset, Position};

use super::Segment;
use crate::error::SegmentError;
use crate::headers::BatchAt;
use crate::slice::SegmentSlice;

impl Segment {
    /// Finds the bytes to send to somebody who asks for `start` and what follows. Nothing is
    /// copied.
    ///
    /// The slice begins with the batch that holds `start`, or with the next one where `start`
    /// lies in a gap, and may begin before `start`. It has up to `max_bytes` and ends before
    /// `max_position`, not at a batch boundary. With `min_one_message` it holds the first batch
    /// whole, however large, unless `max_position` comes first. It is empty if `max_position` is
    /// `None` or lies at its start; its position is set all the same. `None` if all batches end
    /// before `start`: go on with the next segment.
    ///
    /// Cost: a look-up in the offset index and one `pread` of a batch header, or of up to 8 KiB
    /// of small batches. None at all of a batch that was read before, where the index has an
    /// entry for each batch and offsets follow one another. Threads that read at once write to no
    /// common cache line.
    ///
    /// Source: `LogSegment.read` in Kafka; `docs/format/segment.md#read`.
    ///
    /// # Errors
    ///
    /// `Gone` if the file was deleted or replaced, `Corrupt` if a batch header on the way to the
    /// answer is damaged, `Io`.
    pub fn read(
        &self,
        start: Offset,
        max_bytes: u32,
        max_position: Option<Position>,
        min_one_message: bool,
    ) -> Result<Option<SegmentSlice>, SegmentError> {
        let file = self.log_share()?;
        let Some(batch) = self.place_of(&file, start)? else { return Ok(None) };
        let first_batch_bytes = batch.size_bytes;
        let wanted = if min_one_message { max_bytes.max(first_batch_bytes) } else { max_bytes };
        let (len, first_entry_incomplete) = match max_position {
            Some(end) if wanted > 0 => {
                let end = end.get().min(self.size_bytes());
                let room = end.saturating_sub(batch.position.get());
                (room.min(wanted), wanted < first_batch_bytes)
            }
            _ => (0, false),
        };
        Ok(Some(SegmentSlice {
            file,
            position: batch.position,
            len,
            base_offset: batch.base_offset,
            segment_base: self.base,
            first_batch_bytes,
            first_entry_incomplete,
        }))
    }

    /// The batch that holds `offset`, or the next one where `offset` lies in a gap. `None` if all
    /// end before it.
    ///
    /// Cost: as [`Segment::read`].
    ///
    /// # Errors
    ///
    /// As [`Segment::read`].
    pub fn batch_of(&self, offset: Offset) -> Result<Option<BatchAt>, SegmentError> {
        self.locate(&*self.log_share()?, offset)
    }

    /// The first batch, `None` in an empty segment.
    ///
    /// # Errors
    ///
    /// As [`Segment::read`].
    pub fn first_batch(&self) -> Result<Option<BatchAt>, SegmentError> {
        self.batch_from(&*self.log_share()?, 0, |_| true)
    }
}
