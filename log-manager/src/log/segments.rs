//! The segments of a log at one moment.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use alluvium_record_format::{Offset, Position};
use alluvium_segment::Segment;

use crate::sync::AtomicU32;

/// The segments of a log by base offset, at least one. Never changed: a new list takes its
/// place, and readers go on with the one that they hold.
///
/// Lists share their chunks: the next one after a roll costs a copy of the last chunk and a pointer
/// to each of the others.
#[derive(Debug)]
pub(crate) struct SegmentList {
    /// At least one, and none is empty.
    chunks: Vec<Chunk>,
    len: usize,
    /// Bytes of the active segment that lie below the log end. Its size moves before the log end
    /// does: between the two, what is behind must not be read.
    readable: AtomicU32,
}

/// Some neighbours, [`CHUNK`] at most.
type Chunk = Arc<[Arc<Segment>]>;

/// Few enough to copy in a roll, and enough for a log of 100,000 to have few chunks.
const CHUNK: usize = 256;

impl SegmentList {
    /// A list of segments that are in order; the last one is active, and all of it below the log
    /// end, or about to be cut.
    pub(crate) fn new(segments: &[Arc<Segment>]) -> Self {
        debug_assert!(segments.is_sorted_by_key(|segment| segment.base_offset()));
        Self::of(segments.chunks(CHUNK).map(Chunk::from).collect())
    }

    fn of(chunks: Vec<Chunk>) -> Self {
        let last = chunks.last().and_then(|chunk| chunk.last());
        let size = last.expect("a log has at least one segment").size_bytes();
        let len = chunks.iter().map(|chunk| chunk.len()).sum();
        Self { chunks, len, readable: AtomicU32::new(size) }
    }

    /// The list with one more segment, which is active from now on.
    pub(crate) fn with(&self, next: &Arc<Segment>) -> Self {
        let mut chunks = Vec::with_capacity(self.chunks.len() + 1);
        chunks.extend_from_slice(&self.chunks);
        let begun = chunks.pop_if(|last| last.len() < CHUNK);
        chunks.push(begun.iter().flat_map(|last| last.iter()).chain([next]).cloned().collect());
        Self::of(chunks)
    }

    /// The list without its first `count` segments: not all.
    pub(crate) fn without_first(&self, count: usize) -> Self {
        let mut chunks = Vec::new();
        let mut before = count;
        for chunk in &self.chunks {
            match chunk.get(before..) {
                Some([]) | None => {}
                Some(_) if before == 0 => chunks.push(Arc::clone(chunk)),
                Some(kept) => chunks.push(kept.into()),
            }
            before = before.saturating_sub(chunk.len());
        }
        Self::of(chunks)
    }

    /// The log end has come to the end of the active segment.
    pub(crate) fn publish_end(&self) {
        self.readable.store(self.active().size_bytes(), Ordering::Release);
    }

    /// Where the active segment's bytes below the log end end. Ask before the log end: what lies
    /// below this then lies below that, except beside a cut. The log end falls before the bytes go:
    /// who asks in between has the new end and the old place, and reads what was there before.
    pub(crate) fn end(&self) -> Position {
        Position::new(self.readable.load(Ordering::Acquire))
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The active segment.
    pub(crate) fn active(&self) -> &Arc<Segment> {
        let last = &self.chunks[self.chunks.len() - 1];
        &last[last.len() - 1]
    }

    /// The oldest segment.
    pub(crate) fn first(&self) -> &Arc<Segment> {
        &self.chunks[0][0]
    }

    /// All segments.
    pub(crate) fn all(&self) -> Segments<'_> {
        Segments { here: [].iter(), later: self.chunks.iter() }
    }

    /// All segments, in a list of the caller's own.
    pub(crate) fn to_vec(&self) -> Vec<Arc<Segment>> {
        self.chunks.concat()
    }

    /// The segments from the one that may hold `offset` on; none where all begin after it.
    pub(crate) fn reaching(&self, offset: Offset) -> Segments<'_> {
        let is_below = |segment: &Arc<Segment>| segment.base_offset() <= offset;
        let Some(at) = self.chunks.partition_point(|chunk| is_below(&chunk[0])).checked_sub(1)
        else {
            return Segments { here: [].iter(), later: [].iter() };
        };
        let chunk = &self.chunks[at];
        let after = chunk.partition_point(is_below);
        Segments { here: chunk[after - 1..].iter(), later: self.chunks[at + 1..].iter() }
    }

    /// The segments that may hold offsets of `from..to`.
    ///
    /// Source: `LogSegments.values` in Kafka.
    pub(crate) fn values(
        &self,
        from: Offset,
        to: Offset,
    ) -> impl Iterator<Item = &Arc<Segment>> + Clone {
        let first =
            if from < self.first().base_offset() { self.all() } else { self.reaching(from) };
        first.take_while(move |segment| from < to && segment.base_offset() < to)
    }

    /// Bytes of all segments.
    pub(crate) fn size_bytes(&self) -> u64 {
        bytes_of(self.all())
    }
}

