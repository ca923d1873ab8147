//! What is in memory ahead of a consumer and behind it.

use std::fs::File;
use std::path::Path;

use alluvium_broker::ReadAheadMode;
use alluvium_segment::page_cache::{drop_pages, is_resident, residency};

use crate::client::{TestBroker, batch};

const MIB: u64 = 1 << 20;

/// What is in memory after half of a log was fetched in order, of which nothing was before.
struct InMemory {
    bytes_behind: u64,
    /// Whether all of what comes half a MiB ahead is there, or on its way.
    is_ahead: bool,
}

/// `None` where the file system keeps all pages in memory, as tmpfs does.
fn fetch_cold(mode: ReadAheadMode) -> Option<InMemory> {
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let broker = TestBroker::start_with(disk.path(), |settings| settings.read_ahead = mode);
    let mut client = broker.client();
    client.create("t", 1);
    let value = "v".repeat(16_000);
    let records = batch(&[&*value; 60]);
    for _ in 0..16 {
        assert_eq!(client.produce("t", records.clone()).error_code, 0);
    }
    let log = cold_log(disk.path())?;
    let mut position = 0;
    for index in 0..8 {
        let read = client.fetch("t", index * 60);
        assert_eq!(read.error_code, 0);
        assert!(read.records.unwrap().len() >= records.len());
        position += u64::try_from(records.len()).unwrap();
    }
    let behind = residency(&log, 0..position - MIB).unwrap();
    let ahead = position + MIB / 2..position + MIB;
    Some(InMemory {
        bytes_behind: behind.resident_count() * behind.page_bytes,
        is_ahead: is_resident(&log, ahead).unwrap(),
    })
}

/// The only log, written to disk and dropped from memory.
fn cold_log(data: &Path) -> Option<File> {
    let log = File::open(data.join("t-0/00000000000000000000.log")).unwrap();
    log.sync_all().unwrap();
    let len = log.metadata().unwrap().len();
    drop_pages(&log, &(0..len)).unwrap();
    let left = residency(&log, 0..len).unwrap().resident_count();
    (left == 0).then_some(log)
}

/// Whether the machine shows what the broker asks for. A kernel that reads as far ahead by itself
/// leaves nothing to ask for, and nothing that was brought in for one consumer alone.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn is_told_apart() -> bool {
    match fetch_cold(ReadAheadMode::None) {
        None => eprintln!("skipped: the file system of the build directory lets no page go"),
        Some(found) if found.is_ahead => {
            eprintln!("skipped: the kernel reads a MiB ahead by itself (read_ahead_kb)");
        }
        Some(_) => return true,
    }
    false
}

#[test]
fn what_a_consumer_fetches_next_is_in_memory_if_it_goes_in_order() {
    if is_told_apart() {
        assert!(fetch_cold(ReadAheadMode::Ahead).unwrap().is_ahead);
    }
}

#[test]
fn pages_go_behind_a_consumer_if_that_is_asked_for() {
    if !is_told_apart() {
        return;
    }
    let kept = fetch_cold(ReadAheadMode::Ahead).unwrap().bytes_behind;
    let left = fetch_cold(ReadAheadMode::DropBehind).unwrap();
    assert!(left.is_ahead);
    let left = left.bytes_behind;
    assert!(left + 2 * MIB <= kept, "{left} of {kept} bytes stay behind");
}
