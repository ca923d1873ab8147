//! The offset index as a file: create, append, look up, truncate, resize, reopen.

use std::fs;

use alluvium_record_format::{Offset, Position};
use alluvium_sparse_index::{OffsetIndex, OffsetIndexFile, Refusal};

use crate::support::{Dir, at, hex, refusal};

#[test]
fn a_new_file_has_the_length_of_the_whole_entries_that_fit() {
    let dir = Dir::new();
    let index = dir.offset_index(0, 1005);
    assert_eq!((index.size_bytes(), index.len(), index.max_entries()), (1000, 0, 125));
    assert_eq!(fs::metadata(dir.path("00000000000000000000.index")).unwrap().len(), 1000);
}

#[test]
fn entries_of_the_worked_example_are_stored_as_kafka_stores_them() {
    let dir = Dir::new();
    let index = dir.offset_index(0, 1000);
    for (offset, position) in [(3, 455), (6, 910), (9, 1254)] {
        index.append(at(offset, position)).unwrap();
    }
    index.trim_to_valid_size().unwrap();
    let stored = fs::read(dir.path("00000000000000000000.index")).unwrap();
    assert_eq!(stored, hex("00000003 000001c7 | 00000006 0000038e | 00000009 000004e6"));
}

#[test]
fn a_look_up_finds_the_last_entry_not_above_the_target() {
    let dir = Dir::new();
    let index = dir.offset_index(100, 1000);
    assert_eq!(index.lookup(Offset::new(500)), at(100, 0));
    index.append(at(110, 4096)).unwrap();
    index.append(at(125, 8192)).unwrap();
    let found = [0, 109, 110, 124, 125, i64::MAX].map(|target| index.lookup(Offset::new(target)));
    let expected =
        [at(100, 0), at(100, 0), at(110, 4096), at(110, 4096), at(125, 8192), at(125, 8192)];
    assert_eq!(found, expected);
}

#[test]
fn a_pair_holds_the_entry_of_the_look_up_and_the_one_after_it() {
    let dir = Dir::new();
    let index = dir.offset_index(100, 65_536);
    assert_eq!(index.lookup_pair(Offset::new(500)), (None, None));
    let entries: Vec<_> =
        (1..=3000).map(|number| at(100 + number * 10, number_of(number))).collect();
    for entry in &entries {
        index.append(*entry).unwrap();
    }
    let path = dir.path("00000000000000000100.index");
    let bytes = fs::read(path).unwrap();
    let view = OffsetIndex::new(Offset::new(100), &bytes).without_padding();
    for target in (90..30_120).step_by(7).chain([110, 120, 30_099, 30_100, i64::MAX]) {
        let target = Offset::new(target);
        let above = entries.partition_point(|entry| entry.offset <= target);
        let expected =
            (above.checked_sub(1).map(|index| entries[index]), entries.get(above).copied());
        assert_eq!(index.lookup_pair(target), expected);
        assert_eq!(view.lookup_pair(target), expected);
        let near = index.lookup_near(target);
        assert_eq!((near.slot, near.floor, near.next), (above, expected.0, expected.1));
        assert_eq!(near.after, entries.get(above + 1).copied());
        assert_eq!(view.lookup_near(target), near);
        assert_eq!(index.lookup(target), expected.0.unwrap_or(at(100, 0)));
    }
}

fn number_of(number: i64) -> u32 {
    u32::try_from(number * 4096).unwrap()
}

#[test]
fn reserved_slots_are_no_entries_and_end_where_the_file_does() {
    let dir = Dir::new();
    let index = dir.offset_index(0, 16);
    index.reserve(100).unwrap();
    assert_eq!((index.len(), index.size_bytes()), (0, 16));
    index.append(at(1, 10)).unwrap();
    index.append(at(2, 20)).unwrap();
    index.reserve(1).unwrap();
    assert!(index.is_full());
}

#[test]
fn the_upper_bound_is_the_first_entry_behind_the_slice() {
    let dir = Dir::new();
    let index = dir.offset_index(100, 1000);
    let bound = |index: &OffsetIndexFile, position, size| {
        index.upper_bound_offset(Position::new(position), size).map(Offset::get)
    };
    assert_eq!(bound(&index, 0, 10), None);
    index.append(at(110, 4096)).unwrap();
    index.append(at(125, 8192)).unwrap();
    assert_eq!(bound(&index, 0, 4095), Some(110));
    assert_eq!(bound(&index, 4096, 4096), Some(125));
    assert_eq!(bound(&index, 4096, 4097), None);
    assert_eq!(bound(&index, 1, 0x7fff_ffff), Some(110), "the sum wraps below 0");
    assert_eq!(bound(&index, 0, 4096), Some(125), "an equal first entry is passed over");
}

