//! Batches that cannot be what they say they are, under a right checksum: the cleaning ends, and
//! nothing changes.

use std::fs;

use alluvium_cleaner::{CleanError, CleanOptions};
use alluvium_record_format::{
    Batch, Codec, CorruptKind, Corruption, Decompressor, Position, compress,
};

use crate::support::{Fixture, batch, options};

/// A log with these batches in these segments, whether they belong there or not.
fn log(segments: &[(i64, &[Vec<u8>])]) -> Fixture {
    let fixture = Fixture::new();
    for (base, batches) in segments {
        fixture.sealed(*base, &[]);
        fs::write(fixture.dir.path().join(format!("{base:020}.log")), batches.concat()).unwrap();
    }
    fixture
}

/// A batch of this many records with different keys.
fn records(base: i64, count: usize) -> Vec<u8> {
    let keys: Vec<_> = (0..count).map(|index| format!("{base}-{index}")).collect();
    let pairs: Vec<_> = keys.iter().map(|key| (key.as_str(), Some("v"))).collect();
    batch(base, &pairs)
}

/// The same batch with another last offset, under a checksum that agrees.
fn ending(mut bytes: Vec<u8>, last_offset_delta: i32) -> Vec<u8> {
    bytes[23..27].copy_from_slice(&last_offset_delta.to_be_bytes());
    signed(bytes)
}

/// The same batch, said to hold no record.
fn uncounted(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[57..61].fill(0);
    signed(bytes)
}

fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = Batch::parse(&bytes, Position::new(0)).unwrap().compute_crc();
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// The cleaning, also a dry one, ends with damage of this offset at the byte of this segment, and
/// changes nothing.
fn refuses(fixture: &Fixture, options: CleanOptions, place: (i64, usize), offset: i64) {
    refuses_as(CorruptKind::out_of_range(offset), fixture, options, place);
}

fn refuses_as(
    kind: CorruptKind,
    fixture: &Fixture,
    options: CleanOptions,
    (base, at): (i64, usize),
) {
    let before = fixture.files();
    for options in [options.clone().dry_run(true), options] {
        let error = fixture.clean(&options).unwrap_err();
        let CleanError::Corrupt { path, source, .. } = error else { panic!("{error:?}") };
        assert_eq!(path, fixture.dir.path().join(format!("{base:020}.log")));
        assert_eq!(source.position().get() as usize, at);
        assert_eq!(source.kind(), kind);
        assert_eq!(fixture.files(), before);
    }
}

#[test]
fn a_batch_below_the_base_of_its_segment_ends_the_cleaning() {
    let misplaced = [records(5, 1), records(10, 10)];
    let fixture = log(&[(0, &[records(0, 10)]), (10, &misplaced), (20, &[])]);
    // In one group, and in groups of one segment.
    refuses(&fixture, options(0, 20), (10, 0), 5);
    refuses(&fixture, options(0, 20).segment_bytes(500), (10, 0), 5);
}

#[test]
fn a_first_segment_that_lies_about_its_base_ends_the_cleaning() {
    let fixture = log(&[(10, &[records(0, 5)]), (20, &[])]);
    refuses(&fixture, options(10, 20), (10, 0), 0);
    refuses(&fixture, options(0, 20), (10, 0), 0);
    // A batch that reaches into its segment from below.
    let fixture = log(&[(10, &[records(5, 10)]), (20, &[])]);
    refuses(&fixture, options(10, 20), (10, 0), 5);
}

#[test]
fn a_misplaced_batch_in_the_clean_part_ends_the_cleaning() {
    let misplaced = [records(5, 1), records(10, 10)];
    let fixture =
        log(&[(0, &[records(0, 10)]), (10, &misplaced), (20, &[records(20, 10)]), (30, &[])]);
    refuses(&fixture, options(20, 30), (10, 0), 5);
    refuses(&fixture, options(15, 30), (10, 0), 5);
}

#[test]
fn a_batch_that_ends_below_its_begin_ends_the_cleaning() {
    let falling = ending(records(10, 10), -3);
    let fixture = log(&[(10, std::slice::from_ref(&falling)), (20, &[])]);
    refuses(&fixture, options(10, 20), (10, 0), 7);
    let sound = records(10, 2);
    let later = ending(records(15, 5), -2);
    let at = sound.len();
    let fixture = log(&[(10, &[sound, later]), (20, &[records(20, 1)]), (30, &[])]);
    refuses(&fixture, options(10, 30), (10, at), 13);
    // Before the dirty part.
    refuses(&fixture, options(20, 30), (10, at), 13);
}

