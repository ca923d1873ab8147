//! What records say: times, offsets, nulls, headers.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchMut, BatchSettings, Decompressor, Header, Offset, Position, Record,
    Records, SimpleRecord, Timestamp, TimestampType,
};
use integer_encoding::VarInt;

use crate::hex;

const START: Position = Position::new(0);

/// All records of the one batch in `bytes`, whose CRC must be right.
fn records(bytes: &[u8]) -> Vec<Record<'_>> {
    let batch = Batch::parse(bytes, START).unwrap();
    batch.verify_crc().unwrap();
    batch.records().unwrap().map(Result::unwrap).collect()
}

fn offsets(bytes: &[u8]) -> Vec<i64> {
    records(bytes).iter().map(|record| record.offset().get()).collect()
}

/// FR-004
#[test]
fn a_timestamp_delta_may_need_more_than_32_bits() {
    let bytes = hex::bytes(
        "00000000000000000000004800000000020a2d1cb30000000000010000000000000000000001a016a3d651
         ffffffffffffffffffffffffffff0000000210000000026b0276001a00a2d99eea826802026b027600",
    );
    let times: Vec<_> = records(&bytes).iter().map(Record::timestamp).collect();
    assert_eq!(times, [Some(Timestamp::new(0)), Some(Timestamp::new(1_787_086_231_121))]);
}

/// FR-007
#[test]
fn header_keys_repeat_and_null_is_not_empty() {
    let bytes = hex::bytes(
        "00000000000000000000003e0000000002bcda568900000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff0000000118000000010104026801026800",
    );
    let records = records(&bytes);
    let headers: Vec<_> = records[0].headers().collect();
    assert_eq!(headers, [Header::new(b"h", None), Header::new(b"h", Some(b""))]);
    assert_eq!(headers[0].key_str(), Some("h"));
}

/// FR-007: read as null, as Kafka does.
#[test]
fn any_negative_key_or_value_length_is_null() {
    let bytes = hex::bytes(
        "00000000000000000000003800000000025343ee2a00000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff000000010c000000030d00",
    );
    let records = records(&bytes);
    assert_eq!((records[0].key(), records[0].value()), (None, None));
    let batch = Batch::parse(&bytes, START).unwrap();
    let key = batch.records().unwrap().keys().next().unwrap().unwrap();
    assert_eq!((key.key(), key.value_bytes()), (None, None));
}

/// FR-005: five bytes are as many as a 32-bit field may take.
#[test]
fn a_length_padded_to_five_bytes_is_read() {
    let bytes = hex::bytes(
        "00000000000000000000003e0000000002d77f091300000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff000000019080808000000000026b027600",
    );
    let records = records(&bytes);
    assert_eq!((records[0].key(), records[0].value()), (Some(&b"k"[..]), Some(&b"v"[..])));
}

