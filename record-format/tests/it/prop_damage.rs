//! Any bytes are read without a panic, and any flipped bit is seen or is one that nothing guards.

use alluvium_record_format::{
    Batch, BatchMut, ControlRecord, CorruptKind, Decompressor, Entries, Entry, LegacyEntry, Offset,
    Position, Timestamp, TimestampType,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::hex;

const START: Position = Position::new(0);
const LIMIT: usize = 1 << 16;
const BATCHES: &[u8] = include_bytes!("../golden/4.4.0/batches/00000000000000000100.log");
const CONTROL: &[u8] = include_bytes!("../golden/4.4.0/control/00000000000000000000.log");
const MAGIC0: &[u8] = include_bytes!("../golden/4.4.0/magic0/00000000000000000000.log");
const MAGIC1: &[u8] = include_bytes!("../golden/4.4.0/magic1/00000000000000000000.log");

/// Calls everything that reads, whatever the checksums say. Ends, whatever the bytes.
fn read_all(bytes: &[u8]) {
    let mut decompressor = Decompressor::new();
    for entry in Entries::new(bytes, START) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        };
        let _verdict = entry.verify_crc();
        match entry {
            Entry::Batch(batch) => read_batch(&batch, &mut decompressor),
            Entry::Legacy(entry) => read_legacy(&entry, &mut decompressor),
            other => panic!("{other:?}"),
        }
    }
}

fn read_batch(batch: &Batch<'_>, decompressor: &mut Decompressor) {
    let header = batch.header();
    let _facts = (header.last_offset(), header.last_sequence(), header.delete_horizon());
    assert_eq!(header.to_empty().size_bytes(), 61);
    if let Ok(records) = batch.records() {
        let iterated: Result<Vec<_>, _> = records.clone().collect();
        let checked = records.clone().check();
        assert_eq!(iterated.as_ref().err(), checked.as_ref().err());
        let keys = records.keys().map(|key| key.map(|key| (key.offset(), key.key())));
        let keys: Result<Vec<_>, _> = keys.collect();
        assert_eq!(iterated.as_ref().err(), keys.as_ref().err());
        if let (Ok(records), Ok(keys)) = (&iterated, keys) {
            assert!(records.iter().map(|record| (record.offset(), record.key())).eq(keys));
        }
        for record in iterated.unwrap_or_default() {
            assert_eq!(record.headers().count(), record.headers().len());
            let _control = ControlRecord::parse(record.key(), record.value());
        }
    }
    let mut buffer = Vec::new();
    if let Ok(records) = decompressor.inflate(batch, LIMIT, &mut buffer) {
        let _verdict = records.check();
    }
    let mut copy = batch.bytes().to_vec();
    let mut edit = BatchMut::parse(&mut copy, START).unwrap();
    edit.set_last_offset(Offset::new(i64::MAX));
    edit.set_max_timestamp(TimestampType::LogAppendTime, Some(Timestamp::new(i64::MIN)));
    let _refused = edit.set_delete_horizon(Timestamp::new(0));
    edit.rewrite_crc();
    Batch::parse(&copy, START).unwrap().verify_crc().unwrap();
}

fn read_legacy(entry: &LegacyEntry<'_>, decompressor: &mut Decompressor) {
    let _fields = (entry.timestamp(), entry.timestamp_type(), entry.codec(), entry.record());
    let mut buffer = Vec::new();
    if let Ok(records) = decompressor.inflate_legacy(entry, LIMIT, &mut buffer) {
        for record in records {
            let _verdict = record.map(|record| record.is_valid());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
    }

    /// Past the length and the magic, where random bytes seldom come.
    #[test]
    fn any_payload_is_read_without_a_panic(
        magic in 0..=2_u8, attributes in any::<u8>(), count in -1..6_i32, payload in vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = hex::one_record();
        bytes[16] = magic;
        bytes[22] = attributes;
        bytes[57..61].copy_from_slice(&count.to_be_bytes());
        bytes.truncate(61);
        bytes.extend(payload);
        let length = i32::try_from(bytes.len() - 12).unwrap();
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        read_all(&bytes);
    }

    #[test]
    fn any_damage_to_real_logs_is_read_without_a_panic(
        log in 0..4_usize, damage in vec((any::<Index>(), any::<u8>()), 1..6), cut in any::<Index>(),
    ) {
        let mut bytes = [BATCHES, CONTROL, MAGIC0, MAGIC1][log].to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        read_all(&bytes);
    }
}

/// FR-009: what the checksum of a batch leaves out. Its length and magic are guarded by other
/// checks.
#[test]
fn any_flipped_bit_of_a_batch_is_seen_but_in_offset_and_leader_epoch() {
    let whole = hex::one_record();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let seen = match Entries::new(&bytes, START).next().unwrap() {
            Ok(entry) => entry.verify_crc().is_err(),
            Err(_) => true,
        };
        let unprotected = matches!(bit / 8, 0..8 | 12..16);
        assert_eq!(seen, !unprotected, "byte {}, bit {}", bit / 8, bit % 8);
    }
}

#[test]
fn any_flipped_bit_of_a_legacy_message_is_seen_but_in_the_offset() {
    for log in [MAGIC0, MAGIC1] {
        let first = Entries::new(log, START).next().unwrap().unwrap().bytes();
        for bit in 0..first.len() * 8 {
            let mut bytes = first.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let seen = match Entries::new(&bytes, START).next().unwrap() {
                Ok(entry) => entry.verify_crc().is_err(),
                Err(_) => true,
            };
            assert_eq!(seen, bit / 8 >= 8, "byte {}, bit {}", bit / 8, bit % 8);
        }
    }
}

#[test]
fn every_cut_of_a_real_log_ends_in_one_incomplete_entry() {
    for log in [BATCHES, CONTROL, MAGIC0, MAGIC1] {
        let ends: Vec<_> = Entries::new(log, START)
            .scan(0, |end, entry| {
                *end += entry.unwrap().bytes().len();
                Some(*end)
            })
            .collect();
        for len in 0..log.len() {
            let mut entries = Entries::new(&log[..len], START);
            let whole = entries.by_ref().flatten().count();
            let end = ends[..whole].last().copied().unwrap_or(0);
            assert_eq!(whole, ends.iter().filter(|end| **end <= len).count());
            assert_eq!(entries.position(), Position::saturating_from_len(end));
            let error = Entries::new(&log[..len], START).find_map(Result::err);
            let torn = matches!(error.map(|e| e.kind()), Some(CorruptKind::Truncated { .. }));
            assert_eq!(torn, end != len, "cut at {len}");
        }
    }
}
