//! Reads by offset: which bytes, from which byte on.

use alluvium_record_format::{Offset, Position};
use alluvium_segment::{Segment, SegmentConfig};

use crate::support::{Fixture, base_at, batch_at, every_batch, hex, moved, one, three};

/// The read of the worked table: metadata offset, position, bytes, first entry incomplete.
fn answer(
    segment: &Segment,
    start: i64,
    max: u32,
    end: Option<u32>,
    min_one: bool,
) -> Option<(i64, u32, u32, bool)> {
    let slice = segment.read(Offset::new(start), max, end.map(Position::new), min_one).unwrap()?;
    let incomplete = slice.first_entry_incomplete();
    Some((slice.base_offset().get(), slice.position().get(), slice.len(), incomplete))
}

/// Five batches of two records, 135 bytes each: the segment of the worked reads.
fn worked_segment(fixture: &Fixture, config: SegmentConfig) -> std::sync::Arc<Segment> {
    let mut active = fixture.create(0, config);
    for base in [0, 2, 4, 6, 8] {
        let batch = batch_at(base, &[1000, 1000], 29);
        assert_eq!(batch.len(), 135);
        active.append(&batch).unwrap();
    }
    active.seal().unwrap()
}

/// The table of `docs/format/segment.md#read`, as Kafka 4.4.0 answers.
#[test]
fn a_slice_has_the_bytes_that_kafka_sends() {
    for config in [every_batch(), SegmentConfig::new(), every_batch().index_interval_bytes(200)] {
        let fixture = Fixture::new();
        let segment = worked_segment(&fixture, config);
        let all = Some(675);
        assert_eq!(answer(&segment, 0, 1, all, true), Some((0, 0, 135, false)));
        assert_eq!(answer(&segment, 0, 1, all, false), Some((0, 0, 1, true)));
        assert_eq!(answer(&segment, 0, 0, all, true), Some((0, 0, 135, false)));
        assert_eq!(answer(&segment, 0, 0, all, false), Some((0, 0, 0, false)));
        assert_eq!(answer(&segment, 1, 1000, all, true), Some((0, 0, 675, false)));
        assert_eq!(answer(&segment, 3, 200, all, true), Some((2, 135, 200, false)));
        assert_eq!(answer(&segment, 5, 10000, Some(405), true), Some((4, 270, 135, false)));
        assert_eq!(answer(&segment, 6, 1000, Some(405), true), Some((6, 405, 0, false)));
        assert_eq!(answer(&segment, 6, 1000, None, true), Some((6, 405, 0, false)));
        assert_eq!(answer(&segment, 9, 1000, Some(405), true), Some((8, 540, 0, false)));
        assert_eq!(answer(&segment, 10, 1000, all, true), None);
    }
}

#[test]
fn a_position_beyond_the_end_gives_no_more_than_the_segment_has() {
    let fixture = Fixture::new();
    let segment = worked_segment(&fixture, every_batch());
    assert_eq!(answer(&segment, 8, 10_000, Some(u32::MAX), true), Some((8, 540, 135, false)));
}

/// FR-050: a read that lands in a gap begins with the next batch; one inside a batch begins with
/// that batch.
#[test]
fn a_read_in_a_gap_begins_with_the_next_batch() {
    let fixture = Fixture::new();
    fixture.put("00000000000000000000.log", &three()[..118]);
    fixture.put("00000000000000000006.log", &three()[236..]);
    let (first, second) = (fixture.open(0), fixture.open(6));
    assert_eq!(base_at(&first, 0), Some(0));
    assert_eq!((base_at(&first, 3), base_at(&first, 4)), (None, None));
    assert_eq!([3, 4, 6, 8].map(|offset| base_at(&second, offset)), [Some(6); 4]);
    assert_eq!((base_at(&second, 9), base_at(&second, 10)), (None, None));
}

/// FR-050: an empty segment answers nothing, so that the caller goes on with the next.
#[test]
fn an_empty_segment_answers_no_read() {
    let fixture = Fixture::new();
    fixture.put("00000000000000000003.log", b"");
    let segment = fixture.open(3);
    assert_eq!(base_at(&segment, 3), None);
    assert_eq!(segment.next_offset().unwrap(), Offset::new(3));
}

