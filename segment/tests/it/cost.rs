//! What a read and an idle segment cost, in system calls and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{ActiveSegment, FilePool, Io, IoCall, IoHook, IoVerdict, SegmentConfig};

use crate::heap::kept_by;
use crate::support::{Fixture, base_at, batch_at, moved, one, read};

/// Counts reads.
#[derive(Default)]
struct Counter(AtomicUsize);

impl IoHook for Counter {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        if let IoCall::Read { .. } = call {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        IoVerdict::Proceed
    }
}

/// Whatever the size of the batches, from an offset to its slice is one `pread`, or none.
#[test]
fn a_read_costs_no_more_than_one_pread() {
    for value_bytes in [100, 1000, 3000, 16 * 1024, 100 * 1024] {
        let counter = Arc::new(Counter::default());
        let fixture = Fixture::with_io(Io::with_hook(counter.clone()));
        let mut active = fixture.create(0, SegmentConfig::new());
        for base in (0..200).step_by(2) {
            active.append(&batch_at(base, &[1000, 1001], value_bytes / 2)).unwrap();
        }
        for segment in [active.segment().clone(), active.seal().unwrap()] {
            for offset in 0..200 {
                counter.0.store(0, Ordering::Relaxed);
                assert_eq!(base_at(&segment, offset), Some(offset / 2 * 2));
                let reads = counter.0.load(Ordering::Relaxed);
                assert!(reads <= 1, "{reads} reads for {offset}, batches of {value_bytes} bytes");
            }
        }
    }
}

/// The index says all of a batch with an entry of its own and one behind it. A cut makes the next
/// read look again.
#[test]
fn a_read_of_a_batch_that_was_read_before_costs_no_pread() {
    let counter = Arc::new(Counter::default());
    let fixture = Fixture::with_io(Io::with_hook(counter.clone()));
    let mut active = fixture.create(0, SegmentConfig::new());
    let append = |active: &mut ActiveSegment, size: usize| {
        let base = active.next_offset().get();
        active.append(&batch_at(base, &[1000, 1001, 1002], size)).unwrap();
    };
    for _ in 0..20 {
        append(&mut active, 5000);
    }
    let segment = active.segment().clone();
    let reads_for = |offset: i64, size: usize| {
        counter.0.store(0, Ordering::Relaxed);
        let slice = read(&segment, offset).unwrap();
        let batch = segment.batch_of(Offset::new(offset)).unwrap().unwrap();
        let found = (slice.base_offset(), slice.position(), slice.first_batch_bytes());
        assert_eq!(found, (batch.base_offset, batch.position, batch.size_bytes));
        assert!(
            usize::try_from(slice.first_batch_bytes()).unwrap() > 3 * size,
            "a batch of this size"
        );
        counter.0.load(Ordering::Relaxed) - 1
    };
    assert_eq!([30, 31, 32].map(|offset| reads_for(offset, 5000)), [1, 0, 0]);
    // The first batch has no entry, and the last one no entry behind it.
    for edge in [1, 58] {
        assert_eq!([edge, edge].map(|offset| reads_for(offset, 5000)), [1, 1]);
    }
    active.truncate_to(Offset::new(30), Timestamp::new(0)).unwrap();
    for _ in 0..5 {
        append(&mut active, 9000);
    }
    // The first batch behind a cut has no entry, so there is none below the second one either.
    assert_eq!([36, 37, 38].map(|offset| reads_for(offset, 9000)), [1, 0, 0]);
    // Below the cut nothing has changed, but it is not known any more.
    assert_eq!([9, 10].map(|offset| reads_for(offset, 5000)), [1, 0]);
}

/// The answer to a time before the segment's is its first record. Once it is found, it is known.
#[test]
fn a_time_before_the_first_one_costs_one_pread_and_none_from_then_on() {
    for value_bytes in [100, 6_000] {
        let counter = Arc::new(Counter::default());
        let fixture = Fixture::with_io(Io::with_hook(counter.clone()));
        let mut active = fixture.create(0, SegmentConfig::new());
        for base in (0..40).step_by(2) {
            active.append(&batch_at(base, &[1000 + base, 1001 + base], value_bytes / 2)).unwrap();
        }
        let segment = active.seal().unwrap();
        for (time, most) in [(0, 1 + usize::from(value_bytes > 1000)), (999, 0), (1000, 0)] {
            counter.0.store(0, Ordering::Relaxed);
            let found = segment
                .find_by_timestamp(Timestamp::new(time), Offset::new(0), usize::MAX)
                .unwrap()
                .unwrap();
            assert_eq!((found.offset.get(), found.timestamp.get()), (0, 1000));
            let reads = counter.0.load(Ordering::Relaxed);
            assert!(reads <= most, "{reads} reads for {time}");
        }
    }
}

