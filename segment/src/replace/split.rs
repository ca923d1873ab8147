//! Cuts a segment in two or more whose offsets do not fit into one.

use std::sync::Arc;

use alluvium_record_format::{CorruptKind, Entry, Offset, Position};

use super::remove_cleaned;
use crate::active::{ActiveSegment, Birth};
use crate::config::SegmentConfig;
use crate::error::SegmentError;
use crate::names::{FileKind, Suffix};
use crate::segment::Segment;

/// Copies a segment whose offsets span more than `i32::MAX` into several that each span less,
/// sealed and synced, with the suffix `.cleaned`. A [`Replacement`](super::Replacement) puts them
/// in its place.
///
/// Each new segment is named after the base offset of its first batch, so the first may have
/// another name than the old one.
///
/// Source: `LocalLog.splitOverflowedSegment` in Kafka; `docs/format/segment.md#split`.
///
/// # Errors
///
/// `Corrupt` if the segment does not consist of whole batches of magic 2 with rising offsets;
/// `ReadOnly`, `Io`, `Index`.
pub fn split_overflowed(
    segment: &Segment,
    config: SegmentConfig,
) -> Result<Vec<Arc<Segment>>, SegmentError> {
    let config = config.preallocate_bytes(None);
    let age = segment.modified()?;
    let mut walker = segment.walk(Position::new(0))?;
    let mut split = Split { source: segment, config, done: Vec::new(), active: None };
    while let Some(entry) = walker.next_entry()? {
        split.take(&entry)?;
    }
    if let Some(damage) = walker.tail() {
        return Err(SegmentError::corrupt(walker.path(), damage));
    }
    split.seal()?;
    for new in &split.done {
        new.flush()?;
        new.set_modified(age)?;
    }
    segment.dir().sync_names()?;
    Ok(split.done)
}

struct Split<'a> {
    source: &'a Segment,
    config: SegmentConfig,
    done: Vec<Arc<Segment>>,
    /// The segment being written, and batches that wait to be written to it.
    active: Option<(ActiveSegment, Vec<u8>)>,
}

impl Split<'_> {
    fn take(&mut self, entry: &Entry<'_>) -> Result<(), SegmentError> {
        let Entry::Batch(batch) = entry else {
            let damage = CorruptKind::magic(entry.magic()).at(entry.position());
            return Err(SegmentError::corrupt(self.source.path(FileKind::Log), damage));
        };
        let header = batch.header();
        let fits = self.active.as_ref().is_some_and(|(active, _)| {
            header.last_offset().relative_to(active.segment().base_offset()).is_some()
        });
        if !fits {
            self.seal()?;
            self.begin(header.base_offset())?;
        }
        let Some((active, pending)) = &mut self.active else { return Ok(()) };
        if !pending.is_empty() && pending.len() + batch.bytes().len() > CHUNK_BYTES {
            active.append(pending)?;
            pending.clear();
        }
        pending.extend_from_slice(batch.bytes());
        Ok(())
    }

    fn begin(&mut self, base: Offset) -> Result<(), SegmentError> {
        let dir = self.source.dir();
        remove_cleaned(dir, base)?;
        let birth = Birth::default();
        let active =
            ActiveSegment::create_suffixed(dir, base, Suffix::Cleaned, self.config, birth)?;
        self.active = Some((active, Vec::new()));
        Ok(())
    }

    fn seal(&mut self) -> Result<(), SegmentError> {
        if let Some((mut active, pending)) = self.active.take() {
            active.append(&pending)?;
            self.done.push(active.seal()?);
        }
        Ok(())
    }
}

/// How many bytes are copied at a time, a larger batch excepted.
const CHUNK_BYTES: usize = 1024 * 1024;
