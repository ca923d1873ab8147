//! Snapshots of a log: taken, loaded, dropped.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use alluvium_record_format::{Offset, ProducerId, Timestamp};
use alluvium_recovery::{
    AppendOrigin, AppendRequest, Prepared, ProducerState, ProducerStateConfig, SnapshotDir,
    SnapshotStore,
};
use alluvium_segment::{Io, IoCall, IoHook, IoVerdict, PartitionDir};

use crate::batches::TestBatch;
use crate::directory::Disk;

const NOW: Timestamp = Timestamp::new(2000);

fn append(state: &mut ProducerState, batch: TestBatch) {
    let batch = batch.facts();
    let request = AppendRequest::new(AppendOrigin::Replication);
    let Ok(Prepared::Append(prepared)) = state.prepare(&request, [batch]) else {
        panic!("replicated batches are taken");
    };
    assert!(state.apply(prepared).is_empty());
    state.set_map_end_offset(Offset::new(batch.last_offset.get() + 1));
}

fn offsets(snapshots: &SnapshotDir) -> Vec<i64> {
    snapshots.offsets().iter().map(|offset| offset.get()).collect()
}

#[test]
fn a_snapshot_is_taken_only_when_the_state_has_moved_on() {
    let disk = Disk::new();
    let mut snapshots = SnapshotDir::open(disk.dir()).unwrap();
    let mut state = ProducerState::default();
    assert_eq!(state.take_snapshot(&mut snapshots, true).unwrap(), None);
    append(&mut state, TestBatch::new(0, 3).producer(9, 0, 0));
    assert_eq!(state.take_snapshot(&mut snapshots, false).unwrap(), Some(Offset::new(3)));
    assert_eq!(state.take_snapshot(&mut snapshots, false).unwrap(), None);
    assert_eq!(offsets(&snapshots), [3]);
    assert_eq!(offsets(&SnapshotDir::open(disk.dir()).unwrap()), [3]);
}

/// A load is a function of the directory: so are the bytes that it writes.
#[test]
fn a_snapshot_of_the_same_producers_has_the_same_bytes() {
    let disk = Disk::new();
    let mut snapshots = SnapshotDir::open(disk.dir()).unwrap();
    let mut written = Vec::new();
    for _ in 0..8 {
        let mut state = ProducerState::default();
        for (offset, id) in (0..).zip([900, 7, 41, 3, 100_000, 12]) {
            append(&mut state, TestBatch::new(offset, 1).producer(id, 0, 0));
        }
        state.take_snapshot(&mut snapshots, false).unwrap();
        written.push(disk.files()["00000000000000000006.snapshot"].clone());
    }
    assert!(written.windows(2).all(|pair| pair[0] == pair[1]));
    let read = snapshots.read(Offset::new(6)).unwrap();
    let ids: Vec<_> = read.iter().map(|entry| entry.producer_id.get()).collect();
    assert_eq!(ids, [3, 7, 12, 41, 900, 100_000]);
}

#[test]
fn a_restart_knows_the_last_batch_and_the_open_transaction() {
    let disk = Disk::new();
    let mut snapshots = SnapshotDir::open(disk.dir()).unwrap();
    let mut state = ProducerState::default();
    append(&mut state, TestBatch::new(0, 1).producer(9, 0, 0));
    append(&mut state, TestBatch::new(1, 2).producer(9, 0, 1).transactional());
    state.take_snapshot(&mut snapshots, true).unwrap();

    let mut restarted = ProducerState::default();
    let (start, end) = (Offset::new(0), Offset::new(3));
    restarted.truncate_and_reload(&mut snapshots, start, end, NOW).unwrap();
    let entry = restarted.producer(ProducerId::new(9)).unwrap();
    assert_eq!(entry.batches.as_slice().len(), 1);
    assert_eq!(entry.last_batch().unwrap().first_offset(), Offset::new(1));
    assert_eq!(restarted.first_unstable().unwrap().first_offset, Offset::new(1));
    assert_eq!(restarted.map_end_offset(), end);
}

/// FR-083.
#[test]
fn a_damaged_snapshot_is_deleted_and_the_one_before_is_taken() {
    for damage in [&b""[..], &[0, 1, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0], &[0, 0x63]] {
        let disk = Disk::new();
        let mut snapshots = SnapshotDir::open(disk.dir()).unwrap();
        let mut state = ProducerState::default();
        append(&mut state, TestBatch::new(0, 3).producer(9, 0, 0));
        state.take_snapshot(&mut snapshots, true).unwrap();
        std::fs::write(snapshots.path(Offset::new(9)), damage).unwrap();
        std::fs::write(snapshots.path(Offset::new(500)), damage).unwrap();

        let mut snapshots = SnapshotDir::open(disk.dir()).unwrap();
        let mut state = ProducerState::default();
        let (start, end) = (Offset::new(0), Offset::new(9));
        state.truncate_and_reload(&mut snapshots, start, end, NOW).unwrap();
        assert_eq!(offsets(&snapshots), [3]);
        assert_eq!(disk.names().len(), 1);
        assert_eq!(state.map_end_offset(), Offset::new(3));
        assert_eq!(state.snapshot_offset(), Offset::new(3));
        assert_eq!(state.producers().len(), 1);
    }
}

#[test]
fn without_a_snapshot_the_state_begins_at_the_log_start() {
    let disk = Disk::new();
    let mut snapshots = SnapshotDir::open(disk.dir()).unwrap();
    let mut state = ProducerState::default();
    append(&mut state, TestBatch::new(0, 3).producer(9, 0, 0));
    state.truncate_and_reload(&mut snapshots, Offset::new(2), Offset::new(9), NOW).unwrap();
    assert_eq!(state.map_end_offset(), Offset::new(2));
    assert_eq!(state.producers().len(), 0);
}

