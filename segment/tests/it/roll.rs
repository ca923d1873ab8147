//! When a log should go on in a new segment.

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{ActiveSegment, Birth, RollInput, RollReason, SegmentConfig, SegmentError};

use crate::support::{Fixture, batch, birth, every_batch, hex, moved, one, three};

/// An append of 70 bytes that gives no reason to roll.
const fn input() -> RollInput {
    RollInput {
        append_bytes: 70,
        max_timestamp: Some(Timestamp::new(1000)),
        max_offset: Offset::new(9),
        segment_bytes: 1024 * 1024,
        max_age_ms: 1000,
        now: Timestamp::new(0),
    }
}

fn with_three(config: SegmentConfig) -> (Fixture, ActiveSegment) {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, config);
    active.append(&three()).unwrap();
    (fixture, active)
}

#[test]
fn a_segment_may_be_filled_exactly() {
    let (_fixture, mut active) = with_three(every_batch());
    let exact = RollInput { segment_bytes: 424, ..input() };
    assert_eq!(active.should_roll(&exact).unwrap(), None);
    let short = RollInput { segment_bytes: 423, ..input() };
    assert_eq!(active.should_roll(&short).unwrap(), Some(RollReason::Size));
    let huge = RollInput { append_bytes: u32::MAX, ..input() };
    assert_eq!(active.should_roll(&huge).unwrap(), Some(RollReason::Size));
}

/// FR-051 (1): the time of the first batch counts, not that of the last.
#[test]
fn time_is_that_from_the_first_batch_to_the_append() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    let mut rolls = Vec::new();
    for (offset, time) in (0..).zip([5000, 10, 5001, 20, 6001]) {
        let append = RollInput {
            max_timestamp: Some(Timestamp::new(time)),
            max_offset: Offset::new(offset),
            ..input()
        };
        if active.should_roll(&append).unwrap().is_some() {
            rolls.push(offset);
            active.seal().unwrap();
            active = fixture.create(offset, every_batch());
        }
        active.append(&batch(offset, 1, time)).unwrap();
    }
    assert_eq!(rolls, [4]);
}

#[test]
fn time_is_read_from_the_file_after_a_reopen() {
    let (fixture, active) = with_three(every_batch());
    active.seal().unwrap();
    let mut active = fixture.reopen(0);
    // The first batch holds 1000 to 1002.
    let at = |time| RollInput { max_timestamp: Some(Timestamp::new(time)), ..input() };
    assert_eq!(active.should_roll(&at(2002)).unwrap(), None);
    assert_eq!(active.should_roll(&at(2003)).unwrap(), Some(RollReason::Time));
    assert_eq!(active.should_roll(&at(i64::MIN)).unwrap(), None);
}

/// FR-051 (3): without record times, the age of the segment on the clock.
#[test]
fn without_timestamps_the_age_of_the_segment_counts() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&batch(0, 1, -1)).unwrap();
    let at = |now| RollInput { max_timestamp: None, now: Timestamp::new(now), ..input() };
    assert_eq!(active.should_roll(&at(1000)).unwrap(), None);
    assert_eq!(active.should_roll(&at(1001)).unwrap(), Some(RollReason::Time));
}

/// As in Kafka, which takes a time below 0 for none.
#[test]
fn a_first_batch_from_before_1970_leaves_it_to_the_clock() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    let mut batch = batch(0, 1, 0);
    // Its base and its largest timestamp.
    batch[27..35].copy_from_slice(&(-5000_i64).to_be_bytes());
    batch[35..43].copy_from_slice(&(-5000_i64).to_be_bytes());
    active.append(&batch).unwrap();
    let at = |now| RollInput { now: Timestamp::new(now), ..input() };
    assert_eq!(active.should_roll(&at(1000)).unwrap(), None);
    assert_eq!(active.should_roll(&at(1001)).unwrap(), Some(RollReason::Time));
}

#[test]
fn jitter_makes_a_segment_roll_early() {
    let fixture = Fixture::new();
    let birth = Birth::at(Timestamp::new(500)).roll_jitter_ms(300);
    let mut active =
        ActiveSegment::create(&fixture.dir, Offset::new(0), every_batch(), birth).unwrap();
    active.append(&batch(0, 1, -1)).unwrap();
    let at = |now| RollInput { max_timestamp: None, now: Timestamp::new(now), ..input() };
    assert_eq!(active.should_roll(&at(1200)).unwrap(), None);
    assert_eq!(active.should_roll(&at(1201)).unwrap(), Some(RollReason::Time));
}

/// FR-039 (1): an empty segment has no reason to roll but an offset that does not fit.
#[test]
fn an_empty_segment_that_was_closed_and_truncated_does_not_look_full() {
    let fixture = Fixture::new();
    let active = fixture.create(0, every_batch());
    active.seal().unwrap();
    assert_eq!(fixture.bytes("00000000000000000000.index").len(), 0);
    let mut active = fixture.reopen(0);
    active.truncate_to(Offset::new(57), Timestamp::new(5000)).unwrap();
    let later = RollInput {
        append_bytes: 1024,
        max_timestamp: None,
        max_offset: Offset::new(100),
        now: Timestamp::new(10_000),
        ..input()
    };
    assert_eq!(active.should_roll(&later).unwrap(), None);
    let far = RollInput { max_offset: Offset::new(2_147_483_648 + 199), ..later };
    assert_eq!(active.should_roll(&far).unwrap(), Some(RollReason::Offset));
}

