//! Random operations on one segment, compared with a list of batches in memory.

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{ActiveSegment, Segment, SegmentConfig};
use proptest::prelude::*;

use crate::support::{Fixture, base_at, batch_at, birth, ranges, read, recover};

#[derive(Clone, Debug)]
enum Operation {
    /// Appends batches: offsets to leave out before each, and its record times.
    Append(Vec<(i64, Vec<i64>)>),
    /// Truncates to so many thousandths of the way to the end.
    Truncate(i64),
    /// Seals and opens again, with a fresh object.
    Reopen,
    /// Is dropped as by a crash, loses bytes at its end, and is recovered.
    Crash(usize),
    /// Indexes are overwritten with these bytes while nobody has the segment open.
    Spoil(Vec<u8>),
    /// Flushes.
    Flush,
}

#[derive(Clone, Debug)]
struct Batch {
    first: i64,
    last: i64,
    times: Vec<i64>,
    bytes: Vec<u8>,
}

fn operation() -> impl Strategy<Value = Operation> {
    let gap = prop_oneof![4 => Just(0_i64), 1 => 1..20_i64];
    let times = prop::collection::vec(prop_oneof![1 => Just(-1), 9 => 0..1000_i64], 1..5);
    prop_oneof![
        6 => prop::collection::vec((gap, times), 1..6).prop_map(Operation::Append),
        2 => (0..1100_i64).prop_map(Operation::Truncate),
        2 => Just(Operation::Reopen),
        1 => (0..300_usize).prop_map(Operation::Crash),
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(Operation::Spoil),
        1 => Just(Operation::Flush),
    ]
}

struct Model {
    fixture: Fixture,
    config: SegmentConfig,
    active: Option<ActiveSegment>,
    batches: Vec<Batch>,
}

impl Model {
    fn new(config: SegmentConfig) -> Self {
        let fixture = Fixture::new();
        let active = Some(fixture.create(0, config));
        Self { fixture, config, active, batches: Vec::new() }
    }

    fn next_offset(&self) -> i64 {
        self.batches.last().map_or(0, |batch| batch.last + 1)
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Append(batches) => self.append(batches),
            Operation::Truncate(thousandths) => {
                let target = self.next_offset() * thousandths / 1000;
                let active = self.active.as_mut().unwrap();
                active.truncate_to(Offset::new(target), Timestamp::new(0)).unwrap();
                self.batches.retain(|batch| batch.last < target);
            }
            Operation::Reopen => {
                drop(self.active.take().unwrap().seal().unwrap());
                self.reopen();
            }
            Operation::Crash(lost) => self.crash(lost),
            Operation::Spoil(bytes) => {
                drop(self.active.take().unwrap().seal().unwrap());
                self.fixture.put("00000000000000000000.index", &bytes);
                self.reopen();
            }
            Operation::Flush => self.active.as_ref().unwrap().segment().flush().unwrap(),
        }
    }

    fn append(&mut self, batches: Vec<(i64, Vec<i64>)>) {
        let mut all = Vec::new();
        for (gap, times) in batches {
            let first = self.next_offset() + gap;
            let bytes = batch_at(first, &times, 20);
            all.extend_from_slice(&bytes);
            let last = first + i64::try_from(times.len()).unwrap() - 1;
            self.batches.push(Batch { first, last, times, bytes });
        }
        self.active.as_mut().unwrap().append(&all).unwrap();
    }

    fn crash(&mut self, lost: usize) {
        drop(self.active.take());
        let mut log: Vec<u8> =
            self.batches.iter().flat_map(|batch| batch.bytes.iter().copied()).collect();
        log.truncate(log.len().saturating_sub(lost));
        self.fixture.put("00000000000000000000.log", &log);
        let mut end = 0;
        self.batches.retain(|batch| {
            end += batch.bytes.len();
            end <= log.len()
        });
        recover(&self.fixture.open_with(0, self.config));
        self.reopen();
    }

    fn reopen(&mut self) {
        let (dir, base) = (&self.fixture.dir, Offset::new(0));
        self.active = Some(ActiveSegment::open(dir, base, self.config, birth()).unwrap());
    }

    fn check(&self) {
        let active = self.active.as_ref().unwrap();
        let segment = active.segment();
        let expected: Vec<_> = self.batches.iter().map(|batch| (batch.first, batch.last)).collect();
        assert_eq!(ranges(segment), expected);
        assert_eq!(active.next_offset().get(), self.next_offset());
        assert_eq!(segment.next_offset().unwrap().get(), self.next_offset());
        for offset in 0..=self.next_offset() {
            let holder = self.batches.iter().find(|batch| batch.last >= offset);
            assert_eq!(base_at(segment, offset), holder.map(|batch| batch.first));
        }
        self.check_reads(segment);
        self.check_times(segment);
    }

    /// What reads have learned of the index, and what `batch_of` finds without it, are one.
    fn check_reads(&self, segment: &Segment) {
        let mut position = 0;
        for batch in &self.batches {
            let size_bytes = u32::try_from(batch.bytes.len()).unwrap();
            for offset in [batch.first, batch.last] {
                let slice = read(segment, offset).unwrap();
                let found = segment.batch_of(Offset::new(offset)).unwrap().unwrap();
                assert_eq!(slice.position().get(), position);
                assert_eq!(slice.first_batch_bytes(), size_bytes);
                assert_eq!((found.position.get(), found.size_bytes), (position, size_bytes));
            }
            position += size_bytes;
        }
    }

    fn check_times(&self, segment: &Segment) {
        let records = || {
            let numbered = |batch: &Batch| {
                let first = batch.first;
                (first..).zip(batch.times.clone()).collect::<Vec<_>>()
            };
            self.batches.iter().flat_map(numbered)
        };
        let largest = records().map(|(_, time)| time).max().filter(|time| *time >= 0);
        let found = segment.max_timestamp().unwrap();
        assert_eq!(found.map(|entry| entry.timestamp.get()), largest);
        for target in [0, 1, 250, 500, 900, 999, 1001] {
            let expected = records().find(|(_, time)| *time >= target);
            let found = segment
                .find_by_timestamp(Timestamp::new(target), Offset::new(0), usize::MAX)
                .unwrap()
                .map(|found| (found.offset.get(), found.timestamp.get()));
            assert_eq!(found, expected, "at or after {target}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_segment_holds_what_was_appended_and_not_cut_off(
        interval in prop_oneof![Just(0_u32), Just(1), Just(100), Just(4096)],
        operations in prop::collection::vec(operation(), 1..20),
    ) {
        let config = SegmentConfig::new().index_interval_bytes(interval).max_index_bytes(4096);
        let mut model = Model::new(config);
        for operation in operations {
            model.apply(operation);
            model.check();
        }
    }
}
