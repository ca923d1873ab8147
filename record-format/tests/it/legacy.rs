//! Messages of magic 0 and 1, as Kafka 4.4.0 wrote and printed them, and damaged ones.

use alluvium_record_format::{
    Codec, CorruptKind, Decompressor, Entries, Entry, LegacyEntry, LegacyRecord, Offset, Position,
    Timestamp, TimestampType,
};

use crate::{dump, hex};

const START: Position = Position::new(0);
const LIMIT: usize = 1 << 20;

const MAGIC0: &[u8] = include_bytes!("../golden/4.4.0/magic0/00000000000000000000.log");
const MAGIC0_DUMP: &str = include_str!("../golden/4.4.0/magic0/dump.txt");
const MAGIC1: &[u8] = include_bytes!("../golden/4.4.0/magic1/00000000000000000000.log");
const MAGIC1_DUMP: &str = include_str!("../golden/4.4.0/magic1/dump.txt");

fn entries(log: &[u8]) -> impl Iterator<Item = LegacyEntry<'_>> {
    Entries::new(log, START).map(|entry| match entry.unwrap() {
        Entry::Legacy(entry) => entry,
        other => panic!("{other:?}"),
    })
}

fn time_text(kind: Option<TimestampType>, time: Option<Timestamp>) -> String {
    let name = kind.map_or("NoTimestampType", TimestampType::name);
    format!("{name}: {}", time.map_or(-1, Timestamp::get))
}

fn entry_line(entry: &LegacyEntry<'_>) -> String {
    format!(
        "offset: {} position: {} {} size: {} magic: {} compresscodec: {} crc: {} isvalid: {}",
        entry.offset(),
        entry.position(),
        time_text(entry.timestamp_type(), entry.timestamp()),
        entry.bytes().len(),
        entry.magic(),
        entry.codec().unwrap(),
        entry.crc(),
        entry.verify_crc().is_ok(),
    )
}

fn record_line(record: &LegacyRecord<'_>) -> String {
    format!(
        "| offset: {} {} keySize: {} valueSize: {} isValid: {} crc: {}{}",
        record.offset(),
        time_text(record.timestamp_type(), record.timestamp()),
        dump::size(record.key()),
        dump::size(record.value()),
        record.is_valid(),
        record.crc(),
        dump::content(record.key(), record.value()),
    )
}

fn assert_dump(log: &[u8], dump: &str) {
    let mut decompressor = Decompressor::new();
    let mut buffer = Vec::new();
    let mut ours = Vec::new();
    for entry in entries(log) {
        ours.push(entry_line(&entry));
        let records = decompressor.inflate_legacy(&entry, LIMIT, &mut buffer).unwrap();
        ours.extend(records.map(|record| record_line(&record.unwrap())));
    }
    let kafkas: Vec<_> = dump.lines().skip(2).collect(); // file name, first offset
    assert_eq!(ours, kafkas);
}

#[test]
fn messages_of_magic_0_say_what_kafka_says_about_them() {
    assert_dump(MAGIC0, MAGIC0_DUMP);
}

#[test]
fn messages_of_magic_1_say_what_kafka_says_about_them() {
    assert_dump(MAGIC1, MAGIC1_DUMP);
}

#[test]
fn single_messages_are_those_that_kafka_writes() {
    let v0 = hex::bytes("00000000000000640000001257e7496e0000000000026b31000000027631");
    let v1 =
        hex::bytes("00000000000000640000001aa5da6a6201000000018bcfe56800000000026b31000000027631");
    for (bytes, time) in [(v0, None), (v1, Some(Timestamp::new(1_700_000_000_000)))] {
        let entry = LegacyEntry::parse(&bytes, START).unwrap();
        entry.verify_crc().unwrap();
        let record = entry.record().unwrap();
        assert_eq!(record.offset(), Offset::new(100));
        assert_eq!(record.timestamp(), time);
        assert_eq!((record.key(), record.value()), (Some(&b"k1"[..]), Some(&b"v1"[..])));
        assert!(record.is_valid());
    }
}

/// An entry with this offset and these bytes from the magic on, its CRC right.
fn entry(offset: i64, message: &[u8]) -> Vec<u8> {
    let mut bytes = offset.to_be_bytes().to_vec();
    bytes.extend(i32::try_from(message.len() + 4).unwrap().to_be_bytes());
    bytes.extend(crc32fast::hash(message).to_be_bytes());
    bytes.extend(message);
    bytes
}

/// A message of magic 1 from its magic on, with a null key.
fn message(attributes: u8, time: i64, value: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = vec![1, attributes];
    bytes.extend(time.to_be_bytes());
    bytes.extend((-1_i32).to_be_bytes());
    bytes.extend(value.map_or(-1, |value| i32::try_from(value.len()).unwrap()).to_be_bytes());
    bytes.extend(value.unwrap_or_default());
    bytes
}

/// A gzip wrapper of magic 1 around `inner`.
fn wrapper(offset: i64, attributes: u8, inner: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    alluvium_record_format::compress(Codec::Gzip, None, inner, &mut value).unwrap();
    entry(offset, &message(attributes | 1, 7000, Some(&value)))
}

