//! What stays after the first walk.

use alluvium_record_format::SimpleRecord;
use alluvium_record_format::{BatchBuilder, BatchHeader, BatchSettings, Offset, Position};

use super::{Known, Verdicts};

/// The header of a batch of records at these offsets, from `base` to `last`.
fn header(base: i64, last: i64, offsets: &[i64]) -> BatchHeader {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(base)));
    for offset in offsets {
        builder.append_with_offset(Offset::new(*offset), &SimpleRecord::new()).unwrap();
    }
    builder.set_last_offset(Offset::new(last)).unwrap();
    *BatchHeader::parse(builder.finish().unwrap(), Position::new(0)).unwrap()
}

/// Takes in a batch whose records are all the last of their keys.
fn note(verdicts: &mut Verdicts, header: &BatchHeader, offsets: &[i64]) {
    verdicts.begin_batch(header);
    for offset in offsets {
        verdicts.note(Offset::new(*offset), true, false);
    }
}

const fn values(count: u64) -> Known {
    Known { count, has_tombstone: false }
}

fn stays(verdicts: &Verdicts, header: &BatchHeader, tombstones_stay: bool) -> Vec<bool> {
    let mut found = Vec::new();
    verdicts.each(header, tombstones_stay, |stays| found.push(stays));
    found
}

#[test]
fn of_each_batch_only_its_own_records_count_wherever_words_end() {
    for first in [100, 101, 163, 164, 165] {
        let mut verdicts = Verdicts::new(1 << 10);
        verdicts.clear(Offset::new(100));
        let offsets: Vec<i64> = (first..first + 130).step_by(3).collect();
        let after = first + 130;
        let (one, other) = (header(first, after - 1, &offsets), header(after, after, &[after]));
        note(&mut verdicts, &one, &offsets);
        note(&mut verdicts, &other, &[after]);
        verdicts.replaced([Offset::new(first + 3)]);
        assert_eq!(verdicts.of(&one, true), Some(values(offsets.len() as u64 - 1)));
        assert_eq!(verdicts.of(&other, true), Some(values(1)));
        let mut expected = vec![true; offsets.len()];
        expected[1] = false;
        assert_eq!(stays(&verdicts, &one, true), expected);
    }
}

#[test]
fn tombstones_count_while_they_stay() {
    let mut verdicts = Verdicts::new(1 << 10);
    let batch = header(0, 3, &[0, 1, 3]);
    verdicts.begin_batch(&batch);
    verdicts.note(Offset::new(0), true, true);
    verdicts.note(Offset::new(1), true, false);
    verdicts.note(Offset::new(3), false, false);
    assert_eq!(verdicts.of(&batch, true), Some(Known { count: 2, has_tombstone: true }));
    assert_eq!(verdicts.of(&batch, false), Some(values(1)));
    assert_eq!(stays(&verdicts, &batch, false), [false, true, false]);
}

#[test]
fn a_batch_that_was_not_taken_in_whole_is_unknown() {
    let mut verdicts = Verdicts::new(1 << 10);
    let batch = header(0, 9, &[0, 5, 9]);
    note(&mut verdicts, &batch, &[0, 5]);
    assert_eq!(verdicts.of(&batch, true), None);
    assert_eq!(verdicts.of(&header(10, 10, &[10]), true), None);
}

#[test]
fn nothing_is_known_below_the_base_or_out_of_reach_of_the_memory() {
    let mut verdicts = Verdicts::new(2 * 24);
    verdicts.clear(Offset::new(10));
    let below = header(8, 9, &[8, 9]);
    verdicts.begin_batch(&below);
    let [first, last, beyond] = [[10, 12], [136, 137], [138, 139]].map(|offsets| {
        let batch = header(offsets[0], offsets[1], &offsets);
        note(&mut verdicts, &batch, &offsets);
        batch
    });
    verdicts.replaced([Offset::new(9)]);
    verdicts.replaced([Offset::new(138)]);
    assert_eq!(verdicts.of(&below, true), None);
    assert_eq!(verdicts.of(&first, true), Some(values(2)));
    assert_eq!(verdicts.of(&last, true), Some(values(2)));
    assert_eq!(verdicts.of(&beyond, true), None);
}

#[test]
fn offsets_that_do_not_rise_or_leave_their_batch_make_all_unknown() {
    let sound = header(0, 9, &[0, 9]);
    for (base, last, offsets) in [
        (10, 19, [12, 12]),
        (10, 19, [13, 12]),
        (10, 19, [12, 20]),
        (10, 19, [9, 12]),
        (9, 19, [10, 12]),
    ] {
        let mut verdicts = Verdicts::new(1 << 10);
        note(&mut verdicts, &sound, &[0, 9]);
        assert_eq!(verdicts.of(&sound, true), Some(values(2)));
        note(&mut verdicts, &header(base, last, &[base, last]), &offsets);
        assert_eq!(verdicts.of(&sound, true), None, "{base}..={last}: {offsets:?}");
        verdicts.clear(Offset::new(0));
        note(&mut verdicts, &sound, &[0, 9]);
        assert_eq!(verdicts.of(&sound, true), Some(values(2)));
    }
}
