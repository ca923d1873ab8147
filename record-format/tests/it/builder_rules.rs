//! What a builder refuses, and what becomes of the header fields.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchHeader, BatchSettings, BuildError, Codec, Offset, Position,
    ProducerEpoch, ProducerId, Sequence, SimpleRecord, Timestamp, TimestampType,
};

const BASE: BatchSettings = BatchSettings::new(Offset::new(1000));

fn at(millis: i64) -> SimpleRecord<'static> {
    SimpleRecord::new().timestamp(Timestamp::new(millis)).value(b"v")
}

fn header(builder: &mut BatchBuilder) -> BatchHeader {
    let batch = Batch::parse(builder.finish().unwrap(), Position::new(0)).unwrap();
    batch.verify_crc().unwrap();
    *batch.header()
}

/// Times of all records; `None` as -1.
fn times(builder: &mut BatchBuilder) -> Vec<i64> {
    let batch = Batch::parse(builder.finish().unwrap(), Position::new(0)).unwrap();
    let records = batch.records().unwrap();
    records.map(|record| record.unwrap().timestamp().map_or(-1, Timestamp::get)).collect()
}

#[test]
fn offsets_must_rise() {
    let mut builder = BatchBuilder::new(BASE);
    builder.append_with_offset(Offset::new(1007), &at(5)).unwrap();
    for offset in [1006, 1007] {
        let refused = builder.append_with_offset(Offset::new(offset), &at(5));
        assert!(matches!(refused, Err(BuildError::OffsetOrder { last: 1007, .. })), "{refused:?}");
    }
    assert_eq!(builder.append(&at(5)), Ok(Offset::new(1008)));
}

#[test]
fn offsets_stay_within_31_bits_of_the_base() {
    let mut builder = BatchBuilder::new(BASE);
    let edge = 1000 + i64::from(i32::MAX);
    for offset in [999, -1, i64::MIN, edge + 1, i64::MAX] {
        let refused = builder.append_with_offset(Offset::new(offset), &at(5));
        assert!(matches!(refused, Err(BuildError::OffsetRange { base: 1000, .. })), "{refused:?}");
    }
    builder.append_with_offset(Offset::new(edge), &at(5)).unwrap();
    assert_eq!(header(&mut builder).last_offset(), Offset::new(edge));
    assert!(matches!(builder.append(&at(5)), Err(BuildError::OffsetRange { .. })));
}

#[test]
fn a_time_below_minus_one_is_refused() {
    let mut builder = BatchBuilder::new(BASE);
    assert!(matches!(builder.append(&at(-2)), Err(BuildError::Timestamp { found: -2, .. })));
    builder.append(&at(-1)).unwrap();
    assert_eq!(times(&mut builder), [-1]);
}

#[test]
fn data_records_stay_out_of_a_control_batch() {
    let mut builder = BatchBuilder::new(BASE.control(true));
    let refused = builder.append(&at(1));
    assert!(matches!(refused, Err(BuildError::ControlMix { control_batch: true, .. })));
}

#[test]
fn a_transaction_needs_a_producer() {
    let mut builder = BatchBuilder::new(BASE.transactional(true));
    builder.append(&at(1)).unwrap();
    assert_eq!(builder.finish(), Err(BuildError::NoProducerId));
}

#[test]
fn a_producer_needs_an_epoch_and_a_sequence() {
    let producer = |epoch, sequence: Option<i32>| {
        let (id, epoch) = (ProducerId::new(7), ProducerEpoch::new(epoch));
        let mut builder = BatchBuilder::new(BASE.producer(id, epoch, sequence.map(Sequence::new)));
        builder.append(&at(1)).unwrap();
        builder.finish().map(<[u8]>::len)
    };
    assert_eq!(producer(-1, Some(0)), Err(BuildError::NoProducerEpoch));
    assert_eq!(producer(0, None), Err(BuildError::NoSequence));
    assert_eq!(producer(0, Some(0)), Ok(69));
}

#[test]
fn a_refused_record_leaves_the_batch_as_it_was() {
    let mut builder = BatchBuilder::new(BASE);
    builder.append(&at(5)).unwrap();
    let before = builder.finish().unwrap().to_vec();
    builder.append(&at(-9)).unwrap_err();
    builder.append_with_offset(Offset::new(3), &at(900)).unwrap_err();
    assert_eq!(builder.finish().unwrap(), before);
}

#[test]
fn the_first_record_gives_the_base_and_the_largest_the_max_timestamp() {
    let mut builder = BatchBuilder::new(BASE);
    for millis in [50, 80, -1, 20] {
        builder.append(&at(millis)).unwrap();
    }
    let header = header(&mut builder);
    assert_eq!(header.base_timestamp_raw(), 50);
    assert_eq!(header.max_timestamp(), Some(Timestamp::new(80)));
    assert_eq!(times(&mut builder), [50, 80, -1, 20]);
}

