//! An index is a hint: what a wrong, padded, cut or missing one does to reads.

use std::sync::Barrier;
use std::thread;

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_segment::{
    ActiveSegment, FilePool, PartitionDir, Segment, SegmentConfig, SegmentError,
};

use crate::support::{
    Fixture, base_at, birth, every_batch, hex, moved, one, ranges, recover, three,
};

const INDEX: &str = "00000000000000000000.index";
const LOG: &str = "00000000000000000000.log";
const TIME_INDEX: &str = "00000000000000000000.timeindex";

fn check_three(segment: &Segment) {
    assert_eq!(segment.next_offset().unwrap(), Offset::new(9));
    for offset in 0..9 {
        assert_eq!(base_at(segment, offset), Some(offset / 3 * 3), "offset {offset}");
    }
    assert_eq!(base_at(segment, 9), None);
}

/// FR-034: an entry that points past the end, into a batch, or at the end of the file.
#[test]
fn an_entry_at_the_wrong_byte_makes_the_index_be_built_again() {
    for index in ["00000005 7fffffff", "00000005 00000010", "00000008 00000162"] {
        let fixture = Fixture::new();
        fixture.put(LOG, &three());
        fixture.put(INDEX, &hex(index));
        fixture.put(TIME_INDEX, b"");
        let mut active = fixture.reopen(0);
        assert_eq!(active.next_offset(), Offset::new(9), "{index}");
        active.append(&moved(&one(), 9)).unwrap();
        let segment = active.seal().unwrap();
        assert_eq!(ranges(&segment), [(0, 2), (3, 5), (6, 8), (9, 9)]);
        let expected = hex("00000005 00000076 | 00000008 000000ec");
        assert_eq!(fixture.bytes(INDEX), expected, "the reopened counter starts at 0");
    }
}

/// FR-034: found by a read, in a segment that is only read.
#[test]
fn a_read_that_meets_a_wrong_entry_finds_its_batch_and_mends_the_index() {
    for index in ["00000005 7fffffff", "00000003 00000010", "00000004 00000000 00000005 00000010"] {
        let fixture = Fixture::new();
        fixture.put(LOG, &three());
        fixture.put(INDEX, &hex(index));
        fixture.put(TIME_INDEX, b"");
        let segment = fixture.open(0);
        for offset in 0..9 {
            assert_eq!(base_at(&segment, offset), Some(offset / 3 * 3), "{index}, {offset}");
        }
        assert_eq!(fixture.bytes(INDEX), hex("00000005 00000076 | 00000008 000000ec"), "{index}");
        assert_eq!(fixture.bytes(TIME_INDEX).len(), 24);
    }
}

/// FR-033: padded, cut or misaligned, with and without a clean stop.
#[test]
fn a_padded_or_cut_index_leaves_every_offset_readable() {
    let padded = vec![0; 1024];
    for index in [&padded[..], &[0; 8], &hex("00000005"), &hex("00000005 00000076 00000000")] {
        let fixture = Fixture::new();
        fixture.put(LOG, &three());
        fixture.put(INDEX, index);
        let segment = fixture.open(0);
        check_three(&segment);
        drop(segment);
        let mut active = fixture.reopen(0);
        active.append(&moved(&one(), 9)).unwrap();
        active.append(&moved(&one(), 10)).unwrap();
        let segment = active.seal().unwrap();
        assert_eq!(base_at(&segment, 10), Some(10));
        let index = fixture.bytes(INDEX);
        assert!(index.len() <= 5 * 8 && index.len().is_multiple_of(8), "{} bytes", index.len());
        drop(segment);
        let segment = fixture.open(0);
        assert_eq!(recover(&segment).next_offset, Offset::new(11));
        check_three_and_two(&segment);
    }
}

fn check_three_and_two(segment: &Segment) {
    assert_eq!(ranges(segment), [(0, 2), (3, 5), (6, 8), (9, 9), (10, 10)]);
}

#[test]
fn a_missing_index_is_made_on_the_first_read() {
    let fixture = Fixture::new();
    fixture.put(LOG, &three());
    let segment = fixture.open(0);
    check_three(&segment);
    assert_eq!(fixture.bytes(INDEX), hex("00000005 00000076 | 00000008 000000ec"));
    let found = segment.find_by_timestamp(Timestamp::new(1004), Offset::new(0), 1000).unwrap();
    assert_eq!(found.unwrap().offset, Offset::new(4));
}