/// FR-039 (2): three empty files are an empty segment that can be written to.
#[test]
fn three_empty_files_take_an_append() {
    let fixture = Fixture::new();
    for name in ["log", "index", "timeindex"] {
        fixture.put(&format!("00000000000000000000.{name}"), b"");
    }
    let mut active = fixture.reopen(0);
    assert_eq!(active.should_roll(&input()).unwrap(), None);
    active.append(&one()).unwrap();
    assert_eq!(active.next_offset(), Offset::new(1));
    assert_eq!(active.should_roll(&input()).unwrap(), None);
}

/// FR-039 (3): an empty log without index files opens.
#[test]
fn an_empty_log_without_indexes_gets_them() {
    let fixture = Fixture::new();
    fixture.put("00000000000000000003.log", b"");
    let mut active = fixture.reopen(3);
    assert_eq!(active.next_offset(), Offset::new(3));
    active.append(&moved(&one(), 3)).unwrap();
    active.seal().unwrap();
    let files = ["index", "log", "timeindex"].map(|end| format!("00000000000000000003.{end}"));
    assert_eq!(fixture.names(), files);
}

/// The offset index is full with its last slot, the time index one slot before.
#[test]
fn a_full_index_is_a_reason_to_roll() {
    for (max_index_bytes, reason) in
        [(16, RollReason::OffsetIndexFull), (39, RollReason::TimeIndexFull)]
    {
        let fixture = Fixture::new();
        let config = every_batch().max_index_bytes(max_index_bytes);
        let mut active = fixture.create(0, config);
        active.append(&batch(0, 1, 100)).unwrap();
        active.append(&batch(1, 1, 101)).unwrap();
        assert_eq!(active.should_roll(&input()).unwrap().is_some(), max_index_bytes == 16);
        active.append(&batch(2, 1, 102)).unwrap();
        let found = active.should_roll(&input()).unwrap();
        assert!(found.is_some_and(|found| found == reason || max_index_bytes == 16), "{found:?}");
        // One who does not listen gets no entry, but no damage either.
        active.append(&batch(3, 1, 103)).unwrap();
        active.append(&batch(4, 1, 104)).unwrap();
        let segment = active.seal().unwrap();
        for offset in 0..5 {
            assert_eq!(crate::support::base_at(&segment, offset), Some(offset));
        }
        assert_eq!(segment.max_timestamp().unwrap().unwrap().timestamp, Timestamp::new(104));
    }
}

/// `segment.index.bytes` was lowered since.
#[test]
fn a_segment_with_more_entries_than_an_index_may_hold_now_opens_and_is_due_to_roll() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    for offset in 0..5 {
        active.append(&batch(offset, 1, 100 + offset)).unwrap();
    }
    drop(active.seal().unwrap());
    let config = every_batch().max_index_bytes(16);
    let mut active = ActiveSegment::open(&fixture.dir, Offset::new(0), config, birth()).unwrap();
    assert!(active.should_roll(&input()).unwrap().is_some());
    active.append(&batch(5, 1, 105)).unwrap();
    let segment = active.seal().unwrap();
    for offset in 0..6 {
        assert_eq!(crate::support::base_at(&segment, offset), Some(offset));
    }
}

/// FR-030: the last offset that fits is `base + i32::MAX`; the rest makes a roll, never a wrapped
/// entry.
#[test]
fn an_offset_that_does_not_fit_is_refused_and_a_reason_to_roll() {
    for (base, offset, fits) in [
        (0, 2_147_483_647, true),
        (0, 2_147_483_648, false),
        (4_294_967_301, 4_294_967_301 + 2_147_483_648, false),
        (4_294_967_301, 4_294_967_301 + 2_147_483_647, true),
        (4_294_967_301, 4_294_967_300, false),
    ] {
        let fixture = Fixture::new();
        let mut active = fixture.create(base, every_batch());
        active.append(&moved(&three()[..118], base)).unwrap();
        let append = RollInput { max_offset: Offset::new(offset), ..input() };
        let roll = active.should_roll(&append).unwrap();
        assert_eq!(roll, (!fits).then_some(RollReason::Offset));
        let result = active.append(&moved(&one(), offset));
        assert_eq!(result.is_ok(), fits, "{base} {offset}");
        if !fits {
            assert!(matches!(result, Err(SegmentError::OffsetOverflow { .. })));
            assert_eq!(active.segment().size_bytes(), 118);
        }
        active.seal().unwrap();
        let entry = if fits { hex("7fffffff 00000076") } else { Vec::new() };
        assert_eq!(fixture.bytes(&format!("{base:020}.index")), entry);
    }
}

#[test]
fn a_log_with_bytes_in_it_is_not_taken_for_a_new_segment() {
    let fixture = Fixture::new();
    fixture.put("00000000000000000000.log", &one());
    let result = ActiveSegment::create(&fixture.dir, Offset::new(0), every_batch(), birth());
    assert!(matches!(result, Err(SegmentError::Io { .. })));
    assert_eq!(fixture.bytes("00000000000000000000.log"), one());
}

#[test]
fn left_over_indexes_do_not_survive_a_new_segment_of_their_name() {
    let fixture = Fixture::new();
    for name in ["index", "timeindex", "txnindex"] {
        fixture.put(&format!("00000000000000000000.{name}"), &[9; 40]);
    }
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    active.seal().unwrap();
    let index = fixture.bytes("00000000000000000000.index");
    assert_eq!(index, hex("00000005 00000076 | 00000008 000000ec"));
    assert!(!fixture.path("00000000000000000000.txnindex").exists());
}
