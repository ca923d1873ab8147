//! The segments of a log at one moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alluvium_record_format::{Offset, Position};
use alluvium_segment::Segment;

use crate::sync::AtomicU32;

/// The segments of a log by base offset, at least one. Never changed: a new list takes its
/// place, and readers go on with the one that they hold.
#[derive(Debug)]
pub(crate) struct SegmentList {
    segments: Vec<Arc<Segment>>,
    /// Bytes of the active segment that lie below the log end. Its size moves before the log end
    /// does: between the two, what is behind must not be read.
    readable: AtomicU32,
}

impl SegmentList {
    /// A list of segments that are in order; the last one is active, and all of it below the log
    /// end, or about to be cut.
    pub(crate) fn new(segments: Vec<Arc<Segment>>) -> Self {
        debug_assert!(segments.is_sorted_by_key(|segment| segment.base_offset()));
        assert!(!segments.is_empty(), "a log has at least one segment");
        let size = segments[segments.len() - 1].size_bytes();
        Self { segments, readable: AtomicU32::new(size) }
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

    /// The active segment.
    pub(crate) fn active(&self) -> &Arc<Segment> {
        &self.segments[self.segments.len() - 1]
    }

    /// The oldest segment.
    pub(crate) fn first(&self) -> &Arc<Segment> {
        &self.segments[0]
    }

    /// All segments.
    pub(crate) fn all(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// The segments from the one that may hold `offset` on; empty where all begin after it.
    pub(crate) fn reaching(&self, offset: Offset) -> &[Arc<Segment>] {
        match self.segments.partition_point(|segment| segment.base_offset() <= offset) {
            0 => &[],
            after => &self.segments[after - 1..],
        }
    }

    /// The segments that may hold offsets of `from..to`.
    ///
    /// Source: `LogSegments.values` in Kafka.
    pub(crate) fn values(&self, from: Offset, to: Offset) -> &[Arc<Segment>] {
        if from >= to {
            return &[];
        }
        let start = self.segments.partition_point(|segment| segment.base_offset() <= from);
        let end = self.segments.partition_point(|segment| segment.base_offset() < to);
        self.segments.get(start.saturating_sub(1)..end).unwrap_or_default()
    }

    /// Bytes of all segments.
    pub(crate) fn size_bytes(&self) -> u64 {
        bytes_of(&self.segments)
    }
}

/// Bytes of these segments, without their indexes.
pub(super) fn bytes_of(segments: &[Arc<Segment>]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.size_bytes())).sum()
}

#[cfg(test)]
mod tests {
    use alluvium_segment::{ActiveSegment, Birth, DirLock, FilePool, PartitionDir, SegmentConfig};

    use super::*;

    /// FR-097, fourth input: bounds that are no segment's base.
    #[test]
    fn a_range_of_segments_follows_the_floor_of_its_start() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("t-0");
        std::fs::create_dir(&path).unwrap();
        let lock = DirLock::acquire(root.path()).unwrap();
        let dir = PartitionDir::open(&path, &lock, &FilePool::new(8)).unwrap();
        let make = |base| {
            let made = ActiveSegment::create(
                &dir,
                Offset::new(base),
                SegmentConfig::new(),
                Birth::default(),
            );
            Arc::clone(made.unwrap().segment())
        };
        let list = SegmentList::new([10, 20, 30].map(make).to_vec());
        let values = |from, to| -> Vec<i64> {
            let found = list.values(Offset::new(from), Offset::new(to));
            found.iter().map(|segment| segment.base_offset().get()).collect()
        };
        assert_eq!(values(15, 15), [0; 0]);
        assert_eq!(values(15, 16), [10]);
        assert_eq!(values(15, 30), [10, 20]);
        assert_eq!(values(0, 31), [10, 20, 30]);
        assert_eq!(values(0, 5), [0; 0]);
        assert_eq!(values(35, 40), [30]);
        assert_eq!(values(20, 20), [0; 0]);
    }
}
