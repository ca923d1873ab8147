//! A log on a disk in memory, and batches that say who wrote them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use alluvium_record_format::{
    BatchBuilder, BatchSettings, Entries, Entry, LeaderEpoch, Offset, Position, SimpleRecord,
    Timestamp,
};
use alluvium_segment::{DirLock, FilePool};
use tempfile::TempDir;

use crate::{
    Appended, Durability, Isolation, LeaderRequest, Log, LogConfig, LogError, ManualClock,
    TaskQueue,
};

/// The time in all tests.
const NOW: Timestamp = Timestamp::new(1_760_000_000_000);

/// A log, its directory, and its work in the background.
pub(super) struct Fixture {
    pub(super) log: Log,
    pub(super) tasks: Arc<TaskQueue>,
    pub(super) root: TempDir,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(Durability::PageCache)
    }

    pub(super) fn with(durability: Durability) -> Self {
        let root = in_memory().unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let tasks = Arc::new(TaskQueue::new(Arc::<ManualClock>::clone(&clock)));
        let config = LogConfig::builder()
            .segment_index_bytes(1024)
            .index_interval_bytes(1)
            .retention_ms(None)
            .file_delete_delay_ms(0)
            .build();
        let log = Log::options()
            .config(config.unwrap())
            .clock(clock)
            .background(Arc::<TaskQueue>::clone(&tasks))
            .lock(DirLock::acquire(root.path()).unwrap())
            .pool(FilePool::new(16))
            .durability(durability)
            .clean(true)
            .open(root.path().join("orders-0"));
        Self { log: log.unwrap(), tasks, root }
    }
}

/// A directory that no disk stands behind, where there is one.
fn in_memory() -> io::Result<TempDir> {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() }
}

/// Appends one record whose value is `value`.
pub(super) fn append(log: &Log, value: &[u8]) -> Appended {
    let request = LeaderRequest::new(LeaderEpoch::new(0));
    log.append_as_leader(&mut batch(Offset::new(0), value), request).unwrap()
}

/// One record whose value is `value`, at this offset.
pub(super) fn batch(base: Offset, value: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchSettings::new(base));
    builder.append(&SimpleRecord::new().value(value).timestamp(NOW)).unwrap();
    builder.finish().unwrap().to_vec()
}

/// The records of one read: offset and value. Only whole batches with a right checksum.
pub(super) fn read(
    log: &Log,
    start: Offset,
    isolation: Isolation,
) -> Result<Vec<(Offset, Vec<u8>)>, LogError> {
    let fetched = log.read(start, 1 << 20, isolation, true)?;
    let mut bytes = Vec::new();
    if let Some(slice) = &fetched.slice {
        slice.read_to(&mut bytes).unwrap();
    }
    let mut found = Vec::new();
    for entry in Entries::new(&bytes, Position::new(0)).map_while(Result::ok) {
        let Entry::Batch(batch) = entry else { panic!("an old format") };
        batch.verify_crc().unwrap();
        for record in batch.records().unwrap() {
            let record = record.unwrap();
            found.push((record.offset(), record.value().unwrap_or_default().to_vec()));
        }
    }
    Ok(found)
}
