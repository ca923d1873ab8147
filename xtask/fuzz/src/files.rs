//! Parsers of small files: what is read is written and read again as the same.

use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_recovery::{
    CleanShutdown, LeaderEpochCache, MetaProperties, OffsetCheckpoint, PartitionMetadata,
    ProducerSnapshot, Properties, encode_epochs, encode_snapshot, parse_epochs,
};

/// A producer snapshot.
pub fn snapshot(data: &[u8]) {
    let Ok(snapshot) = ProducerSnapshot::parse(data) else { return };
    let _sound = snapshot.verify_crc().is_ok();
    let entries: Vec<_> = snapshot.entries().map(|entry| entry.to_entry()).collect();
    let written = encode_snapshot(&entries);
    let again = ProducerSnapshot::parse(&written).unwrap();
    again.verify_crc().unwrap();
    let back: Vec<_> = again.entries().map(|entry| entry.to_entry()).collect();
    assert_eq!(back, entries);
}

/// A checkpoint of offsets.
pub fn checkpoint(data: &[u8]) {
    let Ok(checkpoint) = OffsetCheckpoint::parse(data) else { return };
    let again = OffsetCheckpoint::parse(checkpoint.to_text().as_bytes()).unwrap();
    assert!(again.iter().eq(checkpoint.iter()));
}

/// A file of leader epochs, and the cache made of it.
pub fn epochs(data: &[u8]) {
    let Ok(entries) = parse_epochs(data) else { return };
    assert_eq!(parse_epochs(encode_epochs(&entries).as_bytes()).unwrap(), entries);
    let mut cache = LeaderEpochCache::new(&entries);
    let rising = cache
        .entries()
        .windows(2)
        .all(|pair| pair[0].epoch < pair[1].epoch && pair[0].start_offset <= pair[1].start_offset);
    assert!(rising, "epochs and offsets rise: {:?}", cache.entries());
    for entry in &entries {
        let _answers = (cache.epoch_for_offset(entry.start_offset), cache.previous(entry.epoch));
        let _answer = cache.end_offset_for(entry.epoch, Offset::MAX);
    }
    cache.truncate_from_end(Offset::new(5));
    assert!(cache.entries().iter().all(|entry| entry.start_offset < Offset::new(5)));
    cache.truncate_from_start(Offset::new(3));
    cache.assign(LeaderEpoch::new(7), Offset::new(9));
}

/// `partition.metadata`, `meta.properties` and the marker of a clean stop.
pub fn metadata(data: &[u8]) {
    if let Ok(metadata) = PartitionMetadata::parse(data) {
        assert_eq!(PartitionMetadata::parse(metadata.to_text().as_bytes()).unwrap(), metadata);
    }
    if let Ok(meta) = MetaProperties::parse(data) {
        assert_eq!(MetaProperties::parse(meta.to_text().as_bytes()).unwrap(), meta);
    }
    if let Ok(properties) = Properties::parse(data) {
        let again = Properties::parse(properties.to_text().as_bytes()).unwrap();
        assert!(again.iter().eq(properties.iter()), "{properties:?} {again:?}");
    }
    let marker = CleanShutdown::parse(data);
    assert_eq!(CleanShutdown::parse(marker.to_json().as_bytes()), marker);
}
