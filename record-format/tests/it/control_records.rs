//! Control records beyond those that Kafka writes today.

use alluvium_record_format::{
    BatchBuilder, BatchSettings, BuildError, ControlRecord, CorruptKind, EndTxnMarker,
    LeaderChange, LeaderEpoch, Offset, ProducerEpoch, ProducerId, SimpleRecord, Timestamp,
    TxnOutcome, Uuid, Voter,
};

use crate::hex;

fn parse(key: &str, value: &str) -> Result<ControlRecord, CorruptKind> {
    ControlRecord::parse(Some(&hex::bytes(key)), Some(&hex::bytes(value)))
}

#[test]
fn a_commit_marker_is_the_one_that_kafka_writes() {
    let settings =
        BatchSettings::end_txn(Offset::new(200), ProducerId::new(7), ProducerEpoch::new(3));
    let mut builder = BatchBuilder::new(settings.leader_epoch(LeaderEpoch::new(5)));
    let marker = EndTxnMarker::new(TxnOutcome::Commit, 9).into();
    builder.append_control(Some(Timestamp::new(1_700_000_001_000)), &marker).unwrap();
    let golden = hex::bytes(
        "00000000000000c80000004200000005029583ec800030000000000000018bcfe56be80000018bcfe56be8
         00000000000000070003ffffffff000000012000000008000000010c00000000000900",
    );
    assert_eq!(builder.finish().unwrap(), golden);
}

#[test]
fn an_unknown_type_is_passed_on_and_never_written() {
    for (key, type_id) in [("0000 0007", 7), ("0000 ffff", -1), ("0000 7fff ee", 32767)] {
        let record = parse(key, "").unwrap();
        assert_eq!(record, ControlRecord::parse(Some(&hex::bytes(key)), None).unwrap());
        assert_eq!(record.type_id(), type_id);
        let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)).control(true));
        let refused = builder.append_control(None, &record);
        assert!(
            matches!(refused, Err(BuildError::UnknownControl { type_id: t, .. }) if t == type_id)
        );
    }
}

#[test]
fn a_newer_version_is_read_as_the_one_we_know() {
    let marker = ControlRecord::EndTxn(EndTxnMarker::new(TxnOutcome::Abort, 9));
    assert_eq!(parse("0005 0000", "0007 00000009 aabb"), Ok(marker));
}

#[test]
fn a_negative_version_is_refused() {
    assert_eq!(parse("8000 0001", "0000 00000009"), Err(CorruptKind::ControlRecord));
    assert_eq!(parse("0000 0001", "ffff 00000009"), Err(CorruptKind::ControlRecord));
}

#[test]
fn a_short_key_or_value_is_refused() {
    assert_eq!(ControlRecord::parse(None, None), Err(CorruptKind::ControlRecord));
    assert_eq!(parse("000000", "0000 00000009"), Err(CorruptKind::ControlRecord));
    assert_eq!(parse("00000001", "0000 000000"), Err(CorruptKind::ControlRecord));
    let whole = hex::bytes("0000 00000002 02 00000001 00 02 00000001 00 00");
    let key = hex::bytes("00000002");
    ControlRecord::parse(Some(&key), Some(&whole)).unwrap();
    for len in 0..whole.len() {
        let cut = ControlRecord::parse(Some(&key), Some(&whole[..len]));
        assert_eq!(cut, Err(CorruptKind::ControlRecord), "{len}");
    }
}

#[test]
fn a_count_is_not_believed() {
    // Voters: 2^32 - 2 of them, in a few bytes.
    let endless = parse("00000006", "0000 ffffffff0f 00000001");
    assert_eq!(endless, Err(CorruptKind::ControlRecord));
    // A null array where there must be one.
    assert_eq!(parse("00000006", "0000 00 00"), Err(CorruptKind::ControlRecord));
}

#[test]
fn tagged_fields_are_stepped_over() {
    let record = parse("00000004", "0000 02 00 03 aabbcc 07 00").unwrap();
    assert!(matches!(record, ControlRecord::SnapshotFooter(footer) if footer.version == 0));
}

#[test]
fn the_second_version_of_a_leader_change_names_directories() {
    let mut change = LeaderChange::new(1, vec![Voter::new(1)], vec![]);
    change.version = 1;
    change.voters[0].voter_directory_id = Some(Uuid::from_bytes([7; 16]));
    let record = ControlRecord::LeaderChange(change);
    let mut value = Vec::new();
    record.write_value(&mut value);
    assert_eq!(ControlRecord::parse(Some(&record.key()), Some(&value)), Ok(record));
}

#[test]
fn control_records_stay_out_of_a_data_batch() {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    builder.append(&SimpleRecord::new()).unwrap();
    let marker = EndTxnMarker::new(TxnOutcome::Commit, 9).into();
    let refused = builder.append_control(None, &marker);
    assert!(matches!(refused, Err(BuildError::ControlMix { control_batch: false, .. })));
}
