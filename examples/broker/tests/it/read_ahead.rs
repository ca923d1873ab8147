//! What is in memory ahead of a consumer and behind it.

use std::fs::{self, File};
use std::path::Path;

use alluvium_broker::ReadAheadMode;
use alluvium_segment::page_cache::{drop_pages, is_resident, residency};

use crate::client::{TestBroker, batch};

const MIB: u64 = 1 << 20;

/// Fetches half of a log in order, of which nothing is in memory. Returns how many bytes are in memory
/// behind the consumer, and whether all of what comes half a MiB ahead of it is, or on its way there.
fn fetch_cold(mode: ReadAheadMode) -> (u64, bool) {
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let broker = TestBroker::start_with(disk.path(), |settings| settings.read_ahead = mode);
    let mut client = broker.client();
    client.create("t", 1);
    let value = "v".repeat(16_000);
    let records = batch(&[&*value; 60]);
    for _ in 0..16 {
        assert_eq!(client.produce("t", records.clone()).error_code, 0);
    }
    let log = cold_log(disk.path());
    let mut position = 0;
    for index in 0..8 {
        let read = client.fetch("t", index * 60);
        assert_eq!(read.error_code, 0);
        assert!(read.records.unwrap().len() >= records.len());
        position += u64::try_from(records.len()).unwrap();
    }
    let found = residency(&log, 0..position - MIB).unwrap();
    let ahead = position + MIB / 2..position + MIB;
    (found.resident_count() * found.page_bytes, is_resident(&log, ahead).unwrap())
}

/// The only log, written to disk and dropped from memory.
fn cold_log(data: &Path) -> File {
    let log = File::open(data.join("t-0/00000000000000000000.log")).unwrap();
    log.sync_all().unwrap();
    let len = fs::metadata(data.join("t-0/00000000000000000000.log")).unwrap().len();
    drop_pages(&log, &(0..len)).unwrap();
    log
}

#[test]
fn what_a_consumer_fetches_next_is_in_memory_if_it_goes_in_order() {
    let (_behind, ahead) = fetch_cold(ReadAheadMode::Ahead);
    assert!(ahead);
    let (_behind, ahead) = fetch_cold(ReadAheadMode::None);
    assert!(!ahead, "without being asked for");
}

#[test]
fn pages_go_behind_a_consumer_if_that_is_asked_for() {
    let (kept, _ahead) = fetch_cold(ReadAheadMode::Ahead);
    let (left, ahead) = fetch_cold(ReadAheadMode::DropBehind);
    assert!(ahead);
    assert!(left + 2 * MIB <= kept, "{left} of {kept} bytes stay behind");
}