/// Brokers before 4.0 wrote one entry for an append of several batches: the byte of the first,
/// the last offset of the last.
#[test]
fn an_index_of_an_old_broker_is_kept_and_every_offset_found() {
    let batches: Vec<_> = (0..8).map(|base| moved(&one(), base)).collect();
    let fixture = Fixture::new();
    fixture.put(LOG, &batches.concat());
    // Appends of 2, 3 and 3 batches.
    let index = hex("00000004 0000008c | 00000007 0000015e");
    fixture.put(INDEX, &index);
    fixture.put(TIME_INDEX, &hex("00000000000003e8 00000000"));
    let segment = fixture.open(0);
    for offset in 0..8 {
        assert_eq!(base_at(&segment, offset), Some(offset), "offset {offset}");
    }
    assert_eq!(segment.next_offset().unwrap(), Offset::new(8));
    assert_eq!(fixture.bytes(INDEX), index);
}

/// An index that fits no rule is not taken for one of an old broker.
#[test]
fn an_entry_with_an_offset_that_no_batch_ends_at_is_wrong() {
    let fixture = Fixture::new();
    fixture.put(LOG, &three());
    fixture.put(INDEX, &hex("00000007 00000076"));
    let segment = fixture.open(0);
    assert_eq!(base_at(&segment, 8), Some(6));
    assert_eq!(fixture.bytes(INDEX), hex("00000005 00000076 | 00000008 000000ec"));
}

/// A length that lies in the second of eight batches, and a wrong entry: whether that lies before
/// the damage, at it or behind, the sound batches that had an entry keep one.
#[test]
fn a_wrong_entry_does_not_cost_what_lies_behind_damage() {
    let batches: Vec<_> = (0..8).map(|base| moved(&one(), base)).collect();
    let len = u32::try_from(one().len()).unwrap();
    let entry = |offset: u32, at: u32| [offset.to_be_bytes(), at.to_be_bytes()].concat();
    let sound = |offset: u32| entry(offset, offset * len);
    for wrong in 1..7 {
        for lie in [1, 0x7fff_ffff_u32] {
            let fixture = Fixture::new();
            let mut log = batches.concat();
            log[one().len() + 8..][..4].copy_from_slice(&lie.to_be_bytes());
            fixture.put(LOG, &log);
            let index =
                (1..8).map(|it| if it == wrong { entry(it, it * len + 3) } else { sound(it) });
            fixture.put(INDEX, &index.collect::<Vec<_>>().concat());
            fixture.put(TIME_INDEX, b"");
            // The rule alone would give the first batch behind the damage no entry.
            let segment = fixture.open_with(0, SegmentConfig::new());
            let _ = base_at_or_damage(&segment, i64::from(wrong));
            for offset in (2..8).filter(|offset| *offset != i64::from(wrong)) {
                assert_eq!(base_at(&segment, offset), Some(offset), "{wrong} wrong, {lie}");
            }
            assert_eq!(base_at(&segment, 0), Some(0));
            assert!(base_at_or_damage(&segment, 1).is_none(), "the damaged one");
        }
    }
}

/// The base offset of the batch at `offset`; `None` where damage is in the way.
fn base_at_or_damage(segment: &Segment, offset: i64) -> Option<i64> {
    let end = Some(Position::new(segment.size_bytes()));
    match segment.read(Offset::new(offset), 1, end, true) {
        Err(SegmentError::Corrupt { .. }) => None,
        found => found.unwrap().map(|slice| slice.base_offset().get()),
    }
}

/// What an append would refuse, in a log that somebody has put together.
#[test]
fn a_batch_that_falls_back_gets_no_entry_and_hides_nothing_behind_it() {
    let fixture = Fixture::new();
    let parts = [0, 1, 2, 0, 1, 3, 4].map(|base| moved(&one(), base));
    fixture.put(LOG, &parts.concat());
    let segment = fixture.open(0);
    segment.rebuild_indexes().unwrap();
    assert_eq!([0, 1, 2, 3, 4].map(|offset| base_at(&segment, offset)), [0, 1, 2, 3, 4].map(Some));
    assert_eq!(fixture.bytes(INDEX).len(), 4 * 8);
}