#[test]
fn an_append_is_refused_where_kafka_refuses_it_and_leaves_the_index_alone() {
    let dir = Dir::new();
    let index = dir.offset_index(100, 16);
    index.append(at(110, 4096)).unwrap();
    assert!(matches!(refusal(index.append(at(110, 5000))), Refusal::OutOfOrder { .. }));
    assert!(matches!(refusal(index.append(at(99, 5000))), Refusal::OutOfOrder { .. }));
    let far = 100 + i64::from(i32::MAX);
    assert!(matches!(refusal(index.append(at(far + 1, 5000))), Refusal::OffsetOverflow { .. }));
    let high = at(111, 0x8000_0000);
    assert!(matches!(refusal(index.append(high)), Refusal::PositionOverflow { .. }));
    assert_eq!(index.iter().collect::<Vec<_>>(), [at(110, 4096)]);
    index.append(at(far, 5000)).unwrap();
    assert!(index.is_full());
    assert!(matches!(refusal(index.append(at(far, 5001))), Refusal::Full { entries: 2, .. }));
}

#[test]
fn a_reopened_index_goes_on_after_a_resize() {
    let dir = Dir::new();
    let index = dir.offset_index(0, 1000);
    index.append(at(5, 100)).unwrap();
    index.trim_to_valid_size().unwrap();
    drop(index);
    let path = dir.path("00000000000000000000.index");
    let index = OffsetIndexFile::open(&path, Offset::new(0), 1000, &dir.permit).unwrap();
    assert!(index.is_full());
    assert!(index.resize(1005).unwrap());
    assert!(!index.resize(1005).unwrap());
    index.append(at(6, 200)).unwrap();
    assert_eq!(index.iter().collect::<Vec<_>>(), [at(5, 100), at(6, 200)]);
    assert_eq!((index.len(), index.max_entries()), (2, 125));
}

#[test]
fn a_truncation_drops_the_entry_of_its_offset_whatever_its_position() {
    for position in [0, 1, 0x7fff_ffff] {
        let dir = Dir::new();
        let index = dir.offset_index(100, 1000);
        index.append(at(110, position)).unwrap();
        index.truncate_to(Offset::new(111)).unwrap();
        assert_eq!(index.last_entry(), Some(at(110, position)));
        index.truncate_to(Offset::new(110)).unwrap();
        assert_eq!(index.last_entry(), None, "{position}");
    }
}

/// A cut puts plain pages in the place of those behind it, for readers that are still there.
#[test]
fn entries_that_follow_a_cut_and_a_resize_are_in_the_file() {
    let dir = Dir::new();
    let index = dir.offset_index(0, 1 << 16);
    let fill = |numbers: std::ops::RangeInclusive<u32>, position: u32| {
        numbers.for_each(|number| index.append(at(number.into(), position)).unwrap());
    };
    fill(1..=4000, 7);
    index.truncate_to(Offset::new(101)).unwrap();
    index.trim_to_valid_size().unwrap();
    index.resize(16_384).unwrap();
    fill(101..=2048, 8);
    index.resize(1 << 16).unwrap();
    fill(2049..=4000, 9);
    index.trim_to_valid_size().unwrap();
    index.flush().unwrap();
    let bytes = fs::read(dir.path("00000000000000000000.index")).unwrap();
    let stored = OffsetIndex::new(Offset::new(0), &bytes);
    let position = |number: i64| if number <= 100 { 7 } else { 8 + u32::from(number > 2048) };
    assert!(stored.iter().eq((1..=4000).map(|number| at(number, position(number)))));
}

#[test]
fn a_large_index_that_was_cut_and_filled_anew_answers_from_the_new_entries() {
    let dir = Dir::new();
    let index = dir.offset_index(0, 1 << 20);
    let fill = |numbers: std::ops::Range<u32>, step: u32| {
        numbers.for_each(|number| index.append(at(i64::from(number * step), number)).unwrap());
    };
    let check = |numbers: std::ops::Range<u32>, step: u32| {
        for number in numbers {
            let target = Offset::new(i64::from(number * step + step - 1));
            assert_eq!(index.lookup(target), at(i64::from(number * step), number));
        }
    };
    fill(1..30_000, 10);
    check(1..30_000, 10);
    index.truncate_to(Offset::new(100_000)).unwrap();
    fill(10_000..30_000, 13);
    check(1..9_999, 10);
    check(10_000..30_000, 13);
    index.reset(1 << 20).unwrap();
    fill(1..30_000, 7);
    check(1..30_000, 7);
    assert_eq!(index.lookup(Offset::new(6)), at(0, 0));
}