/// Offsets and times of the messages in the entry, or the first error.
fn read(bytes: &[u8]) -> Result<Vec<(i64, i64)>, CorruptKind> {
    let entry = LegacyEntry::parse(bytes, START).unwrap();
    entry.verify_crc().unwrap();
    let mut buffer = Vec::new();
    let records = entry.inflate(LIMIT, &mut buffer).map_err(|error| error.kind())?;
    records
        .map(|record| {
            let record = record.map_err(|error| error.kind())?;
            Ok((record.offset().get(), record.timestamp().map_or(-1, Timestamp::get)))
        })
        .collect()
}

fn inner(offsets: &[i64]) -> Vec<u8> {
    offsets.iter().flat_map(|offset| entry(*offset, &message(0, 50 + offset, Some(b"v")))).collect()
}

#[test]
fn relative_offsets_end_at_the_wrapper() {
    let bytes = wrapper(102, 0, &inner(&[0, 1, 2]));
    assert_eq!(read(&bytes), Ok(vec![(100, 50), (101, 51), (102, 52)]));
    let compacted = wrapper(105, 0, &inner(&[3, 5]));
    assert_eq!(read(&compacted), Ok(vec![(103, 53), (105, 55)]));
}

#[test]
fn a_wrapper_at_offset_0_is_an_old_librdkafka_not_an_error() {
    assert_eq!(read(&wrapper(0, 0, &inner(&[0, 1]))), Ok(vec![(0, 50), (1, 51)]));
}

#[test]
fn offsets_above_the_wrapper_are_refused() {
    assert_eq!(read(&wrapper(1, 0, &inner(&[0, 1, 2]))), Err(CorruptKind::LegacyWrapper));
}

#[test]
fn the_append_time_of_the_wrapper_rules() {
    let bytes = wrapper(101, 0x08, &inner(&[0, 1]));
    assert_eq!(read(&bytes), Ok(vec![(100, 7000), (101, 7000)]));
}

#[test]
fn a_wrapper_in_a_wrapper_is_refused() {
    let bytes = wrapper(1, 0, &wrapper(0, 0, &inner(&[0])));
    assert_eq!(read(&bytes), Err(CorruptKind::LegacyWrapper));
}

#[test]
fn a_wrapper_without_messages_is_refused() {
    assert_eq!(read(&wrapper(1, 0, &[])), Err(CorruptKind::LegacyWrapper));
    assert_eq!(read(&entry(1, &message(1, 0, None))), Err(CorruptKind::LegacyWrapper));
}

#[test]
fn zstd_and_unknown_codecs_have_no_wrappers() {
    let zstd = entry(1, &message(4, 0, Some(b"v")));
    assert_eq!(read(&zstd), Err(CorruptKind::LegacyWrapper));
    let unknown = entry(1, &message(6, 0, Some(b"v")));
    assert!(matches!(read(&unknown), Err(CorruptKind::UnknownCodec { id: 6, .. })));
}

#[test]
fn a_cut_message_at_the_end_of_a_wrapper_is_left_out() {
    let whole = inner(&[0, 1]);
    let bytes = wrapper(100, 0, &whole[..whole.len() - 1]);
    assert_eq!(read(&bytes), Ok(vec![(100, 50)]));
}

#[test]
fn what_is_too_short_for_a_message_in_a_wrapper_is_refused() {
    for len in [17, 18, 40] {
        let bytes = wrapper(100, 0, &[inner(&[0, 1]), vec![0; len]].concat());
        assert_eq!(read(&bytes), Err(CorruptKind::LegacyWrapper), "{len} zeros behind");
    }
}

#[test]
fn minus_one_is_the_only_time_that_is_none() {
    for (time, expected) in [(-1, None), (0, Some(0)), (1, Some(1)), (-2, Some(-2))] {
        let bytes = entry(0, &message(0, time, Some(b"v")));
        let entry = LegacyEntry::parse(&bytes, START).unwrap();
        assert_eq!(entry.timestamp().map(Timestamp::get), expected);
    }
}

#[test]
fn a_wrapper_above_the_limit_is_refused() {
    let bytes = wrapper(1, 0, &inner(&[0, 1]));
    let entry = LegacyEntry::parse(&bytes, START).unwrap();
    let mut buffer = Vec::new();
    let limit = inner(&[0, 1]).len() - 1;
    let error = entry.inflate(limit, &mut buffer).unwrap_err();
    assert!(matches!(error.kind(), CorruptKind::OutputLimit { .. }));
}

#[test]
fn lengths_of_key_and_value_are_not_believed() {
    let good = message(0, 50, Some(b"v"));
    for (at, lie) in [(10, i32::MAX), (10, 6), (14, i32::MAX), (14, 2)] {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&lie.to_be_bytes());
        let refused = read(&entry(1, &bytes));
        let found = i64::from(lie);
        assert!(
            matches!(refused, Err(CorruptKind::RecordLength { found: f, .. }) if f == found)
                || refused == Err(CorruptKind::RecordCut),
            "{refused:?}"
        );
    }
}

#[test]
fn a_damaged_message_is_seen_by_its_crc() {
    let mut bytes = MAGIC1.to_vec();
    let len = entries(MAGIC1).next().unwrap().bytes().len();
    for at in 16..len {
        bytes[at] ^= 0x10;
        let refused = match LegacyEntry::parse(&bytes, START) {
            Ok(entry) => entry.verify_crc().unwrap_err(),
            Err(error) => error, // the magic
        };
        assert!(matches!(refused.kind(), CorruptKind::Crc { .. } | CorruptKind::Magic { .. }));
        bytes[at] ^= 0x10;
    }
}
