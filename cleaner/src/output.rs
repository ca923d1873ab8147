//! Where the batches of one group go.

use std::ops::Range;
use std::sync::Arc;

use alluvium_record_format::{BatchHeader, Offset, Position};
use alluvium_segment::replace::remove_cleaned;
use alluvium_segment::{
    ActiveSegment, Birth, PartitionDir, Segment, SegmentConfig, SegmentError, Suffix,
};
use alluvium_sparse_index::AbortedTxn;

use crate::cached::let_go;

/// The new segments of one group: one, unless offsets or bytes do not fit into one. A batch that
/// is built again may grow, so one may be a little larger than `segment.bytes`, as in Kafka.
///
/// Its files go when it is dropped unfinished, a panic included: left in place, their names would
/// tell a start after a later swap that the swap had not come to its end.
#[derive(Debug)]
pub(crate) struct Output {
    dir: Arc<PartitionDir>,
    config: SegmentConfig,
    /// The base offset of the segment that is being written.
    base: Offset,
    /// The last offset that was pushed.
    last: Option<Offset>,
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

/// Why a batch was not taken.
#[derive(Debug)]
pub(crate) enum PushError {
    /// It does not lie above all before it, in order from its first offset to its last.
    Falls(Offset),
    Write(SegmentError),
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
            last: None,
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
    pub(crate) fn push(&mut self, batch: &[u8]) -> Result<(), PushError> {
        let (first, last) = ends(batch);
        // With it the base of every new segment rises too.
        if first < self.base || last < first || self.last.is_some_and(|before| first <= before) {
            return Err(PushError::Falls(first));
        }
        self.last = Some(last);
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
        finished?;
        Ok(std::mem::take(&mut self.done).into_iter().map(|(segment, _)| segment).collect())
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

impl Drop for Output {
    /// What cannot be removed now goes before the next group of this name, or at the next start.
    fn drop(&mut self) {
        let active = self.active.take().map(|active| Arc::clone(active.segment()));
        for segment in self.done.iter().map(|(segment, _)| segment).chain(&active) {
            drop(segment.delete_files());
        }
    }
}

impl From<SegmentError> for PushError {
    fn from(source: SegmentError) -> Self {
        Self::Write(source)
    }
}

/// First and last offset of a whole batch.
fn ends(batch: &[u8]) -> (Offset, Offset) {
    match BatchHeader::parse(batch, Position::new(0)) {
        Ok(header) => (header.base_offset(), header.last_offset()),
        Err(_) => (Offset::new(0), Offset::new(0)),
    }
}

/// How many bytes are written at a time, a larger batch excepted.
const CHUNK_BYTES: usize = 256 << 10;

/// The largest log file.
const MAX_SEGMENT_BYTES: u64 = i32::MAX as u64;

#[cfg(test)]
mod tests {
    use alluvium_record_format::{BatchBuilder, BatchSettings, SimpleRecord};
    use alluvium_segment::FilePool;

    use super::*;

    /// A batch of two records.
    fn batch(base: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(base)));
        for key in [b"a", b"b"] {
            builder.append(&SimpleRecord::new().key(key)).unwrap();
        }
        builder.finish().unwrap().to_vec()
    }

    #[test]
    fn a_new_segment_has_a_higher_base_or_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let dir = PartitionDir::read_only(home.path(), &FilePool::for_this_process());
        let config = SegmentConfig::new();
        let mut output = Output::begin(&dir, Offset::new(10), config, true).unwrap();
        let falls = |output: &mut Output, base| match output.push(&batch(base)) {
            Err(PushError::Falls(offset)) => assert_eq!(offset, Offset::new(base)),
            other => panic!("{other:?}"),
        };
        falls(&mut output, 5);
        output.push(&batch(20)).unwrap();
        falls(&mut output, 5);
        falls(&mut output, 20);
        falls(&mut output, 21);
        // Out of reach, so a segment of its own.
        output.push(&batch(1 << 40)).unwrap();
        assert_eq!(output.base, Offset::new(1 << 40));
        falls(&mut output, 22);
        assert_eq!(output.base, Offset::new(1 << 40));
    }
}
