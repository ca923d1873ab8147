//! Batches whose CRC is right and whose records break the rules.

use alluvium_record_format::{
    Batch, BatchMut, Codec, CorruptClass, CorruptKind, Corruption, Offset, Position,
};

use crate::hex;

const START: Position = Position::new(0);

/// Reads the batch of `hex` by iterator, keys and check; the first error of the iterator.
fn error_of(hex: &str) -> Corruption {
    let bytes = hex::bytes(hex);
    let batch = Batch::parse(&bytes, START).unwrap();
    batch.verify_crc().unwrap();
    let records = match batch.records() {
        Ok(records) => records,
        Err(error) => return error,
    };
    let mut errors = records.clone().filter_map(Result::err);
    let error = errors.next().expect("an error");
    assert_eq!(errors.next(), None, "one error at most");
    assert_eq!(records.clone().check(), Err(error));
    assert_eq!(records.clone().check_offsets(), Err(error));
    assert_eq!(records.keys().find_map(Result::err), Some(error), "keys are as strict");
    error
}

/// The batch with one record whose bytes after the count are `payload`, CRC renewed.
fn with_payload(payload: &str) -> Vec<u8> {
    let mut bytes = hex::one_record();
    bytes.truncate(61);
    bytes.extend(hex::bytes(payload));
    let length = u8::try_from(bytes.len() - 12).unwrap();
    bytes[11] = length;
    BatchMut::parse(&mut bytes, START).unwrap().rewrite_crc();
    bytes
}

fn payload_error(payload: &str) -> CorruptKind {
    let bytes = with_payload(payload);
    let records = Batch::parse(&bytes, START).unwrap().records().unwrap();
    let error = records.clone().find_map(Result::err).expect("an error");
    assert_eq!(records.keys().find_map(Result::err), Some(error), "keys are as strict");
    error.kind()
}

/// FR-001
#[test]
fn a_negative_record_count_is_refused_and_the_header_still_works() {
    let hex =
        "00000000000000000000003a0000000002f998403700000000000000000000000003e800000000000003e8
               ffffffffffffffffffffffffffffffffffff10000000026b027600";
    let error = error_of(hex);
    assert!(matches!(error.kind(), CorruptKind::RecordCount { found: -1, .. }));
    assert_eq!(error.class(), CorruptClass::Invalid);
    let bytes = hex::bytes(hex);
    assert_eq!(Batch::parse(&bytes, START).unwrap().header().next_offset(), Offset::new(1));
}

/// FR-002
#[test]
fn a_record_count_beyond_the_payload_is_refused_where_the_payload_ends() {
    let hex =
        "00000000000000000000003a0000000002e120aa2f00000000000000000000000003e800000000000003e8
               ffffffffffffffffffffffffffff7fffffff10000000026b027600";
    let error = error_of(hex);
    assert!(matches!(error.kind(), CorruptKind::RecordCount { found: i32::MAX, .. }));
    assert_eq!(error.position(), Position::new(70));
    let bytes = hex::bytes(hex);
    let records = Batch::parse(&bytes, START).unwrap().records().unwrap();
    assert!(records.size_hint().1.unwrap() <= 2, "no room for 2^31 records");
}

/// FR-004
#[test]
fn a_record_without_a_header_count_is_refused() {
    let body = "00 f0e7f7dd5b 06 0e 746573744b6579 12 7465737456616c7565";
    let kind = payload_error(&format!("34 {body}"));
    assert!(matches!(kind, CorruptKind::RecordLength { found: 26, have: 25, .. }));
    assert_eq!(payload_error(&format!("32 {body}")), CorruptKind::RecordCut);
}

/// FR-005
#[test]
fn an_endless_varint_is_refused() {
    let error = error_of(
        "0000000000000000000000370000000002c426327400000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff00000001ffffffffffff",
    );
    assert!(matches!(error.kind(), CorruptKind::Varint { max_bits: 32, .. }));
    assert_eq!(error.position(), Position::new(61));
}

/// FR-005
#[test]
fn a_32_bit_field_of_six_bytes_is_refused() {
    let kind = payload_error("908080808000 000000026b027600");
    assert!(matches!(kind, CorruptKind::Varint { max_bits: 32, .. }));
}

/// FR-005: Kafka 4.4 drops the bits beyond 32; here they are an error.
#[test]
fn bits_beyond_the_32nd_are_refused() {
    let error = error_of(
        "00000000000000000000003c0000000002d0fd134000000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff00000001140000ffffffff7f010100",
    );
    assert!(matches!(error.kind(), CorruptKind::Varint { max_bits: 32, .. }));
}