/// FR-020: a batch keeps its range when its records vanish; a reader can always go on.
#[test]
fn a_read_behind_the_last_record_of_a_batch_gives_that_batch_and_its_end() {
    let mut sparse = batch_at(0, &[1000], 10);
    sparse[23..27].copy_from_slice(&9_i32.to_be_bytes());
    let fixture = Fixture::new();
    fixture.put("00000000000000000000.log", &[sparse, moved(&one(), 10)].concat());
    let segment = fixture.open(0);
    for offset in 0..10 {
        let batch = segment.batch_of(Offset::new(offset)).unwrap().unwrap();
        assert_eq!((batch.base_offset.get(), batch.next_offset().get()), (0, 10));
    }
    assert_eq!(base_at(&segment, 10), Some(10));
}

/// FR-019: a batch without records still has a range of offsets.
#[test]
fn a_batch_without_records_is_read_like_any_other() {
    for batch in [EMPTY, EMPTY_ZSTD] {
        let fixture = Fixture::new();
        fixture.put("00000000000000000000.log", &hex(batch));
        let segment = fixture.open(0);
        assert_eq!(segment.next_offset().unwrap(), Offset::new(10));
        assert_eq!(base_at(&segment, 7), Some(0));
        drop(segment);
        let between = [hex(batch), moved(&three()[..118], 10), moved(&hex(batch), 13)].concat();
        fixture.put("00000000000000000000.log", &between);
        let segment = fixture.open(0);
        assert_eq!(
            [9, 10, 12, 13, 22].map(|offset| base_at(&segment, offset).unwrap()),
            [0, 10, 10, 13, 13]
        );
        assert_eq!(segment.next_offset().unwrap(), Offset::new(23));
    }
}

#[test]
fn a_slice_stays_readable_after_its_segment_is_deleted() {
    let fixture = Fixture::new();
    fixture.put("00000000000000000000.log", &three());
    let segment = fixture.open(0);
    let slice =
        segment.read(Offset::new(3), 1000, Some(Position::new(354)), true).unwrap().unwrap();
    segment.rename(alluvium_segment::Suffix::Deleted).unwrap();
    assert!(fixture.names().iter().all(|name| name.ends_with(".deleted")));
    segment.delete_files().unwrap();
    drop(segment);
    assert!(fixture.names().is_empty());
    let mut bytes = vec![7];
    slice.read_to(&mut bytes).unwrap();
    assert_eq!(bytes, [&[7], &three()[118..]].concat());
}

#[test]
fn a_deleted_segment_says_that_it_is_gone() {
    let fixture = Fixture::new();
    fixture.put("00000000000000000000.log", &three());
    let segment = fixture.open(0);
    segment.delete_files().unwrap();
    let result = segment.read(Offset::new(0), 1, Some(Position::new(354)), true);
    assert!(matches!(result, Err(alluvium_segment::SegmentError::Gone { .. })), "{result:?}");
}

/// A segment is removed while somebody reads it, and another one gets its name.
#[test]
fn a_deleted_segment_does_not_read_the_one_that_got_its_name() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let old = active.seal().unwrap();
    old.delete_files().unwrap();
    let mut active = fixture.create(0, every_batch());
    active.append(&one()).unwrap();
    assert!(!std::sync::Arc::ptr_eq(&old, active.segment()));
    assert_eq!(active.segment().size_bytes(), 70);
    let gone = old.read(Offset::new(0), 1, Some(Position::new(354)), true);
    assert!(matches!(gone, Err(alluvium_segment::SegmentError::Gone { .. })), "{gone:?}");
    old.delete_files().unwrap();
    assert_eq!(base_at(active.segment(), 0), Some(0));
    assert!(fixture.path("00000000000000000000.log").exists());
}

const EMPTY: &str = "0000000000000000000000310000000002c53ffb6b00000000000900000000000003e8\
    00000000000003e8ffffffffffffffffffffffffffff00000000";
const EMPTY_ZSTD: &str = "000000000000000000000031000000000246c7fe9300040000000900000000000003e8\
    00000000000003e8ffffffffffffffffffffffffffff00000000";