#[test]
fn a_first_record_that_was_cut_off_is_not_found() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, SegmentConfig::new());
    let found = |active: &ActiveSegment| {
        let found =
            active.segment().find_by_timestamp(Timestamp::new(5), Offset::new(0), usize::MAX);
        found.unwrap().map(|found| (found.offset.get(), found.timestamp.get()))
    };
    active.append(&batch_at(0, &[1000], 10)).unwrap();
    assert_eq!([found(&active), found(&active)], [Some((0, 1000)); 2]);
    active.truncate_to(Offset::new(0), Timestamp::new(0)).unwrap();
    assert_eq!(found(&active), None);
    active.append(&batch_at(3, &[1, 7], 10)).unwrap();
    assert_eq!([found(&active), found(&active)], [Some((4, 7)); 2]);
    active.append(&batch_at(5, &[5], 10)).unwrap();
    assert_eq!(found(&active), Some((4, 7)));
}

/// Batches of mixed sizes may need two.
#[test]
fn a_read_among_batches_of_all_sizes_costs_two_preads_at_most() {
    let counter = Arc::new(Counter::default());
    let fixture = Fixture::with_io(Io::with_hook(counter.clone()));
    let mut active = fixture.create(0, SegmentConfig::new());
    let sizes = [10, 20_000, 30, 500, 9000, 100, 100, 4000, 70_000, 1];
    for (offset, size) in (0..).zip(sizes.iter().cycle().take(300)) {
        active.append(&batch_at(offset, &[1000], *size)).unwrap();
    }
    let mut all = 0;
    for offset in 0..300 {
        counter.0.store(0, Ordering::Relaxed);
        assert_eq!(base_at(active.segment(), offset), Some(offset));
        let reads = counter.0.load(Ordering::Relaxed);
        assert!(reads <= 2, "{reads} reads for {offset}");
        all += reads;
    }
    assert!(all <= 450, "{all} reads for 300 offsets");
}

/// An open segment that nobody uses: no descriptor, no map, little memory.
#[test]
fn an_idle_segment_takes_less_than_a_kilobyte() {
    let fixture = Fixture::with_pool(&FilePool::new(10));
    for number in 0..1000 {
        fixture.put(&format!("{number:020}.log"), &moved(&one(), number));
    }
    let (kept, segments) = kept_by(|| (0..1000).map(|base| fixture.open(base)).collect::<Vec<_>>());
    assert!(kept < 1024 * 1000, "{} bytes a segment", kept / 1000);
    assert_eq!((fixture.dir.pool().open_files(), fixture.dir.pool().open_indexes()), (0, 0));
    assert_eq!(segments[7].base_offset(), Offset::new(7));
}

/// An index above 4 KiB takes a map, of which a process may have 65,530.
#[test]
fn no_more_indexes_are_mapped_than_the_pool_allows_and_look_ups_stay_right() {
    const BATCHES: i64 = 600;
    let pool = FilePool::with_bounds(1000, 8, Io::new());
    assert_eq!((pool.max_open_files(), pool.max_open_indexes()), (1000, 8));
    let fixture = Fixture::with_pool(&pool);
    let config = SegmentConfig::new().index_interval_bytes(1).max_index_bytes(16 << 10);
    let bases: Vec<i64> = (0..100).map(|number| number * BATCHES).collect();
    for base in &bases {
        let offsets = *base..base + BATCHES;
        let batches: Vec<u8> =
            offsets.flat_map(|offset| batch_at(offset, &[offset * 10], 10)).collect();
        let mut active = fixture.create(*base, config);
        active.append(&batches).unwrap();
        drop(active.seal().unwrap());
        for index in ["index", "timeindex"] {
            assert!(fixture.bytes(&format!("{base:020}.{index}")).len() > 4096, "{index}");
        }
    }
    let segments: Vec<_> = bases.iter().map(|base| fixture.open_with(*base, config)).collect();
    for round in 0..3 {
        for (segment, base) in segments.iter().zip(&bases) {
            let offset = base + 577 + round;
            assert_eq!(base_at(segment, offset), Some(offset));
            let time = Timestamp::new(offset * 10 - 9);
            let found = segment.find_by_timestamp(time, Offset::new(0), usize::MAX).unwrap();
            assert_eq!(found.map(|found| found.offset), Some(Offset::new(offset)));
            assert!(pool.open_indexes() <= 8, "{} indexes are open", pool.open_indexes());
        }
    }
    assert!(pool.open_indexes() > 0, "they are kept as far as the bound allows");
}