#[test]
fn a_state_that_is_at_the_log_end_already_is_kept() {
    let disk = Disk::new();
    let mut snapshots = SnapshotDir::open(disk.dir()).unwrap();
    let mut state = ProducerState::default();
    append(&mut state, TestBatch::new(0, 3).producer(9, 0, 0));
    state.truncate_and_reload(&mut snapshots, Offset::new(1), Offset::new(3), NOW).unwrap();
    assert_eq!(state.producers().len(), 1);
    assert_eq!(state.snapshot_offset(), Offset::new(1));
}

/// FR-082: expiry is judged by the time of the records, so old records lose their producer.
#[test]
fn a_restart_forgets_producers_whose_records_are_older_than_the_expiry() {
    let disk = Disk::new();
    let mut snapshots = SnapshotDir::open(disk.dir()).unwrap();
    let mut state = ProducerState::default();
    append(&mut state, TestBatch::new(0, 1).producer(9, 0, 0).timestamp(1000));
    append(&mut state, TestBatch::new(1, 1).producer(8, 0, 0).timestamp(86_400_000));
    append(&mut state, TestBatch::new(2, 1).producer(7, 0, 0).timestamp(1000).transactional());
    state.take_snapshot(&mut snapshots, true).unwrap();
    let mut restarted = ProducerState::new(ProducerStateConfig::new());
    let now = Timestamp::new(86_401_000);
    let (start, end) = (Offset::new(0), Offset::new(3));
    restarted.truncate_and_reload(&mut snapshots, start, end, now).unwrap();
    let known: BTreeSet<_> = restarted.producers().map(|p| p.producer_id.get()).collect();
    assert_eq!(known, BTreeSet::from([7, 8]));
}

#[test]
fn strays_go_except_the_newest_one_at_or_above_the_last_segment() {
    let remaining = |snapshots: &[i64], bases: &[i64]| {
        let disk = Disk::new();
        for offset in snapshots {
            disk.write(&format!("{offset:020}.snapshot"), b"");
        }
        disk.write("12.snapshot", b"");
        let mut store = SnapshotDir::open(disk.dir()).unwrap();
        let bases = bases.iter().copied().map(Offset::new).collect();
        ProducerState::remove_stray_snapshots(&mut store, &bases).unwrap();
        assert!(disk.has("12.snapshot"), "not a name of ours");
        offsets(&store)
    };
    assert_eq!(remaining(&[3, 4, 6, 8, 12], &[0, 3, 6]), [3, 6, 12]);
    assert_eq!(remaining(&[3, 4], &[0, 3, 6]), [3]);
    assert_eq!(remaining(&[2, 4], &[]), [4]);
    assert_eq!(remaining(&[], &[0]), [0; 0]);
}

#[test]
fn a_snapshot_goes_with_its_segment() {
    let disk = Disk::new();
    let mut snapshots = SnapshotDir::open(disk.dir()).unwrap();
    snapshots.write(Offset::new(3), b"any", false).unwrap();
    let deleted = snapshots.mark_deleted(Offset::new(3)).unwrap().unwrap();
    assert_eq!(deleted.to_string(), "00000000000000000003.snapshot.deleted");
    assert!(disk.has("00000000000000000003.snapshot.deleted"));
    assert_eq!(snapshots.mark_deleted(Offset::new(3)).unwrap(), None);
    assert_eq!(offsets(&snapshots), [0; 0]);
}

/// Has the names of a directory synced just before one is made or changed, as a flush beside it
/// may.
#[derive(Default)]
struct SyncBefore {
    dir: OnceLock<Weak<PartitionDir>>,
    syncs: AtomicUsize,
}

impl IoHook for SyncBefore {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        match call {
            IoCall::SyncDir { .. } => drop(self.syncs.fetch_add(1, Ordering::AcqRel)),
            IoCall::Rename { .. } | IoCall::Remove { .. } | IoCall::Open { create: true, .. } => {
                if let Some(dir) = self.dir.get().and_then(Weak::upgrade) {
                    dir.sync_names().unwrap();
                }
            }
            _ => {}
        }
        IoVerdict::Proceed
    }
}

/// Told of the name before the change, the directory took a sync in between for it.
#[test]
fn the_name_of_a_snapshot_that_a_sync_has_come_before_is_synced_by_the_next() {
    let hook = Arc::new(SyncBefore::default());
    let disk = Disk::with_io(Io::with_hook(Arc::clone(&hook) as Arc<dyn IoHook>));
    hook.dir.set(Arc::downgrade(disk.dir())).unwrap();
    let mut snapshots = SnapshotDir::open(disk.dir()).unwrap();
    let mut is_synced_after = |what: &str, change: &dyn Fn(&mut SnapshotDir)| {
        change(&mut snapshots);
        let before = hook.syncs.load(Ordering::Acquire);
        disk.dir().sync_names().unwrap();
        assert_eq!(hook.syncs.load(Ordering::Acquire), before + 1, "{what}");
    };
    let offset = Offset::new(3);
    is_synced_after("written", &|snapshots| snapshots.write(offset, b"bytes", true).unwrap());
    is_synced_after("removed", &|snapshots| snapshots.remove(offset, "a test").unwrap());
    is_synced_after("written again", &|snapshots| snapshots.write(offset, b"", true).unwrap());
    is_synced_after("marked", &|snapshots| {
        assert!(snapshots.mark_deleted(offset).unwrap().is_some());
    });
}