/// FR-005
#[test]
fn a_64_bit_field_takes_ten_bytes_and_one_bit_in_the_tenth() {
    let bytes = with_payload("22 00 ffffffffffffffffff01 00 026b 0276 00");
    assert!(Batch::parse(&bytes, START).unwrap().records().unwrap().all(|record| record.is_ok()));
    for payload in [
        "22 00 ffffffffffffffffff02 00 026b 0276 00",
        "24 00 ffffffffffffffffff8000 00 026b 0276 00",
    ] {
        assert!(matches!(payload_error(payload), CorruptKind::Varint { max_bits: 64, .. }));
    }
}

/// FR-007
#[test]
fn a_null_header_key_is_refused() {
    let error = error_of(
        "00000000000000000000003a00000000023ba644b700000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff00000001100000000101020101",
    );
    assert!(matches!(error.kind(), CorruptKind::RecordLength { found: -1, .. }));
}

/// FR-024
#[test]
fn an_unknown_codec_is_refused_by_iterators_and_stepped_over_by_headers() {
    let head = "00000000000000000000003a00000000021de7089d000";
    let tail = "0000000000000000000003e800000000000003e8
                ffffffffffffffffffffffffffff0000000110000000026b027600";
    for id in 5..=7_u8 {
        let mut bytes = hex::bytes(&format!("{head}{id}00000000{tail}"));
        BatchMut::parse(&mut bytes, START).unwrap().rewrite_crc();
        let batch = Batch::parse(&bytes, START).unwrap();
        let error = batch.records().unwrap_err();
        assert!(matches!(error.kind(), CorruptKind::UnknownCodec { id: found, .. } if found == id));
        assert_eq!(error.position(), Position::new(21));
        assert_eq!(batch.header().attributes().codec(), None);
        assert_eq!(batch.header().next_offset(), Offset::new(1));
    }
}

#[test]
fn a_compressed_batch_wants_to_be_inflated_first() {
    let mut bytes = hex::one_record();
    bytes[22] = Codec::Zstd.id();
    let batch = Batch::parse(&bytes, START).unwrap();
    let error = batch.records().unwrap_err();
    assert!(matches!(error.kind(), CorruptKind::NotInflated { codec: Codec::Zstd, .. }));
}

/// FR-019
#[test]
fn a_batch_that_counts_a_record_and_has_no_payload_is_refused() {
    assert!(matches!(payload_error(""), CorruptKind::RecordCount { found: 1, .. }));
}

#[test]
fn a_record_longer_than_the_payload_is_refused() {
    let kind = payload_error("12 000000026b027600");
    assert!(matches!(kind, CorruptKind::RecordLength { found: 9, have: 8, .. }));
}

#[test]
fn a_negative_record_length_is_refused() {
    let kind = payload_error("01 000000026b027600");
    assert!(matches!(kind, CorruptKind::RecordLength { found: -1, have: 8, .. }));
}

#[test]
fn fields_must_fill_the_record() {
    let kind = payload_error("12 000000026b02760000");
    assert!(matches!(kind, CorruptKind::RecordSize { length: 9, used: 8, .. }));
}

#[test]
fn a_field_longer_than_its_record_is_refused() {
    let kind = payload_error("10 000000046b027600");
    assert!(matches!(kind, CorruptKind::RecordLength { .. } | CorruptKind::RecordCut));
    let kind = payload_error("10 0000007e6b027600");
    assert!(matches!(kind, CorruptKind::RecordLength { found: 63, have: 4, .. }));
}

#[test]
fn header_counts_are_bounded_by_the_record() {
    for count in ["01", "06", "feffffff0f"] {
        let body = format!("000000026b0276{count}0000");
        let length = u8::try_from(hex::bytes(&body).len()).unwrap();
        let kind = payload_error(&format!("{:02x}{body}", length * 2));
        assert!(
            matches!(kind, CorruptKind::RecordLength { .. } | CorruptKind::RecordCut),
            "{kind}"
        );
    }
}

#[test]
fn bytes_after_the_last_record_are_refused_where_they_begin() {
    let bytes = with_payload("10 000000026b027600 aabb");
    let error = Batch::parse(&bytes, START).unwrap().records().unwrap().find_map(Result::err);
    let error = error.expect("an error");
    assert!(matches!(error.kind(), CorruptKind::TrailingBytes { found: 2, .. }));
    assert_eq!(error.position(), Position::new(70));
}

#[test]
fn damage_is_placed_at_the_first_byte_of_its_record() {
    let mut bytes = hex::three_batches();
    bytes.truncate(118);
    bytes[80] = 0x60; // the second record starts at byte 80
    let error = Batch::parse(&bytes, START).unwrap().records().unwrap().find_map(Result::err);
    assert_eq!(error.expect("an error").position(), Position::new(80));
}