#[test]
fn a_batch_that_begins_within_the_one_before_ends_the_cleaning() {
    let first = records(0, 10);
    let at = first.len();
    let fixture = log(&[(0, &[first, records(5, 10)]), (20, &[records(20, 1)]), (30, &[])]);
    refuses(&fixture, options(0, 30), (0, at), 5);
    refuses(&fixture, options(20, 30), (0, at), 5);
}

/// Readers pass over its payload, and so would the cleaning: the records would go without a word.
#[test]
fn a_batch_that_counts_no_record_and_holds_some_ends_the_cleaning() {
    let hidden = [records(0, 10), uncounted(records(10, 10))];
    let at = hidden[0].len() + 57;
    let fixture = log(&[(0, &hidden), (20, &[records(20, 10)]), (30, &[])]);
    let kind = CorruptKind::record_count(0);
    // In the dirty part, and in the clean one.
    refuses_as(kind, &fixture, options(0, 30), (0, at));
    refuses_as(kind, &fixture, options(20, 30), (0, at));
    refuses_as(kind, &fixture, options(15, 30), (0, at));
}

/// What a cleaning leaves of a batch for its producer's sake.
#[test]
fn a_batch_that_counts_no_record_and_holds_none_is_cleaned() {
    let mut empty = uncounted(records(10, 10))[..61].to_vec();
    empty[8..12].copy_from_slice(&49_i32.to_be_bytes());
    let fixture = log(&[(0, &[records(0, 10), signed(empty)]), (20, &[])]);
    fixture.clean(&options(0, 20)).unwrap();
}

/// A batch of one record that has these bytes behind its length.
fn of_record(base: i64, codec: Codec, body: &[u8]) -> Vec<u8> {
    let record = [varint(body.len()).as_slice(), body].concat();
    let mut bytes = records(base, 1)[..61].to_vec();
    bytes[22] |= codec.id();
    if codec == Codec::None {
        bytes.extend(record);
    } else {
        compress(codec, None, &record, &mut bytes).unwrap();
    }
    let length = u32::try_from(bytes.len() - 12).unwrap();
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    signed(bytes)
}

fn varint(length: usize) -> Vec<u8> {
    let mut rest = length << 1;
    let mut bytes = Vec::new();
    while rest > 0x7f {
        bytes.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    bytes.push(u8::try_from(rest).unwrap());
    bytes
}

/// What a reader of whole records finds in a batch at this byte.
fn damage_of(batch: &[u8], at: usize) -> Corruption {
    let at = Position::new(u32::try_from(at).unwrap());
    let batch = Batch::parse(batch, at).unwrap();
    let mut inflated = Vec::new();
    let mut decompressor = Decompressor::new();
    let mut records = decompressor.inflate(&batch, 8 << 20, &mut inflated).unwrap();
    records.find_map(Result::err).expect("damage")
}

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// Records that are dropped for their keys are read to their end all the same.
#[test]
fn a_record_with_damage_behind_its_key_ends_the_cleaning() {
    let value = vec![0; 5 << 20]; // its payload is not held
    let large = [&[0, 0, 0, 2, b'k'], varint(value.len()).as_slice(), &value, &[0, 7]].concat();
    let bodies: [&[u8]; 6] = [
        &[0, 0, 0, 2, b'k', 2, b'v', 1],       // a negative header count
        &[0, 0, 0, 2, b'k', 2, b'v', 2, 1, 1], // a negative header key length
        &[0, 0, 0, 2, b'k', 2, b'v', 0, 7, 7], // bytes behind the headers
        &[0, 0, 0, 3, 2, b'v', 0, 7],          // bytes behind those of a null key
        &[0, 0, 0, 2, b'k', 1, 2, 2, b'h', 8, b'v'], // a header beyond the end of a tombstone
        &large,
    ];
    for (codec, body) in CODECS.into_iter().flat_map(|codec| bodies.map(|body| (codec, body))) {
        let sound = records(0, 10);
        let bad = of_record(10, codec, body);
        let damage = damage_of(&bad, sound.len());
        let at = damage.position().get() as usize;
        let later = [batch(20, &[("k", Some("later"))]), records(21, 9)];
        let fixture = log(&[(0, &[sound, bad]), (20, &later), (30, &[])]);
        // In the dirty part, and in the clean one.
        refuses_as(damage.kind(), &fixture, options(0, 30), (0, at));
        refuses_as(damage.kind(), &fixture, options(20, 30), (0, at));
    }
}

/// It is null, as in Kafka: the record goes.
#[test]
fn a_record_with_a_key_length_below_minus_one_is_cleaned() {
    for codec in CODECS {
        let odd = of_record(10, codec, &[0, 0, 0, 3, 2, b'v', 0]);
        let fixture = log(&[(0, &[records(0, 10), odd]), (20, &[])]);
        fixture.clean(&options(0, 20)).unwrap();
        assert_eq!(fixture.records().len(), 10, "{codec}");
    }
}
