//! The time index as a file: append, look up, truncate, the reserved slot.

use std::fs;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_sparse_index::{Refusal, TimeEntry, TimeIndexFile};

use crate::support::{Dir, hex, refusal, time};

fn entries(index: &TimeIndexFile) -> Vec<TimeEntry> {
    index.iter().collect()
}

#[test]
fn a_new_file_has_the_length_of_the_whole_entries_that_fit() {
    let dir = Dir::new();
    let index = dir.time_index(0, 1000);
    assert_eq!((index.size_bytes(), index.max_entries()), (996, 83));
    let index = dir.time_index(1, 10 << 20);
    assert_eq!((index.size_bytes(), index.max_entries()), (10_485_756, 873_813));
}

#[test]
fn an_entry_is_stored_as_kafka_stores_it() {
    let dir = Dir::new();
    let index = dir.time_index(100, 1000);
    assert!(index.maybe_append(time(1_700_000_000_000, 102)).unwrap());
    index.trim_to_valid_size().unwrap();
    let stored = fs::read(dir.path("00000000000000000100.timeindex")).unwrap();
    assert_eq!(stored, hex("0000018bcfe56800 00000002"));
}

#[test]
fn a_timestamp_that_does_not_rise_is_passed_over() {
    let dir = Dir::new();
    let index = dir.time_index(0, 1000);
    assert!(!index.maybe_append(time(-1, 5)).unwrap(), "-1 is no time");
    assert!(index.maybe_append(time(0, 5)).unwrap());
    assert!(!index.maybe_append(time(0, 5)).unwrap());
    assert!(!index.maybe_append(time(0, 9)).unwrap());
    assert!(index.maybe_append(time(1, 9)).unwrap());
    assert_eq!(entries(&index), [time(0, 5), time(1, 9)]);
}

#[test]
fn what_goes_back_is_refused() {
    let dir = Dir::new();
    let index = dir.time_index(0, 1000);
    index.maybe_append(time(10, 5)).unwrap();
    let lower_offset = refusal(index.maybe_append(time(11, 4)));
    assert!(matches!(lower_offset, Refusal::OutOfOrder { .. }), "{lower_offset}");
    let lower_time = refusal(index.maybe_append(time(9, 6)));
    assert!(matches!(lower_time, Refusal::TimestampOutOfOrder { .. }), "{lower_time}");
    let too_far = refusal(index.maybe_append(time(11, 1 << 31)));
    assert!(matches!(too_far, Refusal::OffsetOverflow { .. }), "{too_far}");
    assert_eq!(entries(&index), [time(10, 5)]);
}

#[test]
fn the_last_slot_is_kept_for_the_final_entry() {
    let dir = Dir::new();
    let index = dir.time_index(0, 36);
    index.maybe_append(time(10, 1)).unwrap();
    assert!(!index.is_full());
    index.maybe_append(time(20, 2)).unwrap();
    assert!(index.is_full());
    assert!(matches!(refusal(index.maybe_append(time(30, 3))), Refusal::Full { .. }));
    assert!(matches!(refusal(index.maybe_append(time(5, 3))), Refusal::Full { .. }), "first rule");
    assert!(index.append_final(time(30, 3)).unwrap());
    assert!(!index.append_final(time(30, 3)).unwrap(), "nothing new needs no slot");
    assert!(matches!(refusal(index.append_final(time(40, 4))), Refusal::Full { .. }));
}

#[test]
fn a_look_up_finds_the_last_entry_not_above_the_target() {
    let dir = Dir::new();
    let index = dir.time_index(0, 1000);
    assert_eq!((index.lookup(Timestamp::new(i64::MAX)), index.last_entry()), (None, None));
    index.maybe_append(time(10, 1)).unwrap();
    index.maybe_append(time(i64::MAX, 2)).unwrap();
    let look_up = |target| index.lookup(Timestamp::new(target));
    assert_eq!(look_up(9), None);
    assert_eq!(look_up(10), Some(time(10, 1)));
    assert_eq!(look_up(i64::MAX - 1), Some(time(10, 1)));
    assert_eq!(look_up(i64::MAX), Some(time(i64::MAX, 2)));
}

#[test]
fn a_truncation_keeps_entries_below_the_offset_alone() {
    let dir = Dir::new();
    let index = dir.time_index(0, 1000);
    for entry in [time(10, 1), time(20, 5), time(30, 9)] {
        index.maybe_append(entry).unwrap();
    }
    index.truncate_to(Offset::new(10)).unwrap();
    assert_eq!(index.len(), 3);
    index.truncate_to(Offset::new(9)).unwrap();
    assert_eq!(entries(&index), [time(10, 1), time(20, 5)]);
    index.truncate_to(Offset::new(0)).unwrap();
    assert_eq!((index.len(), index.size_bytes()), (0, 996));
}

#[test]
fn a_file_of_one_zero_entry_holds_the_timestamp_0_and_more_zeros_are_padding() {
    let dir = Dir::new();
    let open = |bytes: &[u8]| {
        let path = dir.file("0.timeindex", bytes);
        TimeIndexFile::open(&path, Offset::new(0), 0, &dir.permit).unwrap()
    };
    assert_eq!(entries(&open(&[0; 12])), [time(0, 0)]);
    assert_eq!(entries(&open(&[0; 24])), []);
    let one = hex("0000000000000009 00000002 000000000000000000000000 000000000000000000000000");
    assert_eq!(entries(&open(&one)), [time(9, 2)]);
}