/// FR-022
#[test]
fn with_append_time_every_record_has_the_time_of_the_batch() {
    let bytes = hex::bytes(
        "00000000000000000000003a0000000002fcfbdb4800080000000000000000000003e80000000000001388
         ffffffffffffffffffffffffffff0000000110000e00026b027600",
    );
    let batch = Batch::parse(&bytes, START).unwrap();
    assert_eq!(batch.header().attributes().timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(records(&bytes)[0].timestamp(), Some(Timestamp::new(5000)));
    assert_eq!(records(&bytes)[0].create_time(), Some(Timestamp::new(1007)));
}

/// FR-022
#[test]
fn a_missing_max_timestamp_says_nothing_about_the_records() {
    let bytes = hex::bytes(
        "00000000000000000000003a000000000277e482af00000000000000000000000003e8ffffffffffffffff
         ffffffffffffffffffffffffffff0000000110000000026b027600",
    );
    assert_eq!(Batch::parse(&bytes, START).unwrap().header().max_timestamp(), None);
    assert_eq!(records(&bytes)[0].timestamp(), Some(Timestamp::new(1000)));
}

/// FR-022
#[test]
fn a_timestamp_of_minus_one_is_none() {
    let bytes = hex::bytes(
        "00000000000000000000003a0000000002461639eb000000000000ffffffffffffffffffffffffffffffff
         ffffffffffffffffffffffffffff0000000110000000026b027600",
    );
    assert_eq!(records(&bytes)[0].timestamp(), None);
    let summary = Batch::parse(&bytes, START).unwrap().records().unwrap().check().unwrap();
    assert_eq!((summary.min_timestamp, summary.max_timestamp), (None, None));
    assert_eq!(summary.untimed_count, 1);
}

/// FR-019
#[test]
fn a_batch_that_counts_no_record_yields_none_and_still_moves_the_log_on() {
    for hex in [
        "0000000000000000000000310000000002c53ffb6b00000000000900000000000003e800000000000003e8
         ffffffffffffffffffffffffffff00000000",
        "000000000000000000000031000000000246c7fe9300040000000900000000000003e800000000000003e8
         ffffffffffffffffffffffffffff00000000",
    ] {
        let bytes = hex::bytes(hex);
        assert_eq!(records(&bytes).len(), 0);
        let batch = Batch::parse(&bytes, START).unwrap();
        assert!(batch.header().is_empty());
        assert_eq!(batch.header().last_offset(), Offset::new(9));
        assert_eq!(batch.header().next_offset(), Offset::new(10));
        let summary = batch.records().unwrap().check().unwrap();
        assert_eq!((summary.record_count, summary.max_offset), (0, None));
    }
}

/// FR-020
#[test]
fn the_next_offset_is_that_of_the_batch_not_of_its_last_record() {
    let bytes = hex::bytes(
        "00000000000000000000003a000000000236de3c0900000000000900000000000003e800000000000003e8
         ffffffffffffffffffffffffffff0000000110000006026b027600",
    );
    let batch = Batch::parse(&bytes, START).unwrap();
    let last = batch.records().unwrap().last().unwrap().unwrap();
    assert_eq!(last.offset(), Offset::new(3));
    assert_eq!(batch.header().next_offset(), Offset::new(10));
}

/// FR-024
#[test]
fn attribute_bits_without_a_meaning_change_nothing() {
    for hex in [
        "00000000000000000000003a0000000002b6ecdf8b01000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff0000000110000000026b027600",
        "00000000000000000000003a000000000256ee622700800000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff0000000110000000026b027600",
    ] {
        let bytes = hex::bytes(hex);
        assert_eq!(records(&bytes)[0].key(), Some(&b"k"[..]));
    }
}

/// FR-027
#[test]
fn offset_deltas_come_as_they_are_stored() {
    let below = hex::bytes(
        "00000000000000000000003a00000000029e5a0a9000000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff0000000110000001026b027600",
    );
    assert_eq!(offsets(&below), [-1]);
    let beyond = hex::bytes(
        "00000000000000000000003a0000000002cae0d95500000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff000000011000000a026b027600",
    );
    assert_eq!(offsets(&beyond), [5]);
    let descending = hex::bytes(
        "0000000000000000000000430000000002ddd1a41500000000000100000000000003e800000000000003e8
         ffffffffffffffffffffffffffff0000000210000002026b02760010000000026b027700",
    );
    assert_eq!(offsets(&descending), [1, 0]);
    let summary = Batch::parse(&descending, START).unwrap().records().unwrap().check().unwrap();
    let offsets = Batch::parse(&descending, START).unwrap().records().unwrap().check_offsets();
    assert!(!offsets.unwrap().unwrap().offsets_rise);
    assert!(!summary.offsets_rise && !summary.offsets_dense);
    assert_eq!(
        summary.min_offset..=summary.max_offset,
        Some(Offset::new(0))..=Some(Offset::new(1))
    );
}

/// FR-027
#[test]
fn a_negative_last_offset_delta_can_be_read() {
    let bytes = hex::bytes(
        "00000000000000000000003a0000000002c6ff579d0000ffffffff00000000000003e800000000000003e8
         ffffffffffffffffffffffffffff0000000110000000026b027600",
    );
    assert_eq!(offsets(&bytes), [0]);
    let header = Batch::parse(&bytes, START).unwrap();
    assert_eq!(header.header().last_offset(), Offset::new(-1));
}

/// FR-047
#[test]
fn a_batch_whose_checksum_happens_to_be_zero_is_valid() {
    let bytes = hex::bytes(
        "00000000000000000000003d00000000020000000000000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff0000000116000000026b08606aada300",
    );
    assert_eq!(records(&bytes)[0].value(), Some(&[0x60, 0x6a, 0xad, 0xa3][..]));
}

#[test]
fn keys_and_the_check_agree_with_the_records() {
    let bytes = hex::three_batches();
    let batch = Batch::parse(&bytes, START).unwrap();
    let records = records(&bytes);
    let keys: Vec<_> = batch.records().unwrap().keys().map(Result::unwrap).collect();
    assert_eq!(keys.len(), 3);
    for (key, record) in keys.iter().zip(&records) {
        assert_eq!(key.key(), record.key());
        assert_eq!(key.offset(), record.offset());
        assert_eq!(key.timestamp(), record.timestamp());
        assert_eq!(key.value_bytes(), record.value().map(<[u8]>::len));
    }
    let summary = batch.records().unwrap().check().unwrap();
    assert_eq!((summary.record_count, summary.untimed_count), (3, 0));
    assert!(summary.offsets_rise && summary.offsets_dense && summary.all_keyed);
    assert_eq!(
        (summary.min_offset, summary.max_offset),
        (Some(Offset::new(0)), Some(Offset::new(2)))
    );
    let offsets = batch.records().unwrap().check_offsets().unwrap().unwrap();
    assert_eq!((offsets.min, offsets.max), (Offset::new(0), Offset::new(2)));
    assert!(offsets.offsets_rise);
    assert_eq!(summary.min_timestamp, Some(Timestamp::new(1000)));
    assert_eq!(summary.max_timestamp, Some(Timestamp::new(1002)));
}

#[test]
fn nothing_in_an_uncompressed_batch_is_copied() {
    let bytes = hex::three_batches();
    let inside = |part: &[u8]| bytes.as_ptr_range().contains(&part.as_ptr());
    for record in records(&bytes) {
        assert!(inside(record.key().unwrap()) && inside(record.value().unwrap()));
    }
    let batch = Batch::parse(&bytes, START).unwrap();
    let again = Records::new(batch.header(), batch.payload(), batch.payload_position()).unwrap();
    assert_eq!(again.count(), 3);
}

#[test]
fn a_gap_is_not_dense_and_a_missing_key_is_seen() {
    let settings = BatchSettings::new(Offset::new(10));
    let mut builder = BatchBuilder::new(settings);
    let keyed = SimpleRecord::new().key(b"");
    builder.append(&keyed).unwrap();
    builder.append_with_offset(Offset::new(12), &keyed).unwrap();
    let check = |builder: &mut BatchBuilder| {
        let batch = Batch::parse(builder.finish().unwrap(), START).unwrap();
        batch.records().unwrap().check().unwrap()
    };
    let summary = check(&mut builder);
    assert!(summary.offsets_rise && !summary.offsets_dense && summary.all_keyed);
    builder.reset(settings);
    builder.append(&keyed).unwrap();
    builder.append(&SimpleRecord::new().value(b"v")).unwrap();
    let summary = check(&mut builder);
    assert!(summary.offsets_dense && !summary.all_keyed);
}

#[test]
fn a_stream_of_records_has_the_same_summary() {
    let time = |record: SimpleRecord<'static>, ms| record.timestamp(Timestamp::new(ms));
    let (keyed, bare) = (SimpleRecord::new().key(b"k"), SimpleRecord::new());
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(10)));
    builder.append(&time(keyed, 5)).unwrap();
    builder.append(&bare).unwrap();
    builder.append_with_offset(Offset::new(15), &time(keyed, 1)).unwrap();
    let uncommon = builder.finish().unwrap().to_vec();
    for bytes in [hex::three_batches(), uncommon, with_deltas(&[0, 2, 1])] {
        let batch = Batch::parse(&bytes, START).unwrap();
        let mut decompressor = Decompressor::new();
        let stream = decompressor.records(&batch, 1000).unwrap();
        assert_eq!(stream.check(), batch.records().unwrap().check());
    }
}

