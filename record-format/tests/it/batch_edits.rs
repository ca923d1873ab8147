//! In-place edits of a batch.

use alluvium_record_format::{
    Attributes, Batch, BatchMut, BatchSettings, BuildError, CorruptKind, LeaderEpoch, Offset,
    Position, Timestamp, TimestampType,
};

use crate::hex;

const START: Position = Position::new(0);

/// FR-009
#[test]
fn offset_and_leader_epoch_leave_the_crc_alone() {
    let mut bytes = hex::one_record();
    let crc = bytes[17..21].to_vec();
    let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
    batch.set_base_offset(Offset::new(123_456_789));
    batch.set_leader_epoch(Some(LeaderEpoch::new(77)));

    let batch = Batch::parse(&bytes, START).unwrap();
    batch.verify_crc().unwrap();
    assert_eq!(batch.header().last_offset(), Offset::new(123_456_789));
    assert_eq!(batch.header().leader_epoch(), Some(LeaderEpoch::new(77)));
    assert_eq!(bytes[17..21], crc);
}

#[test]
fn the_last_offset_moves_the_whole_range() {
    let mut bytes = hex::three_batches();
    let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
    batch.set_last_offset(Offset::new(5000));
    assert_eq!(batch.header().base_offset(), Offset::new(4998));
    let batch = Batch::parse(&bytes, START).unwrap();
    let offsets: Vec<_> = batch.records().unwrap().map(|r| r.unwrap().offset().get()).collect();
    assert_eq!(offsets, [4998, 4999, 5000]);
}

#[test]
fn a_leader_epoch_can_be_taken_away() {
    let mut bytes = hex::one_record();
    BatchMut::parse(&mut bytes, START).unwrap().set_leader_epoch(None);
    assert_eq!(Batch::parse(&bytes, START).unwrap().header().leader_epoch(), None);
    assert_eq!(bytes[12..16], [0xff; 4]);
}

#[test]
fn append_time_and_its_type_go_in_with_a_new_crc() {
    let mut bytes = hex::one_record();
    let before = bytes.clone();
    let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
    assert!(batch.set_max_timestamp(TimestampType::LogAppendTime, Some(Timestamp::new(5000))));

    let batch = Batch::parse(&bytes, START).unwrap();
    batch.verify_crc().unwrap();
    assert_eq!(batch.header().attributes().bits(), Attributes::LOG_APPEND_TIME);
    let record = batch.records().unwrap().next().unwrap().unwrap();
    assert_eq!(record.timestamp(), Some(Timestamp::new(5000)));

    let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
    assert!(batch.set_max_timestamp(TimestampType::CreateTime, Some(Timestamp::new(1000))));
    assert_eq!(bytes, before);
}

#[test]
fn the_same_max_timestamp_again_changes_nothing() {
    let mut bytes = hex::one_record();
    bytes[17] ^= 1; // a CRC that is wrong stays wrong
    let before = bytes.clone();
    let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
    assert!(!batch.set_max_timestamp(TimestampType::CreateTime, Some(Timestamp::new(1000))));
    assert_eq!(bytes, before);
}

/// FR-024: an edit keeps the bits that mean nothing today. Kafka 4.4 drops them.
#[test]
fn unknown_attribute_bits_survive_every_edit() {
    for high in [0x0100, 0x0080, 0x7f80] {
        let mut bytes = hex::one_record();
        bytes[21] = u8::try_from(high >> 8).unwrap();
        bytes[22] = u8::try_from(high & 0xff).unwrap();
        let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
        batch.rewrite_crc();
        batch.set_base_offset(Offset::new(9));
        batch.set_max_timestamp(TimestampType::LogAppendTime, Some(Timestamp::new(5000)));
        assert_eq!(batch.header().attributes().bits(), high | Attributes::LOG_APPEND_TIME);
        batch.set_delete_horizon(Timestamp::new(1)).unwrap();
        assert_eq!(batch.header().attributes().unknown_bits(), high);
        assert_eq!(batch.header().to_empty().attributes().unknown_bits(), high);

        let mut builder =
            alluvium_record_format::BatchBuilder::new(BatchSettings::of(batch.header()));
        let batch = Batch::parse(&bytes, START).unwrap();
        batch.verify_crc().unwrap();
        builder.append_record(&batch.records().unwrap().next().unwrap().unwrap()).unwrap();
        let rebuilt = Batch::parse(builder.finish().unwrap(), START).unwrap();
        assert_eq!(rebuilt.header().attributes(), batch.header().attributes());
    }
}

