//! Where the batches of one group go.

use std::ops::Range;
use std::sync::Arc;

use alluvium_record_format::{BatchHeader, Offset, Position};
use alluvium_segment::replace::remove_cleaned;
use alluvium_segment::{
    ActiveSegment, Birth, FileKind, PartitionDir, Segment, SegmentConfig, SegmentError, Suffix,
};
use alluvium_sparse_index::AbortedTxn;

use crate::cached::let_go;
use crate::error::CleanError;

/// The new segments of one group: one, unless offsets or bytes do not fit into one. A batch that
/// is built again may grow, so one may be a little larger than `segment.bytes`, as in Kafka.
#[derive(Debug)]
pub(crate) struct Output {
    dir: Arc<PartitionDir>,
    config: SegmentConfig,
    /// The base offset of the segment that is being written.
    base: Offset,
    /// `None` in a dry run.
    active: Option<ActiveSegment>,
    /// With the bytes of each that do not stay in the page cache.
    done: Vec<(Arc<Segment>, Vec<Range<u64>>)>,
    /// Whole batches that wait to be written.
    pending: Vec<u8>,
    /// Whether what is pushed is to stay in the page cache.
    cached: bool,
    /// Bytes of the segment that are not.
    passing: Vec<Range<u64>>,
    /// Bytes of the segment, those that wait included.
    size: u64,
    written: u64,
}

impl Output {
    /// Makes the first segment, with the suffix `.cleaned`. A `dry` output makes no file.
    pub(crate) fn begin(
        dir: &Arc<PartitionDir>,
        base: Offset,
        config: SegmentConfig,
        dry: bool,
    ) -> Result<Self, SegmentError> {
        let mut output = Self {
            dir: Arc::clone(dir),
            config,
            base,
            active: None,
            done: Vec::new(),
            pending: Vec::new(),
            cached: true,
            passing: Vec::new(),
            size: 0,
            written: 0,
        };
        if !dry {
            output.create(base)?;
        }
        Ok(output)
    }

    /// Says whether what is pushed from now on is to stay in the page cache.
    pub(crate) fn set_cached(&mut self, yes: bool) -> Result<(), SegmentError> {
        if self.cached != yes && !self.pending.is_empty() {
            self.write()?;
        }
        self.cached = yes;
        Ok(())
    }

    /// Adds a whole batch.
    pub(crate) fn push(&mut self, batch: &[u8]) -> Result<(), SegmentError> {
        let (first, last) = ends(batch);
        let len = batch.len() as u64;
        let fits = [first, last].iter().all(|offset| offset.relative_to(self.base).is_some());
        if !fits || (self.size > 0 && self.size + len > MAX_SEGMENT_BYTES) {
            self.roll(first)?;
        }
        if !self.pending.is_empty() && self.pending.len() + batch.len() > CHUNK_BYTES {
            self.write()?;
        }
        self.pending.extend_from_slice(batch);
        self.size += len;
        Ok(())
    }

    /// Notes an aborted transaction whose marker comes next.
    pub(crate) fn aborted(&self, txn: AbortedTxn) -> Result<(), SegmentError> {
        self.active.as_ref().map_or(Ok(()), |active| active.segment().append_aborted(txn))
    }

    /// Bytes written since the last call.
    pub(crate) fn take_written(&mut self) -> u64 {
        std::mem::take(&mut self.written)
    }

    /// Seals the segments, makes them durable and as old as the last one that they replace.
    pub(crate) fn finish(mut self, last: &Segment) -> Result<Vec<Arc<Segment>>, SegmentError> {
        let finished = self.seal().and_then(|()| {
            let age = last.modified()?;
            for (segment, passing) in &self.done {
                segment.flush()?;
                let_go(segment, passing);
                segment.set_modified(age)?;
            }
            Ok(())
        });
        match finished {
            Ok(()) => Ok(self.done.into_iter().map(|(segment, _)| segment).collect()),
            Err(error) => {
                self.discard();
                Err(error)
            }
        }
    }

    /// Removes all that was written. What cannot be removed now goes at the next start.
    pub(crate) fn discard(self) {
        let active = self.active.as_ref().map(|active| Arc::clone(active.segment()));
        drop(self.active);
        for segment in self.done.iter().map(|(segment, _)| segment).chain(&active) {
            drop(segment.delete_files());
        }
    }

    fn create(&mut self, base: Offset) -> Result<(), SegmentError> {
        remove_cleaned(&self.dir, base)?;
        let active = ActiveSegment::create_suffixed(
            &self.dir,
            base,
            Suffix::Cleaned,
            self.config,
            Birth::default(),
        )?;
        self.active = Some(active);
        Ok(())
    }

    /// Goes on in another segment.
    fn roll(&mut self, base: Offset) -> Result<(), SegmentError> {
        // One that is empty, because its base is out of reach of all that comes, stays for the
        // swap: by its name a start finds the old one that must go.
        if self.active.is_some() {
            self.seal()?;
            self.create(base)?;
        }
        self.base = base;
        self.size = 0;
        Ok(())
    }

    fn seal(&mut self) -> Result<(), SegmentError> {
        self.write()?;
        if let Some(active) = self.active.take() {
            let segment = Arc::clone(active.segment());
            let passing = std::mem::take(&mut self.passing);
            match active.seal() {
                Ok(sealed) => self.done.push((sealed, passing)),
                Err(error) => {
                    self.done.push((segment, passing));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), SegmentError> {
        if let Some(active) = &mut self.active {
            active.set_uncached(!self.cached);
            let start = u64::from(active.append(&self.pending)?.get());
            if !self.cached {
                self.passing.push(start..start + self.pending.len() as u64);
            }
        }
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// First and last offset of a whole batch.
fn ends(batch: &[u8]) -> (Offset, Offset) {
    match BatchHeader::parse(batch, Position::new(0)) {
        Ok(header) => (header.base_offset(), header.last_offset()),
        Err(_) => (Offset::new(0), Offset::new(0)),
    }
}

/// The path of the log that errors name.
pub(crate) fn rebuild_error(
    segment: &Segment,
    source: alluvium_record_format::BuildError,
) -> CleanError {
    CleanError::Rebuild { path: segment.path(FileKind::Log), source }
}

/// How many bytes are written at a time, a larger batch excepted.
const CHUNK_BYTES: usize = 256 << 10;

/// The largest log file.
const MAX_SEGMENT_BYTES: u64 = i32::MAX as u64;