/// A batch of records with these offset deltas.
fn with_deltas(deltas: &[i32]) -> Vec<u8> {
    let mut bytes = hex::one_record();
    bytes.truncate(61);
    for delta in deltas {
        // Attributes, time, offset, null key and value, no headers.
        let body = [&[0, 0][..], &delta.encode_var_vec(), &[1, 1, 0]].concat();
        bytes.extend(i32::try_from(body.len()).unwrap().encode_var_vec());
        bytes.extend(body);
    }
    bytes[57..61].copy_from_slice(&u32::try_from(deltas.len()).unwrap().to_be_bytes());
    bytes[11] = u8::try_from(bytes.len() - 12).unwrap();
    BatchMut::parse(&mut bytes, START).unwrap().rewrite_crc();
    bytes
}

#[test]
fn offsets_that_repeat_or_fall_are_seen_wherever_they_do() {
    for (deltas, rise) in [
        (&[i32::MIN][..], true),
        (&[0, 1, 2], true),
        (&[-3, 0, 7], true),
        (&[0, 1, 1], false),
        (&[0, 2, 1], false),
        (&[2, 1, 3], false),
        (&[0, i32::MIN, 1], false),
    ] {
        let bytes = with_deltas(deltas);
        let read = || Batch::parse(&bytes, START).unwrap().records().unwrap();
        let offsets = read().check_offsets().unwrap().unwrap();
        assert_eq!(offsets.offsets_rise, rise, "{deltas:?}");
        let min_max = [deltas.iter().min().unwrap(), deltas.iter().max().unwrap()];
        assert_eq!([offsets.min, offsets.max], min_max.map(|d| Offset::new(i64::from(*d))));
        let summary = read().check().unwrap();
        assert_eq!(summary.offsets_rise, rise, "{deltas:?}");
        assert_eq!(summary.offsets_dense, deltas == [0, 1, 2], "{deltas:?}");
        assert_eq!(
            (summary.min_offset, summary.max_offset),
            (Some(offsets.min), Some(offsets.max))
        );
    }
}