/// FR-063: a torn tail under a clean marker is seen when the segment is to be written to.
#[test]
fn a_segment_with_a_torn_tail_is_not_opened_for_writing() {
    let fixture = Fixture::new();
    fixture.put(LOG, &three()[..353]);
    fixture.put(INDEX, b"");
    fixture.put(TIME_INDEX, b"");
    let segment = fixture.open(0);
    let tail = segment.tail().unwrap();
    assert_eq!((tail.next_offset, tail.end), (Offset::new(6), Position::new(236)));
    assert!(tail.damage.is_some());
    let refused = ActiveSegment::reopen(segment.clone(), every_batch(), birth());
    assert!(matches!(refused, Err(SegmentError::Corrupt { .. })));
    recover(&segment);
    let mut active = ActiveSegment::reopen(segment, every_batch(), birth()).unwrap();
    assert_eq!(fixture.bytes(LOG).len(), 236);
    assert_eq!(active.next_offset(), Offset::new(6));
    active.append(&moved(&one(), 6)).unwrap();
    assert_eq!(base_at(active.segment(), 6), Some(6));
}

/// Without the lock, a wrong index is passed over and nothing is changed.
#[test]
fn a_directory_that_is_not_ours_is_read_and_left_as_it_is() {
    for index in ["", "00000005 7fffffff", "00000005 00000010", "00000008 00000162", "00000005"] {
        let fixture = Fixture::new();
        fixture.put(LOG, &three());
        fixture.put(INDEX, &hex(index));
        let path = fixture.dir.path();
        let dir = PartitionDir::read_only(&path, &FilePool::new(10));
        let segment = Segment::open(&dir, Offset::new(0), SegmentConfig::new()).unwrap();
        check_three(&segment);
        let (offsets, times) = (segment.offset_index().unwrap(), segment.time_index().unwrap());
        assert_eq!(offsets.len(), hex(index).len() / 8);
        assert_eq!((offsets.is_empty(), times.is_empty()), (index.len() <= 8, true));
        assert_eq!(segment.max_timestamp().unwrap().unwrap().timestamp, Timestamp::new(1008));
        let found = segment.find_by_timestamp(Timestamp::new(1005), Offset::new(0), 99).unwrap();
        assert_eq!(found.unwrap().offset, Offset::new(5));
        for result in [
            segment.flush(),
            segment.rebuild_indexes().map(drop),
            segment.rename(alluvium_segment::Suffix::Deleted),
            segment.delete_files(),
            segment.set_modified(Timestamp::new(0)),
            ActiveSegment::reopen(segment.clone(), every_batch(), birth()).map(drop),
        ] {
            assert!(matches!(result, Err(SegmentError::ReadOnly { .. })));
        }
        assert_eq!(fixture.names(), [INDEX, LOG]);
        assert_eq!(fixture.bytes(INDEX), hex(index));
    }
}

/// FR-038: 16 threads open the same lazy indexes at once, while one appends.
#[test]
fn many_threads_open_one_index_once() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    active.seal().unwrap();
    let mut next = 9;
    let mut active = fixture.create(next, every_batch());
    active.append(&moved(&three(), 9)[..118]).unwrap();
    next += 3;
    drop(active);
    let open_before = open_descriptors(&fixture);
    for _ in 0..100 {
        let sealed = fixture.open(0);
        let mut active = fixture.reopen(9);
        let segment = active.segment().clone();
        let start = Barrier::new(17);
        thread::scope(|scope| {
            for reader in 0..16 {
                let (sealed, segment, start) = (&sealed, &segment, &start);
                scope.spawn(move || {
                    start.wait();
                    assert_eq!(base_at(sealed, reader % 9), Some(reader % 9 / 3 * 3));
                    assert_eq!(base_at(segment, 9 + reader % 3), Some(9));
                });
            }
            start.wait();
            active.append(&moved(&one(), next)).unwrap();
            next += 1;
        });
        assert_eq!(fixture.dir.pool().open_files(), 2);
    }
    assert_eq!((open_descriptors(&fixture), open_before), (0, 0));
}

/// The files in the directory that this process has open.
fn open_descriptors(fixture: &Fixture) -> usize {
    let dir = fixture.dir.path();
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| target.starts_with(&dir))
        .count()
}
