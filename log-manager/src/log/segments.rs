//! The segments of a log at one moment.

use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_segment::Segment;

/// The segments of a log by base offset, at least one. Never changed: a new list takes its
/// place, and readers go on with the one that they hold.
#[derive(Clone, Debug)]
pub(crate) struct SegmentList(Vec<Arc<Segment>>);

impl SegmentList {
    /// A list of segments that are in order; the last one is active.
    pub(crate) fn new(segments: Vec<Arc<Segment>>) -> Self {
        debug_assert!(segments.is_sorted_by_key(|segment| segment.base_offset()));
        assert!(!segments.is_empty(), "a log has at least one segment");
        Self(segments)
    }

    /// The active segment.
    pub(crate) fn active(&self) -> &Arc<Segment> {
        &self.0[self.0.len() - 1]
    }

    /// The oldest segment.
    pub(crate) fn first(&self) -> &Arc<Segment> {
        &self.0[0]
    }

    /// All segments.
    pub(crate) fn all(&self) -> &[Arc<Segment>] {
        &self.0
    }

    /// The segments from the one that may hold `offset` on; empty where all begin after it.
    pub(crate) fn reaching(&self, offset: Offset) -> &[Arc<Segment>] {
        match self.0.partition_point(|segment| segment.base_offset() <= offset) {
            0 => &[],
            after => &self.0[after - 1..],
        }
    }

    /// The segments that may hold offsets of `from..to`.
    ///
    /// Source: `LogSegments.values` in Kafka.
    pub(crate) fn values(&self, from: Offset, to: Offset) -> &[Arc<Segment>] {
        if from >= to {
            return &[];
        }
        let start = self.0.partition_point(|segment| segment.base_offset() <= from);
        let end = self.0.partition_point(|segment| segment.base_offset() < to);
        self.0.get(start.saturating_sub(1)..end).unwrap_or_default()
    }

    /// Bytes of all segments.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.0.iter().map(|segment| u64::from(segment.size_bytes())).sum()
    }
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
