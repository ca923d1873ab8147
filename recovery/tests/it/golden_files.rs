//! Small files written by Kafka 4.4.0 are read, and written back to the same bytes.

use alluvium_record_format::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use alluvium_recovery::{
    CleanShutdown, EpochEntry, MetaProperties, MetaVersion, OffsetCheckpoint, PartitionMetadata,
    ProducerEntry, ProducerSnapshot, SnapshotEntry, TopicPartition, encode_epochs, encode_snapshot,
    parse_epochs,
};

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../golden/4.4.0/files/", $name))
    };
}

#[test]
fn the_recovery_points_of_a_broker_are_read() {
    let bytes = golden!("recovery-point-offset-checkpoint");
    let checkpoint = OffsetCheckpoint::parse(bytes).unwrap();
    assert_eq!(checkpoint.len(), 20);
    let offset = checkpoint.offset(&TopicPartition::new("codec-zstd", 0));
    assert_eq!(offset, Some(Offset::new(1500)));
    let mut theirs: Vec<_> = std::str::from_utf8(bytes).unwrap().lines().collect();
    let ours = checkpoint.to_text();
    let mut ours: Vec<_> = ours.lines().collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    assert_eq!(ours, theirs);
}

#[test]
fn the_epochs_of_a_partition_come_back_byte_for_byte() {
    let bytes = golden!("leader-epoch-checkpoint");
    let epochs = parse_epochs(bytes).unwrap();
    let entry = |epoch, start| EpochEntry::new(LeaderEpoch::new(epoch), Offset::new(start));
    assert_eq!(epochs, [entry(0, 0), entry(2, 500)]);
    assert_eq!(encode_epochs(&epochs).as_bytes(), bytes);
}

#[test]
fn the_topic_id_of_a_partition_comes_back_byte_for_byte() {
    let bytes = golden!("partition.metadata");
    let metadata = PartitionMetadata::parse(bytes).unwrap();
    assert_eq!(metadata.topic_id.to_string(), "0lWl9MJORwOvimct6ZfcPQ");
    assert_eq!(metadata.to_text().as_bytes(), bytes);
}

#[test]
fn the_clean_shutdown_marker_comes_back_byte_for_byte() {
    let bytes = golden!(".kafka_cleanshutdown");
    let marker = CleanShutdown::parse(bytes);
    assert_eq!(marker.broker_epoch, Some(18));
    assert_eq!(marker.to_json().as_bytes(), bytes);
}

#[test]
fn the_meta_properties_of_a_node_are_read_and_written() {
    let meta = MetaProperties::parse(golden!("meta.properties")).unwrap();
    assert_eq!(meta.version, MetaVersion::V1);
    assert_eq!(meta.cluster_id.as_deref(), Some("vvXGZVxTQt2lTrDCCRjX9w"));
    assert_eq!(meta.node_id, Some(1));
    assert_eq!(meta.directory_id.unwrap().to_string(), "FRPqdyyRPToW48Ud1I2vIQ");
    assert_eq!(MetaProperties::parse(meta.to_text().as_bytes()).unwrap(), meta);
}

#[test]
fn a_snapshot_of_a_broker_comes_back_byte_for_byte() {
    let bytes = golden!("00000000000000000752.snapshot");
    let snapshot = ProducerSnapshot::parse(bytes).unwrap();
    snapshot.verify_crc().unwrap();
    let entries: Vec<_> = snapshot.entries().map(SnapshotEntry::to_entry).collect();
    assert_eq!(encode_snapshot(&entries), bytes);

    let transactional = &entries[0];
    assert_eq!(transactional.producer_id, ProducerId::new(9));
    assert_eq!(transactional.producer_epoch, ProducerEpoch::new(53));
    assert_eq!(transactional.coordinator_epoch, Some(2));
    assert_eq!(transactional.last_batch(), None);
    let batch = entries[3].last_batch().unwrap();
    assert_eq!(
        (batch.first_sequence(), batch.last_sequence),
        (Sequence::new(0), Sequence::new(19))
    );
    assert_eq!(batch.first_offset(), Offset::new(480));
    assert_eq!(entries[3].coordinator_epoch, None);
}

/// The vector of the format page, written by Kafka's own class.
#[test]
fn an_entry_with_an_open_transaction_and_no_batch_is_encoded_as_by_kafka() {
    let mut entry = ProducerEntry::new(ProducerId::new(7), ProducerEpoch::new(3));
    entry.last_timestamp = Timestamp::new(1_700_000_000_005);
    entry.coordinator_epoch = Some(9);
    entry.current_txn_first_offset = Some(Offset::new(100));
    let expected = "00014ab003350000000100000000000000070003ffffffffffffffffffffffff00000000\
                    0000018bcfe56805000000090000000000000064";
    let bytes = encode_snapshot([&entry]);
    let expected: Vec<u8> = (0..expected.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&expected[i..i + 2], 16).unwrap())
        .collect();
    assert_eq!(bytes, expected);
    assert_eq!(ProducerSnapshot::parse(&bytes).unwrap().entries().len(), 1);
}
