//! What is passed over by shape is what reading each record finds.

#![expect(clippy::arithmetic_side_effects, reason = "small numbers")]

use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Shape, Shapes};
use crate::record::Records;
use crate::{
    Batch, BatchBuilder, BatchSettings, Corruption, Header, Offset, Position, SimpleRecord,
    Timestamp,
};

const START: Position = Position::new(0);

/// A batch of `count` records with a key and a value of so many bytes, null for `None`.
fn alike(count: usize, key: Option<usize>, value: Option<usize>, step: i64) -> Vec<u8> {
    let (key_bytes, value_bytes) = ([b'k'; 9_000], [b'v'; 9_000]);
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(7)));
    for (index, _) in (0_i64..).zip(0..count) {
        let mut record = SimpleRecord::new().timestamp(Timestamp::new(100_000 + index * step));
        if let Some(len) = key {
            record = record.key(&key_bytes[..len]);
        }
        if let Some(len) = value {
            record = record.value(&value_bytes[..len]);
        }
        builder.append(&record).unwrap();
    }
    builder.finish().unwrap().to_vec()
}

fn records(batch: &[u8]) -> Records<'_> {
    Batch::parse(batch, START).unwrap().records().unwrap()
}

/// Count, range of offsets and of times, and whether all are keyed, from each record by itself.
type Told = (u32, Option<(i64, i64)>, Option<(i64, i64)>, bool);

fn told_by_each(records: Records<'_>) -> Result<Told, Corruption> {
    let (mut count, mut offsets, mut times, mut all_keyed) = (0, None, None, true);
    let wider = |range: Option<(i64, i64)>, new: i64| {
        let (min, max) = range.unwrap_or((new, new));
        Some((min.min(new), max.max(new)))
    };
    for record in records {
        let record = record?;
        count += 1;
        offsets = wider(offsets, record.offset().get());
        times = record.timestamp().map_or(times, |time| wider(times, time.get()));
        all_keyed &= record.key().is_some();
    }
    Ok((count, offsets, times, all_keyed))
}

fn told_by_check(records: Records<'_>) -> Result<Told, Corruption> {
    let offsets_alone = records.clone().check_offsets()?;
    let all = records.check()?;
    let offsets = all.min_offset.zip(all.max_offset).map(|(min, max)| (min.get(), max.get()));
    let range = offsets_alone.map(|range| (range.min.get(), range.max.get()));
    assert_eq!(range, offsets);
    let times = all.min_timestamp.zip(all.max_timestamp).map(|(min, max)| (min.get(), max.get()));
    Ok((all.record_count, offsets, times, all.all_keyed))
}

#[test]
fn records_of_one_size_are_passed_over_until_a_field_grows() {
    for (key, value) in
        [(None, Some(100)), (Some(12), Some(0)), (Some(70), None), (Some(64), Some(9))]
    {
        let bytes = alike(200, key, value, 1);
        let mut all = records(&bytes);
        let shape = Shape::of(all.rest).unwrap();
        // The deltas of the record 64 after the first take two bytes.
        assert_eq!(all.pass(&shape, |_, _| true), 64, "{key:?} {value:?}");
        let shape = Shape::of(all.rest).unwrap();
        assert_eq!(all.pass(&shape, |_, _| true), 136, "{key:?} {value:?}");
        assert_eq!((all.rest.len(), all.left), (0, 0));
    }
}

#[test]
fn a_record_that_is_refused_is_still_to_come() {
    let bytes = alike(9, None, Some(50), 5);
    let mut all = records(&bytes);
    let shape = Shape::of(all.rest).unwrap();
    let mut seen = Vec::new();
    let take = |timestamp, offset| {
        seen.push((timestamp, offset));
        offset < 3
    };
    assert_eq!(all.pass(&shape, take), 3);
    assert_eq!(seen, [(0, 0), (5, 1), (10, 2), (15, 3)]);
    assert_eq!(all.next().unwrap().unwrap().offset(), Offset::new(10));
}

#[test]
fn no_record_after_the_count_is_passed_over() {
    let mut bytes = alike(9, None, Some(50), 5);
    bytes[60] = 4; // the count
    let mut all = records(&bytes);
    let shape = Shape::of(all.rest).unwrap();
    assert_eq!(all.pass(&shape, |_, _| true), 4);
    assert!(records(&bytes).check().is_err());
}

#[test]
fn headers_short_records_and_wide_fields_have_no_shape() {
    let value = [0; 30];
    let headers = [Header::new(b"h", None)];
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    builder.append(&SimpleRecord::new().value(&value).headers(&headers)).unwrap();
    let with_header = builder.finish().unwrap().to_vec();
    for bytes in [with_header, alike(3, None, Some(6), 0), alike(1, None, Some(8_192), 0)] {
        assert!(Shape::of(records(&bytes).rest).is_none(), "{} bytes", bytes.len());
    }
    let far = alike(3, None, Some(30), 1 << 40);
    let mut all = records(&far);
    all.next().unwrap().unwrap();
    assert!(Shape::of(all.rest).is_none());
}

#[test]
fn shapes_that_hold_for_few_are_given_up() {
    let bytes = alike(4, None, Some(50), 5);
    let payload = records(&bytes).rest;
    let (_first, rest) = payload.split_at(payload.len() / 4);
    let mut shapes = Shapes::new();
    assert!(shapes.of_record(payload, rest).is_none(), "one record says nothing");
    for _ in 0..4 {
        assert!(shapes.of_record(payload, rest).is_some());
        shapes.passed(8);
    }
    for _ in 0..4 {
        assert!(shapes.of_record(payload, rest).is_some());
        shapes.passed(7);
    }
    assert!(shapes.of_record(payload, rest).is_none());
}

#[test]
fn every_flipped_bit_is_told_as_by_reading_each_record() {
    for (key, value) in [(None, Some(12)), (Some(5), Some(9)), (Some(70), Some(3))] {
        let mut bytes = alike(7, key, value, 1);
        for at in 61..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                let (each, all) = (told_by_each(records(&bytes)), told_by_check(records(&bytes)));
                assert_eq!(each, all, "byte {at}, bit {bit}");
                bytes[at] ^= 1 << bit;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn check_tells_what_each_record_tells(
        count in 1_usize..300,
        key in proptest::option::of(0_usize..100),
        value in proptest::option::of(0_usize..300),
        step in -90_i64..90,
        flip in proptest::option::of((any::<proptest::sample::Index>(), 1_u8..)),
    ) {
        let mut bytes = alike(count, key, value, step);
        if let Some((at, mask)) = flip {
            let len = bytes.len() - 61;
            bytes[61 + at.index(len)] ^= mask;
        }
        prop_assert_eq!(told_by_each(records(&bytes)), told_by_check(records(&bytes)));
    }
}
