//! Cuts a segment in two or more whose offsets do not fit into one.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::{Entry, Offset, Position};

use super::remove_cleaned;
use crate::config::SegmentConfig;
use crate::error::{IoOp, SegmentError};
use crate::names::{FileKind, SegmentFileName, Suffix};
use crate::partition_dir::PartitionDir;
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
/// `Corrupt` if the segment does not consist of whole batches, `OutOfOrder` if their offsets do
/// not rise; `ReadOnly`, `Io`, `Index`.
pub fn split_overflowed(
    segment: &Segment,
    config: SegmentConfig,
) -> Result<Vec<Arc<Segment>>, SegmentError> {
    let config = config.preallocate_bytes(None);
    let age = segment.modified()?;
    let mut walker = segment.walk(Position::new(0))?;
    let mut split =
        Split { source: segment, config, done: Vec::new(), last_offset: None, part: None };
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
    last_offset: Option<Offset>,
    /// The part being written.
    part: Option<Part>,
}

/// A log file being written, and batches that wait to be written to it.
struct Part {
    base: Offset,
    path: PathBuf,
    file: File,
    written: u64,
    pending: Vec<u8>,
}

impl Split<'_> {
    fn take(&mut self, entry: &Entry<'_>) -> Result<(), SegmentError> {
        let (first, last) = ends(entry);
        if let Some(before) = self.last_offset.filter(|before| last <= *before) {
            return Err(SegmentError::OutOfOrder { last: before, found: last });
        }
        self.last_offset = Some(last);
        let fits = |part: &Part| last.relative_to(part.base).is_some();
        if !self.part.as_ref().is_some_and(fits) {
            self.seal()?;
            self.begin(first)?;
        }
        let Some(part) = &mut self.part else { return Ok(()) };
        if !part.pending.is_empty() && part.pending.len() + entry.bytes().len() > CHUNK_BYTES {
            part.write(self.source.dir())?;
        }
        part.pending.extend_from_slice(entry.bytes());
        Ok(())
    }

    fn begin(&mut self, base: Offset) -> Result<(), SegmentError> {
        let dir = self.source.dir();
        remove_cleaned(dir, base)?;
        let name = SegmentFileName::new(base, FileKind::Log).with_suffix(Suffix::Cleaned);
        let path = dir.file_path(name);
        let made = dir.io().create_new(&path);
        let file = made.map_err(|e| SegmentError::file(IoOp::Create, &path, e))?;
        dir.names_changed();
        self.part = Some(Part { base, path, file, written: 0, pending: Vec::new() });
        Ok(())
    }

    /// Ends a part: its indexes follow from its headers.
    fn seal(&mut self) -> Result<(), SegmentError> {
        if let Some(mut part) = self.part.take() {
            let dir = self.source.dir();
            part.write(dir)?;
            let segment = Segment::open_suffixed(dir, part.base, Suffix::Cleaned, self.config)?;
            segment.rebuild_indexes()?;
            self.done.push(segment);
        }
        Ok(())
    }
}

impl Part {
    fn write(&mut self, dir: &PartitionDir) -> Result<(), SegmentError> {
        let path = || self.path.clone();
        dir.io()
            .write_all(&self.file, &path, &self.pending, self.written)
            .map_err(|e| SegmentError::file(IoOp::Write, &self.path, e))?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// First and last offset; of a message of an old format that holds others, the last for both.
fn ends(entry: &Entry<'_>) -> (Offset, Offset) {
    match entry {
        Entry::Batch(batch) => (batch.header().base_offset(), batch.header().last_offset()),
        _ => (entry.last_offset(), entry.last_offset()),
    }
}

/// How many bytes are copied at a time, a larger batch excepted.
const CHUNK_BYTES: usize = 1024 * 1024;
