//! When a batch gets an entry.

use alluvium_record_format::{Batch, Offset, Position};
use alluvium_sparse_index::{BatchInfo, IndexBuilder, IndexRule, OffsetEntry, Refusal, TimeEntry};
use proptest::prelude::*;

use crate::support::{at, batch, hex, time};

fn due(interval_bytes: u32, batches: &[BatchInfo]) -> Vec<(OffsetEntry, Option<TimeEntry>)> {
    let mut rule = IndexRule::new(interval_bytes);
    let due = batches.iter().filter_map(|batch| rule.on_batch(*batch));
    due.map(|due| (due.offset, due.time)).collect()
}

fn offsets(interval_bytes: u32, batches: &[BatchInfo]) -> Vec<OffsetEntry> {
    due(interval_bytes, batches).into_iter().map(|(offset, _)| offset).collect()
}

/// Kafka's recovery, from file positions: bytes before the batch less the position of the last
/// batch with an entry.
fn offsets_by_position(interval_bytes: u32, batches: &[BatchInfo]) -> Vec<OffsetEntry> {
    let mut last_indexed = 0;
    let mut entries = Vec::new();
    for batch in batches {
        if batch.position.get() - last_indexed > interval_bytes {
            entries.push(OffsetEntry::new(batch.last_offset, batch.position));
            last_indexed = batch.position.get();
        }
    }
    entries
}

#[test]
fn the_worked_example_gives_its_three_entries() {
    let rows =
        [(1, 0, 283), (2, 283, 172), (3, 455, 172), (5, 627, 283), (6, 910, 172), (7, 1082, 172)];
    let mut batches: Vec<_> =
        rows.iter().map(|(offset, position, size)| batch(*offset, *position, *size, -1)).collect();
    batches.push(batch(9, 1254, 283, -1));
    assert_eq!(offsets(300, &batches), [at(3, 455), at(6, 910), at(9, 1254)]);
}

/// FR-032.
#[test]
fn one_append_of_six_batches_gives_the_entries_of_six_appends_and_of_recovery() {
    let batches: Vec<_> = (0..6).map(|n: u32| batch(n.into(), n * 70, 70, 1000)).collect();
    let expected = [at(2, 140), at(4, 280)];
    assert_eq!(offsets(100, &batches), expected);
    assert_eq!(offsets_by_position(100, &batches), expected);
}

#[test]
fn the_first_batch_gets_no_entry_even_with_an_interval_of_0() {
    let batches = [batch(0, 0, 70, 5), batch(1, 70, 70, 6), batch(2, 140, 70, 7)];
    assert_eq!(offsets(0, &batches), [at(1, 70), at(2, 140)]);
}

#[test]
fn a_batch_that_starts_exactly_the_interval_further_on_gets_no_entry() {
    assert_eq!(offsets(70, &[batch(0, 0, 70, 5), batch(1, 70, 70, 6)]), []);
    assert_eq!(offsets(69, &[batch(0, 0, 70, 5), batch(1, 70, 70, 6)]), [at(1, 70)]);
}

#[test]
fn a_resumed_rule_counts_from_0() {
    let mut rule = IndexRule::resume(100, Some(time(50, 7)));
    assert_eq!(rule.on_batch(batch(8, 5000, 90, 40)), None);
    assert_eq!(rule.on_batch(batch(9, 5090, 90, 40)), None);
    assert_eq!(rule.bytes_since_last_entry(), 180);
    let due = rule.on_batch(batch(10, 5180, 90, 40)).unwrap();
    assert_eq!((due.offset, due.time), (at(10, 5180), Some(time(50, 7))));
    rule.restart(None);
    assert_eq!((rule.bytes_since_last_entry(), rule.max_timestamp()), (0, None));
}

#[test]
fn the_time_entry_is_the_running_maximum_and_not_the_batch() {
    let batches = [batch(2, 0, 70, 900), batch(5, 70, 70, 100), batch(8, 140, 70, 950)];
    let times: Vec<_> = due(0, &batches).into_iter().map(|(_, time)| time).collect();
    assert_eq!(times, [Some(time(900, 2)), Some(time(950, 8))]);
}