#[test]
fn a_delete_horizon_never_moves_the_time_of_a_record() {
    let mut bytes = hex::one_record();
    let before = bytes.clone();
    let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
    let refused = batch.set_delete_horizon(Timestamp::new(99_000));
    assert!(matches!(refused, Err(BuildError::RecordTimes { record_count: 1, .. })));
    let refused = batch.set_delete_horizon(Timestamp::new(-5));
    assert!(matches!(refused, Err(BuildError::Timestamp { found: -5, .. })));
    assert_eq!(bytes, before);

    let mut empty = *Batch::parse(&bytes, START).unwrap().header().to_empty().as_bytes();
    let mut batch = BatchMut::parse(&mut empty, START).unwrap();
    batch.set_delete_horizon(Timestamp::new(99_000)).unwrap();
    let batch = Batch::parse(&empty, START).unwrap();
    batch.verify_crc().unwrap();
    assert_eq!(batch.header().delete_horizon(), Some(Timestamp::new(99_000)));
}

#[test]
fn a_delete_horizon_that_is_the_base_timestamp_moves_no_record() {
    let mut bytes = hex::one_record();
    let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
    batch.set_delete_horizon(Timestamp::new(1000)).unwrap();
    let batch = Batch::parse(&bytes, START).unwrap();
    batch.verify_crc().unwrap();
    assert_eq!(batch.header().delete_horizon(), Some(Timestamp::new(1000)));
    let record = batch.records().unwrap().next().unwrap().unwrap();
    assert_eq!(record.timestamp(), Some(Timestamp::new(1000)));
}

#[test]
fn an_edit_that_follows_its_like_leaves_the_bits_set() {
    let mut bytes = hex::one_record();
    let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
    for time in [5000, 6000] {
        let time = Timestamp::new(time);
        assert!(batch.set_max_timestamp(TimestampType::LogAppendTime, Some(time)));
        assert_eq!(batch.header().attributes().timestamp_type(), TimestampType::LogAppendTime);
    }
    for horizon in [7, 0] {
        let horizon = Timestamp::new(horizon);
        batch.set_delete_horizon(horizon).unwrap();
        assert_eq!(batch.header().delete_horizon(), Some(horizon));
    }
}

#[test]
fn an_emptied_batch_has_no_codec_and_no_delete_horizon() {
    let mut bytes = hex::one_record();
    bytes[22] |= 4; // zstd
    let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
    batch.set_max_timestamp(TimestampType::LogAppendTime, Some(Timestamp::new(5000)));
    batch.set_delete_horizon(Timestamp::new(1)).unwrap();
    let empty = batch.header().to_empty();
    assert_eq!(empty.attributes().bits(), Attributes::LOG_APPEND_TIME);
    assert_eq!((empty.delete_horizon(), empty.base_timestamp_raw()), (None, -1));
    Batch::parse(empty.as_bytes(), START).unwrap().verify_crc().unwrap();
}

#[test]
fn a_batch_that_the_buffer_cuts_cannot_be_edited() {
    let whole = hex::one_record();
    for len in 0..whole.len() {
        let mut cut = whole[..len].to_vec();
        let error = BatchMut::parse(&mut cut, START).unwrap_err();
        assert!(matches!(error.kind(), CorruptKind::Truncated { have, .. } if have == len));
    }
}
