//! Any bytes never panic; what was written is read back.

use alluvium_record_format::{
    LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp, Uuid,
};
use alluvium_recovery::{
    CleanShutdown, EpochEntry, MetaProperties, OffsetCheckpoint, PartitionMetadata, ProducerEntry,
    ProducerSnapshot, Properties, SnapshotEntry, TopicPartition, encode_epochs, encode_snapshot,
    parse_epochs,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes that look like the files: their words, separators and numbers, in any order.
fn file_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"0\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b" ".to_vec()),
        Just(b"version: ".to_vec()),
        Just(b"version=".to_vec()),
        Just(b"{\"brokerEpoch\":".to_vec()),
        Just(b"\\u00".to_vec()),
        Just(b"\\\n".to_vec()),
        Just(vec![0, 1]),
        any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        vec(any::<u8>(), 0..60),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

prop_compose! {
    fn producer()(
        ids in (0..=i64::MAX, any::<i16>(), proptest::option::of(0..=i32::MAX)),
        times in (any::<i64>(), proptest::option::of(0..=i64::MAX)),
        batch in proptest::option::of((-1..=i32::MAX, 0..=i64::MAX, any::<i32>())),
    ) -> ProducerEntry {
        let mut entry = ProducerEntry::new(ProducerId::new(ids.0), ProducerEpoch::new(ids.1));
        entry.coordinator_epoch = ids.2;
        entry.last_timestamp = Timestamp::new(times.0);
        entry.current_txn_first_offset = times.1.map(Offset::new);
        entry.batches.extend(batch.map(|(sequence, offset, delta)| {
            let mut batch = alluvium_recovery::BatchMetadata::default();
            batch.last_sequence = Sequence::new(sequence);
            batch.last_offset = Offset::new(offset);
            batch.offset_delta = delta;
            batch.timestamp = entry.last_timestamp;
            batch
        }));
        entry
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in file_like()) {
        let _ = OffsetCheckpoint::parse(&bytes);
        let _ = parse_epochs(&bytes);
        let _ = PartitionMetadata::parse(&bytes);
        let _ = MetaProperties::parse(&bytes);
        let _ = Properties::parse(&bytes);
        let _ = CleanShutdown::parse(&bytes);
        if let Ok(snapshot) = ProducerSnapshot::parse(&bytes) {
            let _ = snapshot.verify_crc();
            for entry in snapshot.entries().map(SnapshotEntry::to_entry) {
                let _ = entry.last_batch().map(|b| (b.first_sequence(), b.first_offset()));
            }
        }
    }

    #[test]
    fn a_checkpoint_is_read_as_written(
        entries in vec(("[a-zA-Z0-9._-]{1,40}", 0..=i32::MAX, any::<i64>()), 0..20),
    ) {
        let checkpoint: OffsetCheckpoint = entries
            .into_iter()
            .map(|(topic, partition, at)| (TopicPartition::new(topic, partition), Offset::new(at)))
            .collect();
        prop_assert_eq!(OffsetCheckpoint::parse(checkpoint.to_text().as_bytes()), Ok(checkpoint));
    }

    #[test]
    fn epochs_are_read_as_written(entries in vec((0..=i32::MAX, 0..=i64::MAX), 0..20)) {
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(epoch, at)| EpochEntry::new(LeaderEpoch::new(epoch), Offset::new(at)))
            .collect();
        prop_assert_eq!(parse_epochs(encode_epochs(&entries).as_bytes()), Ok(entries));
    }

    #[test]
    fn a_snapshot_is_read_as_written(entries in vec(producer(), 0..20)) {
        let bytes = encode_snapshot(&entries);
        let snapshot = ProducerSnapshot::parse(&bytes).unwrap();
        snapshot.verify_crc().unwrap();
        let read: Vec<_> = snapshot.entries().map(SnapshotEntry::to_entry).collect();
        prop_assert_eq!(read, entries);
    }

    #[test]
    fn properties_are_read_as_written(entries in vec(("\\PC{1,12}|[ =:#!\\\\\t\u{7f}]{1,4}", "\\PC{0,12}|[ =:#!\\\\\n]{0,4}"), 0..8)) {
        let mut properties = Properties::new();
        for (key, value) in &entries {
            properties.set(key, value);
        }
        prop_assert_eq!(Properties::parse(properties.to_text().as_bytes()), Ok(properties));
    }

    #[test]
    fn an_id_is_read_as_written(bytes in any::<[u8; 16]>()) {
        let id = Uuid::from_bytes(bytes);
        prop_assert_eq!(Uuid::parse(&id.to_string()), Some(id));
    }
}