/// FR-041: offsets 0..2 with times 1, 9, 3, then 3..5 with 9, 2, 2.
#[test]
fn of_two_batches_with_the_maximum_the_first_stays() {
    let batches = [batch(2, 0, 90, 9), batch(5, 90, 90, 9)];
    for interval_bytes in [0, 50, 4096] {
        let mut builder = IndexBuilder::new(Offset::new(0), interval_bytes);
        for batch in batches {
            builder.push(batch).unwrap();
        }
        let built = builder.finish().unwrap();
        assert_eq!(built.time_index, hex("0000000000000009 00000002"), "{interval_bytes}");
    }
}

/// FR-022: a batch with append time, one whose maximum is -1, one where all times are -1.
#[test]
fn a_batch_without_a_timestamp_leaves_no_entry_in_the_time_index() {
    let append_time = "00000000000000000000003a0000000002fcfbdb480008000000000000000000000
        3e80000000000001388ffffffffffffffffffffffffffff0000000110000e00026b027600";
    let none = "00000000000000000000003a000000000277e482af00000000000000000000000003e8
        ffffffffffffffffffffffffffffffffffffffffffff0000000110000000026b027600";
    let bytes = [hex(append_time), hex(none)];
    let [append_time, none] = bytes.each_ref().map(|bytes| {
        let batch = Batch::parse(bytes, Position::new(0)).unwrap();
        BatchInfo::from_header(batch.header(), Position::new(0))
    });
    let mut rule = IndexRule::new(0);
    rule.on_batch(none);
    assert_eq!(rule.max_timestamp(), None);
    assert_eq!(rule.on_batch(none).unwrap().time, None);
    rule.on_batch(append_time);
    assert_eq!(rule.max_timestamp(), Some(time(5000, 0)));

    let mut builder = IndexBuilder::new(Offset::new(0), 0);
    builder.push(none).unwrap();
    assert_eq!(builder.finish().unwrap().time_index, []);
}

#[test]
fn a_timestamp_below_0_is_never_the_maximum() {
    let mut rule = IndexRule::new(0);
    rule.on_batch(batch(0, 0, 70, -5));
    assert_eq!(rule.max_timestamp(), None);
    rule.on_batch(batch(1, 70, 70, 0));
    assert_eq!(rule.max_timestamp(), Some(time(0, 1)));
}

#[test]
fn a_rebuild_refuses_offsets_that_go_back_where_an_entry_is_due() {
    let mut builder = IndexBuilder::new(Offset::new(0), 0);
    builder.push(batch(5, 0, 70, 1)).unwrap();
    builder.push(batch(7, 70, 70, 2)).unwrap();
    let refusal = builder.push(batch(7, 140, 70, 3)).unwrap_err();
    assert!(matches!(refusal, Refusal::OutOfOrder { .. }), "{refusal}");
}

/// FR-030.
#[test]
fn a_rebuild_refuses_an_offset_that_does_not_fit_even_where_no_entry_is_due() {
    let mut builder = IndexBuilder::new(Offset::new(0), 4096);
    builder.push(batch(0x7fff_ffff, 0, 70, 1)).unwrap();
    let refusal = builder.push(batch(0x8000_0000, 70, 70, 1)).unwrap_err();
    assert!(matches!(refusal, Refusal::OffsetOverflow { .. }), "{refusal}");
}

proptest! {
    #[test]
    fn append_and_recovery_agree_on_any_run_of_batches(
        interval_bytes in 0_u32..2_000,
        sizes in prop::collection::vec(61_u32..1_500, 0..60),
    ) {
        let mut position = 0;
        let mut batches = Vec::new();
        for (offset, size) in (0..).zip(sizes) {
            batches.push(batch(offset, position, size, -1));
            position += size;
        }
        prop_assert_eq!(
            offsets(interval_bytes, &batches),
            offsets_by_position(interval_bytes, &batches)
        );
    }
}