/// Segments of a list, from one on.
#[derive(Clone, Debug)]
pub(crate) struct Segments<'a> {
    here: slice::Iter<'a, Arc<Segment>>,
    later: slice::Iter<'a, Chunk>,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a Arc<Segment>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.here.next() {
                None => self.here = self.later.next()?.iter(),
                next => return next,
            }
        }
    }
}

/// Bytes of these segments, without their indexes.
pub(super) fn bytes_of<'a>(segments: impl IntoIterator<Item = &'a Arc<Segment>>) -> u64 {
    segments.into_iter().map(|segment| u64::from(segment.size_bytes())).sum()
}

#[cfg(test)]
mod tests {
    use alluvium_segment::{ActiveSegment, Birth, DirLock, FilePool, PartitionDir, SegmentConfig};

    use super::*;

    struct Fixture {
        _root: tempfile::TempDir,
        dir: Arc<PartitionDir>,
    }

    impl Fixture {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join("t-0");
            std::fs::create_dir(&path).unwrap();
            let lock = DirLock::acquire(root.path()).unwrap();
            let dir = PartitionDir::open(&path, &lock, &FilePool::new(8)).unwrap();
            Self { _root: root, dir }
        }

        fn segment(&self, base: i64) -> Arc<Segment> {
            let (config, birth) = (SegmentConfig::new(), Birth::default());
            let made = ActiveSegment::create(&self.dir, Offset::new(base), config, birth);
            Arc::clone(made.unwrap().segment())
        }
    }

    fn bases<'a>(segments: impl Iterator<Item = &'a Arc<Segment>>) -> Vec<i64> {
        segments.map(|segment| segment.base_offset().get()).collect()
    }

    /// FR-097, fourth input: bounds that are no segment's base.
    #[test]
    fn a_range_of_segments_follows_the_floor_of_its_start() {
        let fixture = Fixture::new();
        let list = SegmentList::new(&[10, 20, 30].map(|base| fixture.segment(base)));
        let values = |from, to| bases(list.values(Offset::new(from), Offset::new(to)));
        assert_eq!(values(15, 15), [0; 0]);
        assert_eq!(values(15, 16), [10]);
        assert_eq!(values(15, 30), [10, 20]);
        assert_eq!(values(0, 31), [10, 20, 30]);
        assert_eq!(values(0, 5), [0; 0]);
        assert_eq!(values(35, 40), [30]);
        assert_eq!(values(20, 20), [0; 0]);
    }

    /// Segments at 0, 10, 20 and so on, in three chunks, against what a flat list would say.
    #[test]
    fn a_list_in_chunks_is_as_one_list() {
        let fixture = Fixture::new();
        let count = i64::try_from(2 * CHUNK + 3).unwrap();
        let mut list = SegmentList::new(&[fixture.segment(0)]);
        let mut before = Vec::new();
        for at in 1..count {
            let next = list.with(&fixture.segment(at * 10));
            before.push(std::mem::replace(&mut list, next));
        }
        for (list, len) in before.iter().zip(1..) {
            assert_eq!((list.len(), list.all().count()), (len, len), "who holds a list keeps it");
        }
        let all: Vec<i64> = (0..count).map(|at| at * 10).collect();
        for gone in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, all.len() - 1] {
            let (list, kept) = (list.without_first(gone), &all[gone..]);
            assert_eq!(bases(list.all()), kept);
            assert_eq!(bases(list.to_vec().iter()), kept);
            assert_eq!((list.len(), list.first().base_offset().get()), (kept.len(), kept[0]));
            assert_eq!(list.active().base_offset().get(), all[all.len() - 1]);
            for offset in (0..count * 10 + 20).step_by(5) {
                let after = kept.partition_point(|base| *base <= offset);
                let expected = if after == 0 { &[][..] } else { &kept[after - 1..] };
                assert_eq!(bases(list.reaching(Offset::new(offset))), expected);
            }
        }
    }
}
