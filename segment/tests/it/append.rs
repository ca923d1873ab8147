//! Append, seal, reopen: what lies on disk, and what a reader finds.

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_segment::{SegmentConfig, SegmentError};

use crate::support::{Fixture, base_at, birth, every_batch, hex, moved, one, ranges, three};

#[test]
fn what_was_appended_is_read_back_from_every_offset() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    assert_eq!(active.append(&three()).unwrap(), Position::new(0));
    assert_eq!(active.append(&moved(&one(), 9)).unwrap(), Position::new(354));
    let segment = active.segment();
    for (offset, base) in [0, 0, 0, 3, 3, 3, 6, 6, 6, 9].into_iter().enumerate() {
        assert_eq!(base_at(segment, i64::try_from(offset).unwrap()), Some(base));
    }
    assert_eq!(base_at(segment, 10), None);
    assert_eq!(active.next_offset(), Offset::new(10));
    assert_eq!(fixture.bytes("00000000000000000000.log"), [three(), moved(&one(), 9)].concat());
}

/// FR-032: one append of six batches gets the entries that six appends get.
#[test]
fn an_append_of_many_batches_gets_the_entries_of_many_appends() {
    let config = SegmentConfig::new().index_interval_bytes(100).max_index_bytes(1024);
    let batches: Vec<_> = (0..6).map(|base| moved(&one(), base)).collect();
    let together = Fixture::new();
    let mut active = together.create(0, config);
    active.append(&batches.concat()).unwrap();
    active.seal().unwrap();
    let apart = Fixture::new();
    let mut active = apart.create(0, config);
    for batch in &batches {
        active.append(batch).unwrap();
    }
    active.seal().unwrap();
    let expected = hex("00000002 0000008c | 00000004 00000118");
    for fixture in [together, apart] {
        assert_eq!(fixture.bytes("00000000000000000000.index"), expected);
        assert_eq!(
            fixture.bytes("00000000000000000000.timeindex"),
            hex("00000000000003e8 00000000")
        );
    }
}

#[test]
fn a_sealed_segment_goes_on_after_a_reopen() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    drop(active.seal().unwrap());
    let mut active = fixture.reopen(0);
    assert_eq!(active.next_offset(), Offset::new(9));
    active.append(&moved(&one(), 9)).unwrap();
    let segment = active.seal().unwrap();
    assert_eq!(ranges(&segment), [(0, 2), (3, 5), (6, 8), (9, 9)]);
    assert_eq!(base_at(&segment, 9), Some(9));
}

#[test]
fn a_segment_has_one_writer_and_one_object() {
    let fixture = Fixture::new();
    let active = fixture.create(0, every_batch());
    let again = fixture.open(0);
    assert!(std::sync::Arc::ptr_eq(&again, active.segment()));
    let second =
        alluvium_segment::ActiveSegment::open(&fixture.dir, Offset::new(0), every_batch(), birth());
    assert!(matches!(second, Err(SegmentError::Busy { .. })));
}

#[test]
fn bytes_that_are_no_whole_batches_are_refused_before_a_byte_is_written() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    let whole = three();
    for len in [1, 17, 60, 117, 119, 353] {
        let result = active.append(&whole[..len]);
        assert!(matches!(result, Err(SegmentError::Corrupt { .. })), "{len} bytes");
    }
    assert_eq!(active.segment().size_bytes(), 0);
    assert!(fixture.bytes("00000000000000000000.log").is_empty());
}

#[test]
fn offsets_that_do_not_rise_are_refused_before_a_byte_is_written() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let result = active.append(&moved(&one(), 8));
    assert!(matches!(result, Err(SegmentError::OutOfOrder { .. })));
    let twice = [moved(&one(), 9), moved(&one(), 9)].concat();
    assert!(matches!(active.append(&twice), Err(SegmentError::OutOfOrder { .. })));
    assert_eq!(active.segment().size_bytes(), 354);
    assert_eq!(active.segment().max_timestamp().unwrap().unwrap().timestamp, Timestamp::new(1008));
}

#[test]
fn the_index_entry_of_an_offset_is_the_one_at_or_below_it() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let entry = |offset| active.segment().index_entry(Offset::new(offset)).unwrap();
    assert_eq!(entry(4), None);
    assert_eq!(entry(5).map(|entry| entry.position), Some(Position::new(118)));
    assert_eq!(entry(7).map(|entry| entry.offset), Some(Offset::new(5)));
    assert_eq!(entry(100).map(|entry| entry.offset), Some(Offset::new(8)));
}

#[test]
fn offsets_in_a_range_of_bytes_lie_below_the_first_entry_behind_it() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    for batch in three().chunks(118) {
        active.append(batch).unwrap();
    }
    let bound = |position, size_bytes| {
        let bound = active.segment().upper_bound_offset(Position::new(position), size_bytes);
        bound.unwrap().map(Offset::get)
    };
    assert_eq!((bound(0, 117), bound(0, 119)), (Some(5), Some(8)));
    assert_eq!((bound(118, 118), bound(118, 119)), (Some(8), None));
}
