//! The views over bytes: padding, spare bytes, sanity.

use alluvium_record_format::{CorruptKind, Offset, Position, Timestamp};
use alluvium_sparse_index::{OffsetIndex, TimeIndex, TransactionIndex};

use crate::support::{at, hex, time};

#[test]
fn padding_begins_at_the_first_slot_behind_the_first_whose_offset_is_the_base() {
    let padded =
        hex("00000005 00000076 | 00000008 000000ec | 00000000 00000000 | 0000000000000000");
    let index = OffsetIndex::new(Offset::new(800), &padded);
    assert_eq!((index.len(), index.padding_start()), (4, Some(2)));
    assert!(index.without_padding().iter().eq([at(805, 0x76), at(808, 0xec)]));

    let trimmed = OffsetIndex::new(Offset::new(800), &padded[..16]);
    assert_eq!((trimmed.padding_start(), trimmed.without_padding().len()), (None, 2));
}

/// FR-106 (h), FR-033 (i) and (ii).
#[test]
fn an_offset_index_of_zeros_has_no_entry() {
    for len in [8, 16, 1024] {
        let zeros = vec![0; len];
        let index = OffsetIndex::new(Offset::new(800), &zeros);
        assert_eq!(index.padding_start(), (len > 8).then_some(1));
        assert!(index.without_padding().is_empty());
        assert_eq!(index.without_padding().lookup(Offset::new(805)), at(800, 0));
    }
}

#[test]
fn a_time_index_of_zeros_has_no_entry_but_for_a_single_one() {
    let zeros = [0; 36];
    let entries =
        |len: usize| TimeIndex::new(Offset::new(0), &zeros[..len]).without_padding().len();
    assert_eq!([12, 24, 36].map(entries), [1, 0, 0]);
    let padded = hex("0000000000000009 00000002 0000000000000000 00000000");
    let index = TimeIndex::new(Offset::new(0), &padded);
    assert!(index.without_padding().iter().eq([time(9, 2)]));
}

#[test]
fn bytes_behind_the_last_whole_entry_are_counted_and_fail_the_check() {
    let bytes = [1; 40];
    let offsets = OffsetIndex::new(Offset::new(0), &bytes[..39]);
    assert_eq!((offsets.len(), offsets.spare_bytes()), (4, 7));
    let error = offsets.sanity_check().unwrap_err();
    assert_eq!(
        (error.position(), error.kind()),
        (Position::new(32), CorruptKind::index_length(39, 8))
    );

    let times = TimeIndex::new(Offset::new(0), &bytes[..38]);
    assert_eq!((times.len(), times.spare_bytes()), (3, 2));
    let error = times.sanity_check().unwrap_err();
    assert_eq!(
        (error.position(), error.kind()),
        (Position::new(36), CorruptKind::index_length(38, 12))
    );

    let txns = TransactionIndex::new(Offset::new(0), &bytes);
    assert_eq!((txns.len(), txns.spare_bytes()), (1, 6));
}

#[test]
fn a_last_entry_that_cannot_be_fails_the_check_at_its_byte() {
    let below_base = hex("00000005 00000076 | fffffffe 000000ec");
    let error = OffsetIndex::new(Offset::new(10), &below_base).sanity_check().unwrap_err();
    assert_eq!(
        (error.position(), error.kind()),
        (Position::new(8), CorruptKind::index_order(8, 10))
    );

    let times = hex("0000000000000009 00000002 0000000000000008 00000003");
    let error = TimeIndex::new(Offset::new(0), &times).sanity_check().unwrap_err();
    assert_eq!(
        (error.position(), error.kind()),
        (Position::new(12), CorruptKind::index_order(8, 9))
    );
}

/// Kafka refuses an end that goes back, and no more.
#[test]
fn a_last_entry_at_the_base_offset_and_at_the_first_timestamp_passes_the_check() {
    let zeros = [0; 36];
    OffsetIndex::new(Offset::new(800), &zeros[..32]).sanity_check().unwrap();
    let times = hex("0000000000000009 00000002 0000000000000009 00000000");
    TimeIndex::new(Offset::new(800), &times).sanity_check().unwrap();
}

#[test]
fn a_view_says_how_many_entries_there_are_and_how_many_an_iterator_has_left() {
    let bytes = [1; 68];
    let offsets = OffsetIndex::new(Offset::new(0), &bytes[..24]);
    let times = TimeIndex::new(Offset::new(0), &bytes[..24]);
    let txns = TransactionIndex::new(Offset::new(0), &bytes);
    assert_eq!([offsets.len(), times.len(), txns.len()], [3, 2, 2]);
    assert_eq!([offsets.is_empty(), times.is_empty(), txns.is_empty()], [false; 3]);
    let (mut offset_entries, mut time_entries) = (offsets.iter(), times.iter());
    assert_eq!((offset_entries.len(), time_entries.len()), (3, 2));
    offset_entries.next();
    time_entries.next();
    assert_eq!((offset_entries.len(), time_entries.len()), (2, 1));

    let offsets = OffsetIndex::new(Offset::new(0), &bytes[..7]);
    let times = TimeIndex::new(Offset::new(0), &bytes[..11]);
    let txns = TransactionIndex::new(Offset::new(0), &bytes[..33]);
    assert_eq!([offsets.is_empty(), times.is_empty(), txns.is_empty()], [true; 3]);
    assert_eq!((offsets.iter().len(), times.iter().len()), (0, 0));
}

/// The end of the warm part, 8 KiB before the last entry, is the first slot that Kafka probes: a
/// senseless entry there keeps it from all that follow.
#[test]
fn the_first_probe_of_a_large_index_is_8_kib_before_its_end() {
    let mut bytes: Vec<u8> =
        (1..=3000_u32).flat_map(|number| [number * 10, 7]).flat_map(u32::to_be_bytes).collect();
    let warm = 8 * (2999 - 8192 / 8);
    bytes[warm..warm + 4].copy_from_slice(&i32::MAX.to_be_bytes());
    let index = OffsetIndex::new(Offset::new(0), &bytes);
    assert_eq!(index.lookup(Offset::new(25_000)), index.entry(2999 - 1025).unwrap());

    let entry = |number: u32| [0, number * 10, number].into_iter().flat_map(u32::to_be_bytes);
    let mut bytes: Vec<u8> = (1..=3000).flat_map(entry).collect();
    let warm = 12 * (2999 - 8192 / 12);
    bytes[warm..warm + 4].copy_from_slice(&i32::MAX.to_be_bytes());
    let index = TimeIndex::new(Offset::new(0), &bytes);
    assert_eq!(index.lookup(Timestamp::new(25_000)), index.entry(2999 - 683));
}

#[test]
fn iteration_over_transactions_ends_at_the_damage() {
    let mut bytes = vec![0; 34 * 3];
    bytes[34] = 0xff;
    let index = TransactionIndex::new(Offset::new(0), &bytes);
    let kinds: Vec<_> = index.iter().map(|txn| txn.map_err(|error| error.kind())).collect();
    assert_eq!(kinds.len(), 2);
    assert_eq!(kinds[1], Err(CorruptKind::index_version(-256)));
    assert_eq!(index.sanity_check().unwrap_err().position(), Position::new(34));
}
