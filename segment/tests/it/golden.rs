//! Segments that Kafka wrote, read, rebuilt and written again to the same bytes.

use std::fs;
use std::path::PathBuf;

use alluvium_record_format::{Entry, Offset, Position};
use alluvium_segment::{ActiveSegment, FilePool, PartitionDir, Segment, SegmentConfig};

use crate::support::{Fixture, base_at, birth, recover};

/// A golden segment: folder, base offset, `index.interval.bytes`.
const SEGMENTS: [(&str, i64, u32); 2] = [("time-roll", 341, 512), ("compacted", 0, 4096)];

const FILES: [&str; 3] = ["log", "index", "timeindex"];

fn golden(folder: &str, base: i64, extension: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/4.4.0");
    root.join(folder).join(format!("{base:020}.{extension}"))
}

/// Every batch of the log: first offset, last offset, bytes.
fn batches(segment: &Segment) -> Vec<(i64, i64, Vec<u8>)> {
    let mut walker = segment.walk(Position::new(0)).unwrap().verifying();
    let mut found = Vec::new();
    while let Some(entry) = walker.next_entry().unwrap() {
        let Entry::Batch(batch) = entry else { panic!("magic 2") };
        let header = batch.header();
        let bytes = batch.bytes().to_vec();
        found.push((header.base_offset().get(), header.last_offset().get(), bytes));
    }
    found
}

#[test]
fn every_offset_of_a_segment_of_kafka_is_found_without_touching_it() {
    for (folder, base, interval) in SEGMENTS {
        let log = golden(folder, base, "log");
        let dir = PartitionDir::read_only(log.parent().unwrap(), &FilePool::new(1));
        let config = SegmentConfig::new().index_interval_bytes(interval);
        let segment = Segment::open(&dir, Offset::new(base), config).unwrap();
        let batches = batches(&segment);
        let end = batches.last().unwrap().1 + 1;
        assert_eq!(segment.next_offset().unwrap(), Offset::new(end));
        for offset in base..end {
            let holder = batches.iter().find(|(_, last, _)| *last >= offset).unwrap();
            assert_eq!(base_at(&segment, offset), Some(holder.0), "{folder} {offset}");
        }
        assert_eq!(base_at(&segment, end), None);
    }
}

#[test]
fn recovery_makes_the_indexes_of_kafkas_recovery() {
    for (folder, base, interval) in SEGMENTS {
        let fixture = Fixture::new();
        let torn = [fs::read(golden(folder, base, "log")).unwrap(), vec![0; 100]].concat();
        fixture.put(&format!("{base:020}.log"), &torn);
        let config = SegmentConfig::new().index_interval_bytes(interval);
        let scan = recover(&fixture.open_with(base, config));
        assert_eq!(scan.truncated_bytes(), 100);
        for extension in FILES {
            let expected = fs::read(golden(folder, base, extension)).unwrap();
            let name = format!("{base:020}.{extension}");
            assert_eq!(fixture.bytes(&name), expected, "{folder}/{name}");
        }
    }
}

#[test]
fn appends_of_kafkas_batches_make_kafkas_files() {
    for (folder, base, interval) in SEGMENTS {
        let log = golden(folder, base, "log");
        let source = PartitionDir::read_only(log.parent().unwrap(), &FilePool::new(1));
        let config = SegmentConfig::new().index_interval_bytes(interval);
        let source = Segment::open(&source, Offset::new(base), config).unwrap();
        for batches_at_once in [1, 3, 1000] {
            let fixture = Fixture::new();
            let (dir, base_offset) = (&fixture.dir, Offset::new(base));
            let mut active = ActiveSegment::create(dir, base_offset, config, birth()).unwrap();
            for group in batches(&source).chunks(batches_at_once) {
                let bytes: Vec<_> = group.iter().flat_map(|(_, _, bytes)| bytes.clone()).collect();
                active.append(&bytes).unwrap();
            }
            active.seal().unwrap();
            for extension in FILES {
                let expected = fs::read(golden(folder, base, extension)).unwrap();
                let name = format!("{base:020}.{extension}");
                assert_eq!(fixture.bytes(&name), expected, "{folder}/{name}");
            }
        }
    }
}
