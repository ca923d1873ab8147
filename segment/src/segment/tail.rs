//! The end of a segment: its next offset, and what lies behind its last whole batch.

use alluvium_record_format::{CorruptClass, Corruption, Offset, Position};

use super::Segment;
use crate::error::SegmentError;
use crate::headers::{HeaderScan, SCRATCH_BYTES, Step};
use crate::names::FileKind;

/// How a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tail {
    /// The offset after the last whole batch; the base offset of an empty segment.
    pub next_offset: Offset,
    /// The byte after the last whole batch.
    pub end: Position,
    /// What is wrong with the bytes behind it, if there are any.
    pub damage: Option<Corruption>,
}

impl Segment {
    /// Finds the end by stepping over the headers behind the last entry of the offset index.
    ///
    /// This is the cheap check after a clean stop: where [`Tail::damage`] is set the directory
    /// was copied badly or the stop was not clean, and the segment must be recovered before
    /// anything is appended. Kafka appends behind the fragment.
    ///
    /// Source: `LogSegment.readNextOffset` in Kafka.
    ///
    /// # Errors
    ///
    /// `Gone`, `Io`.
    pub fn tail(&self) -> Result<Tail, SegmentError> {
        if self.size_bytes() == 0 {
            let end = Position::new(0);
            return Ok(Tail { next_offset: self.base, end, damage: None });
        }
        match self.tail_by_index()? {
            Some(tail) => Ok(tail),
            None if self.drop_bad_index()? => {
                let tail = self.tail_by_index()?;
                tail.map_or_else(|| self.tail_from_start(), Ok)
            }
            None => self.tail_from_start(),
        }
    }

    /// The offset after the last whole batch; the base offset of an empty segment.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the bytes behind it are no batch, as in Kafka; a batch that is cut off is
    /// passed over. `Gone`, `Io`.
    pub fn next_offset(&self) -> Result<Offset, SegmentError> {
        let tail = self.tail()?;
        match tail.damage {
            Some(damage) if damage.class() != CorruptClass::Incomplete => {
                Err(SegmentError::corrupt(self.path(FileKind::Log), damage))
            }
            _ => Ok(tail.next_offset),
        }
    }

    /// `None` if the last entry of the index does not fit the log.
    fn tail_by_index(&self) -> Result<Option<Tail>, SegmentError> {
        let last = self.offset_hints()?.as_ref().and_then(|hints| hints.last_entry());
        let Some(entry) = last else { return self.tail_from_start().map(Some) };
        if entry.position.get() >= self.size_bytes() {
            return Ok(None);
        }
        let mut first = true;
        let mut fits = true;
        let tail = self.tail_from(entry.position, |batch| {
            if std::mem::take(&mut first) {
                fits = self.fits(entry, batch)?;
            }
            Ok(fits)
        })?;
        Ok((fits && !first).then_some(tail))
    }

    fn tail_from_start(&self) -> Result<Tail, SegmentError> {
        self.tail_from(Position::new(0), |_| Ok(true))
    }

    /// Steps from `from` to the end, as long as `go_on` allows.
    fn tail_from(
        &self,
        from: Position,
        mut go_on: impl FnMut(&crate::BatchAt) -> Result<bool, SegmentError>,
    ) -> Result<Tail, SegmentError> {
        let file = self.log_file()?;
        let path = || self.path(FileKind::Log);
        let range = (from.get(), self.size_bytes());
        let mut scan = HeaderScan::new(self.dir.io(), &file, &path, range, SCRATCH_BYTES);
        let mut tail = Tail { next_offset: self.base, end: from, damage: None };
        loop {
            match scan.step()? {
                Step::Batch(batch) => {
                    tail.next_offset = batch.next_offset();
                    tail.end = batch.end();
                    if !go_on(&batch)? {
                        return Ok(tail);
                    }
                }
                Step::End => return Ok(tail),
                Step::Damage(damage) => return Ok(Tail { damage: Some(damage), ..tail }),
            }
        }
    }
}
