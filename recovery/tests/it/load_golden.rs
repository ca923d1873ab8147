//! Partitions that a killed broker left, next to what Kafka's log made of them.

use std::collections::BTreeSet;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_recovery::{LoadConfig, ProducerSnapshot, ScanConfig, SnapshotEntry};
use alluvium_segment::SegmentConfig;

use crate::directory::Disk;

fn producers(snapshot: &[u8]) -> BTreeSet<String> {
    let snapshot = ProducerSnapshot::parse(snapshot).unwrap();
    snapshot.verify_crc().unwrap();
    snapshot.entries().map(SnapshotEntry::to_entry).map(|entry| format!("{entry:?}")).collect()
}

fn recover(partition: &str, interval: u32, recovery_point: i64, scan: ScanConfig) {
    let (disk, theirs) = (Disk::new(), Disk::new());
    disk.copy_golden(&format!("unclean/{partition}"));
    theirs.copy_golden(&format!("recovered/{partition}"));
    let segment = SegmentConfig::new().index_interval_bytes(interval).max_index_bytes(4096);
    let config = LoadConfig::new(Timestamp::new(1_795_980_000_000))
        .segment(segment)
        .scan(scan)
        .recovery_point(Offset::new(recovery_point));
    disk.load(&config);
    let (ours, theirs) = (disk.files(), theirs.files());
    for (name, expected) in &theirs {
        let found = ours.get(name).unwrap_or_else(|| panic!("{partition} lacks {name}"));
        if name.ends_with(".snapshot") {
            assert_eq!(producers(found), producers(expected), "{partition}/{name}");
        } else {
            assert_eq!(found, expected, "{partition}/{name}");
        }
    }
    let names: BTreeSet<_> = ours.keys().collect();
    assert_eq!(names, theirs.keys().collect());
}

#[test]
fn a_killed_log_ends_as_kafka_leaves_it() {
    for scan in [ScanConfig::new(), ScanConfig::new().threads(2).chunk_bytes(3000)] {
        recover("plain-0", 1024, 240, scan);
        recover("transactions-0", 300, 97, scan);
    }
}