#[test]
fn iterators_promise_what_the_bytes_can_hold_and_no_more() {
    let mut claims = with_deltas(&[0, 1, 2]);
    claims[57..61].copy_from_slice(&i32::MAX.to_be_bytes());
    for (bytes, items) in [(with_deltas(&[0, 1, 2]), 3), (claims, 4), (hex::one_record(), 1)] {
        let batch = Batch::parse(&bytes, START).unwrap();
        let most = batch.payload().len() / 7 + 1;
        let mut records = batch.records().unwrap();
        let mut keys = batch.records().unwrap().keys();
        for left in (0..=items).rev() {
            for (low, high) in [records.size_hint(), keys.size_hint()] {
                assert!(low <= left && (left..=most).contains(&high.unwrap()), "{low} {high:?}");
            }
            assert_eq!(records.next().is_some(), left > 0);
            assert_eq!(keys.next().is_some(), left > 0);
        }
    }
}

#[test]
fn headers_say_how_many_are_left() {
    let headers = [Header::new(b"a", Some(b"1")), Header::new(b"b", None)];
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    builder.append(&SimpleRecord::new().headers(&headers)).unwrap();
    builder.append(&SimpleRecord::new()).unwrap();
    let bytes = builder.finish().unwrap();
    let found = records(bytes);
    let mut left = found[0].headers();
    for count in [2, 1, 0] {
        assert_eq!((left.len(), left.is_empty()), (count, count == 0));
        assert_eq!(left.size_hint(), (count, Some(count)));
        assert_eq!(left.next().is_some(), count > 0);
    }
    assert!(found[1].headers().is_empty());
}

/// Around every width that the length of a record, a key or a value may have as a varint.
#[test]
fn records_of_any_length_are_read_and_the_next_one_is_found() {
    let lens = [0, 1, 20, 49, 63, 64, 100, 4000, 8170, 8191, 8192, 100_000];
    let bytes = vec![b'v'; 100_000];
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    for (key_len, value_len) in
        lens.iter().flat_map(|key| lens.iter().map(move |value| (*key, *value)))
    {
        let headers = [Header::new(b"h", Some(b"x"))];
        let record = SimpleRecord::new().key(&bytes[..key_len]).value(&bytes[..value_len]);
        builder.reset(BatchSettings::new(Offset::new(0)));
        builder.append(&record).unwrap();
        builder.append(&record.headers(&headers)).unwrap();
        builder.append(&SimpleRecord::new().key(b"next")).unwrap();
        let batch = Batch::parse(builder.finish().unwrap(), START).unwrap();
        let found: Vec<_> = batch.records().unwrap().map(Result::unwrap).collect();
        let len = |field: Option<&[u8]>| field.map(<[u8]>::len);
        for record in &found[..2] {
            assert_eq!((len(record.key()), len(record.value())), (Some(key_len), Some(value_len)));
        }
        assert!(found[1].headers().eq(headers));
        assert_eq!((found[2].key(), found.len()), (Some(&b"next"[..]), 3));
        let keys: Vec<_> = batch.records().unwrap().keys().map(Result::unwrap).collect();
        assert_eq!(keys.len(), 3);
        for (key, record) in keys.iter().zip(&found) {
            assert_eq!((key.key(), key.value_bytes()), (record.key(), len(record.value())));
        }
        assert_eq!(batch.records().unwrap().check().unwrap().record_count, 3);
    }
}

#[test]
fn no_record_of_a_batch_of_many_long_ones_is_passed_over() {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let (key, value) = ([b'k'; 5000], [b'v'; 5000]);
    for n in 0..64 {
        builder.append(&SimpleRecord::new().key(&key[..5000 - n]).value(&value)).unwrap();
    }
    let batch = Batch::parse(builder.finish().unwrap(), START).unwrap();
    let lens = batch.records().unwrap().keys().map(|key| key.unwrap().key().unwrap().len());
    assert!(lens.eq((0..64).map(|n| 5000 - n)));
    let lens = batch.records().unwrap().map(|record| record.unwrap().key().unwrap().len());
    assert!(lens.eq((0..64).map(|n| 5000 - n)));
}

/// A reader that is one byte off would find a header here as well.
#[test]
fn a_header_that_looks_like_lengths_is_read_as_it_is() {
    let headers = [Header::new(&[2, 0, 0, 2], Some(&[9]))];
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    builder.append(&SimpleRecord::new().headers(&headers)).unwrap();
    // The short way needs some bytes behind a record.
    builder.append(&SimpleRecord::new().value(&[0; 32])).unwrap();
    let found = records(builder.finish().unwrap());
    assert!(found[0].headers().eq(headers));
}