/// FR-004
#[test]
fn timestamp_deltas_take_all_64_bits() {
    let mut builder = BatchBuilder::new(BASE);
    for millis in [0, 1_787_086_231_121, i64::MAX, -1] {
        builder.append(&at(millis)).unwrap();
    }
    assert_eq!(times(&mut builder), [0, 1_787_086_231_121, i64::MAX, -1]);

    builder.reset(BASE);
    for millis in [-1, i64::MAX] {
        builder.append(&at(millis)).unwrap();
    }
    assert_eq!(times(&mut builder), [-1, i64::MAX], "a delta that wraps comes back");
}

#[test]
fn append_time_is_the_time_of_every_record() {
    let mut builder = BatchBuilder::new(BASE.log_append_time(Timestamp::new(7000)));
    for millis in [50, 9000] {
        builder.append(&at(millis)).unwrap();
    }
    let header = header(&mut builder);
    assert_eq!(header.attributes().timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(header.base_timestamp_raw(), 50);
    assert_eq!(times(&mut builder), [7000, 7000]);
}

#[test]
fn a_delete_horizon_is_the_base_of_the_deltas() {
    let mut builder = BatchBuilder::new(BASE.delete_horizon(Timestamp::new(99_000)));
    for millis in [50, 80] {
        builder.append(&at(millis)).unwrap();
    }
    let header = header(&mut builder);
    assert_eq!(header.delete_horizon(), Some(Timestamp::new(99_000)));
    assert_eq!(header.max_timestamp(), Some(Timestamp::new(80)));
    assert_eq!(times(&mut builder), [50, 80]);
}

#[test]
fn a_delete_horizon_may_be_0_and_not_below() {
    let mut builder = BatchBuilder::new(BASE.delete_horizon(Timestamp::new(0)));
    builder.append(&at(5)).unwrap();
    assert_eq!(header(&mut builder).delete_horizon(), Some(Timestamp::new(0)));
    builder.reset(BASE.delete_horizon(Timestamp::new(-1)));
    builder.append(&at(5)).unwrap();
    let refused = builder.finish();
    assert!(matches!(refused, Err(BuildError::Timestamp { found: -1, .. })), "{refused:?}");
}

#[test]
fn a_batch_keeps_its_offset_range_when_records_go() {
    let mut builder = BatchBuilder::new(BASE);
    builder.append_with_offset(Offset::new(1003), &at(5)).unwrap();
    let below = builder.set_last_offset(Offset::new(1002));
    assert!(matches!(below, Err(BuildError::OffsetOrder { offset: 1002, last: 1003, .. })));
    builder.set_last_offset(Offset::new(1009)).unwrap();
    let header = header(&mut builder);
    assert_eq!(
        (header.base_offset(), header.last_offset()),
        (Offset::new(1000), Offset::new(1009))
    );
    assert_eq!(header.record_count(), 1);
}

#[test]
fn settings_of_a_batch_build_the_same_header() {
    let settings = BASE
        .producer(ProducerId::new(i64::MAX), ProducerEpoch::new(9), Some(Sequence::new(i32::MAX)))
        .transactional(true)
        .log_append_time(Timestamp::new(4))
        .delete_horizon(Timestamp::new(5));
    let mut builder = BatchBuilder::new(settings);
    builder.append(&at(1)).unwrap();
    let built = header(&mut builder);
    assert_eq!(built.last_sequence(), Some(Sequence::new(i32::MAX)));
    assert_eq!(BatchSettings::of(&built), settings);
}

#[test]
fn a_reset_builder_is_as_good_as_new() {
    let mut builder = BatchBuilder::new(BASE.delete_horizon(Timestamp::new(1)));
    builder.append(&at(77)).unwrap();
    builder.finish().unwrap();
    builder.reset(BASE);
    builder.append(&at(5)).unwrap();
    let again = builder.finish().unwrap().to_vec();

    let mut fresh = BatchBuilder::new(BASE.codec(Codec::None));
    fresh.append(&at(5)).unwrap();
    assert_eq!(fresh.finish().unwrap(), again);
}

#[test]
fn the_size_of_a_record_is_known_before_it_is_built() {
    for len in [0, 1, 63, 64, 8191, 8192, 100_000] {
        let value = vec![b'v'; len];
        let record = SimpleRecord::new().timestamp(Timestamp::new(1 << 40)).value(&value);
        let mut builder = BatchBuilder::new(BASE);
        builder.append(&at(0)).unwrap();
        let before = builder.size_bytes();
        builder.append_with_offset(Offset::new(1300), &record).unwrap();
        assert_eq!(builder.size_bytes() - before, record.size_bytes(300, 1 << 40), "{len}");
    }
}

#[test]
fn a_build_can_write_the_codecs_that_it_says_are_enabled_and_no_others() {
    for codec in Codec::ALL {
        let mut builder = BatchBuilder::new(BASE.codec(codec));
        let is_written = builder.append(&at(1)).is_ok() && builder.finish().is_ok();
        assert_eq!(is_written, codec.is_enabled(), "{codec}");
    }
    assert!(Codec::None.is_enabled());
}
