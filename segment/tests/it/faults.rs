//! Calls that fail, fall short or are interrupted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_record_format::{Offset, ProducerId, Timestamp};
use alluvium_segment::{FilePool, Io, IoCall, IoHook, IoOp, IoVerdict, SegmentError, Suffix};
use alluvium_sparse_index::AbortedTxn;
use parking_lot::Mutex;

use crate::support::{Fixture, every_batch, moved, one, ranges, recover, three};

const LOG: &str = "00000000000000000000.log";

/// A decision on the calls of one test.
type Decide = Box<dyn FnMut(&IoCall<'_>) -> IoVerdict + Send>;

/// Asks a closure that can be changed while the test runs.
struct Shim(Mutex<Decide>);

impl Shim {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Box::new(|_| IoVerdict::Proceed))))
    }

    fn set(&self, decide: impl FnMut(&IoCall<'_>) -> IoVerdict + Send + 'static) {
        *self.0.lock() = Box::new(decide);
    }

    fn clear(&self) {
        self.set(|_| IoVerdict::Proceed);
    }

    fn fixture(self: &Arc<Self>) -> Fixture {
        Fixture::with_io(Io::with_hook(self.clone()))
    }
}

impl IoHook for Shim {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        (self.0.lock())(call)
    }
}

fn fail(kind: io::ErrorKind) -> IoVerdict {
    IoVerdict::Fail(kind.into())
}

/// FR-045: seven bytes a call, every third interrupted: the same files and answers.
#[test]
fn short_and_interrupted_transfers_change_nothing() {
    let shim = Shim::new();
    let mut calls = 0;
    shim.set(move |call| {
        calls += 1;
        match call {
            IoCall::Read { .. } | IoCall::Write { .. } if calls % 3 == 0 => {
                fail(io::ErrorKind::Interrupted)
            }
            _ => IoVerdict::Limit(7),
        }
    });
    let (shimmed, plain) = (shim.fixture(), Fixture::new());
    for fixture in [&shimmed, &plain] {
        let mut active = fixture.create(0, every_batch());
        active.append(&three()).unwrap();
        active.append(&moved(&one(), 9)).unwrap();
        let segment = active.seal().unwrap();
        assert_eq!(ranges(&segment), [(0, 2), (3, 5), (6, 8), (9, 9)]);
        let found = segment.find_by_timestamp(Timestamp::new(1007), Offset::new(0), 99).unwrap();
        assert_eq!(found.unwrap().offset, Offset::new(7));
        drop(segment);
        fixture.put("00000000000000000020.log", &[moved(&one(), 20), vec![0; 50]].concat());
        assert_eq!(recover(&fixture.open(20)).valid_bytes, 70);
    }
    assert_eq!(shimmed.names(), plain.names());
    for name in plain.names() {
        assert_eq!(shimmed.bytes(&name), plain.bytes(&name), "{name}");
    }
}

/// FR-045: a write that moves nothing is an error, not a loop.
#[test]
fn a_write_that_moves_nothing_is_an_error() {
    let shim = Shim::new();
    let fixture = shim.fixture();
    let mut active = fixture.create(0, every_batch());
    shim.set(|call| match call {
        IoCall::Write { .. } => IoVerdict::Limit(0),
        _ => IoVerdict::Proceed,
    });
    let error = active.append(&three()).unwrap_err();
    let SegmentError::Io { op: IoOp::Write, source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), io::ErrorKind::WriteZero);
}

/// Lets the write of `len` bytes stop after 50, once.
fn torn_write(len: usize) -> impl FnMut(&IoCall<'_>) -> IoVerdict {
    let mut torn = false;
    move |call| match call {
        IoCall::Write { bytes, .. } if bytes.len() == len => IoVerdict::Limit(50),
        IoCall::Write { bytes, .. } if bytes.len() == len - 50 && !torn => {
            torn = true;
            fail(io::ErrorKind::StorageFull)
        }
        _ => IoVerdict::Proceed,
    }
}

/// FR-046: the append fails after 50 of 118 bytes; nothing has moved, and it can be tried again.
#[test]
fn a_write_that_fails_half_way_is_cut_off_and_can_be_tried_again() {
    let shim = Shim::new();
    let fixture = shim.fixture();
    let mut active = fixture.create(0, every_batch());
    let batches: Vec<_> = three().chunks(118).map(<[u8]>::to_vec).collect();
    active.append(&batches[0]).unwrap();
    shim.set(torn_write(118));
    let error = active.append(&batches[1]).unwrap_err();
    assert!(matches!(error, SegmentError::Io { op: IoOp::Write, .. }), "{error:?}");
    assert_eq!(fixture.bytes(LOG).len(), 118);
    assert_eq!((active.segment().size_bytes(), active.next_offset().get()), (118, 3));
    assert_eq!(active.segment().offset_index().unwrap().len(), 0);
    assert_eq!(active.segment().max_timestamp().unwrap().unwrap().timestamp.get(), 1002);

    shim.clear();
    assert_eq!(active.append(&batches[1]).unwrap().get(), 118);
    active.append(&batches[2]).unwrap();
    let segment = active.seal().unwrap();
    assert_eq!(ranges(&segment), [(0, 2), (3, 5), (6, 8)]);
    assert_eq!(recover(&segment).next_offset, Offset::new(9));
}

/// FR-046: only if the cut fails too must the directory go offline.
#[test]
fn a_failed_write_whose_cut_fails_leaves_the_segment_in_doubt() {
    let shim = Shim::new();
    let fixture = shim.fixture();
    let mut active = fixture.create(0, every_batch());
    let batches: Vec<_> = three().chunks(118).map(<[u8]>::to_vec).collect();
    active.append(&batches[0]).unwrap();
    let mut torn = torn_write(118);
    shim.set(move |call| match call {
        IoCall::SetLen { .. } => fail(io::ErrorKind::Other),
        other => torn(other),
    });
    let error = active.append(&batches[1]).unwrap_err();
    let SegmentError::CutFailed { position, .. } = error else { panic!("{error:?}") };
    assert_eq!(position.get(), 118);
    shim.clear();
    assert!(matches!(active.append(&batches[1]), Err(SegmentError::InDoubt { .. })));
    assert_eq!(fixture.bytes(LOG).len(), 168);
    drop(active);
    // After the directory came back, recovery cuts what is torn.
    let segment = fixture.open(0);
    assert_eq!(recover(&segment).next_offset, Offset::new(3));
    assert_eq!(fixture.bytes(LOG).len(), 118);
}

/// FR-046: a preallocated file keeps its length when a write is undone.
#[test]
fn a_failed_write_into_a_preallocated_file_leaves_zeros() {
    let shim = Shim::new();
    let fixture = shim.fixture();
    let config = every_batch().preallocate_bytes(Some(4096));
    let mut active = fixture.create(0, config);
    shim.set(torn_write(118));
    active.append(&three()[..118]).unwrap_err();
    assert_eq!(fixture.bytes(LOG), vec![0; 4096]);
    active.append(&three()).unwrap();
    assert_eq!(fixture.bytes(LOG)[..354], three());
}

/// FR-076: a sync that failed once is never counted as a success later.
#[test]
fn after_a_failed_sync_nothing_is_taken_for_durable() {
    for failing in [LOG, "00000000000000000000.index", "00000000000000000000.timeindex"] {
        let shim = Shim::new();
        let fixture = shim.fixture();
        let mut active = fixture.create(0, every_batch());
        active.append(&three()).unwrap();
        shim.set(move |call| match call {
            IoCall::Sync { path, .. } if path.ends_with(failing) => fail(io::ErrorKind::Other),
            _ => IoVerdict::Proceed,
        });
        let error = active.segment().flush().unwrap_err();
        assert!(matches!(error, SegmentError::Io { op: IoOp::Sync, .. }), "{error:?}");
        shim.clear();
        assert!(matches!(active.segment().flush(), Err(SegmentError::InDoubt { .. })));
        let refused = active.append(&moved(&one(), 9));
        assert!(matches!(refused, Err(SegmentError::InDoubt { .. })));
    }
}

/// FR-077: the bytes, then the names; the names once per new file.
#[test]
fn a_flush_syncs_the_files_and_the_directory_once() {
    let shim = Shim::new();
    let fixture = shim.fixture();
    let synced: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
    let seen = synced.clone();
    shim.set(move |call| {
        if let IoCall::Sync { path, .. } | IoCall::SyncDir { path, .. } = call {
            seen.lock().push(path.to_path_buf());
        }
        IoVerdict::Proceed
    });
    let flush = |segment: &alluvium_segment::Segment| {
        segment.flush().unwrap();
        fixture.dir.sync_names().unwrap();
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        synced.lock().drain(..).map(|path| name(&path)).collect::<Vec<_>>()
    };
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let files = ["log", "index", "timeindex"].map(|end| format!("00000000000000000000.{end}"));
    let expected: Vec<_> = files.iter().cloned().chain(["t-0".to_owned()]).collect();
    assert_eq!(flush(active.segment()), expected);
    assert!(flush(active.segment()).is_empty(), "nothing was written since");
    active.append(&moved(&one(), 9)).unwrap();
    assert_eq!(flush(active.segment()), files, "no new name");
}

/// The index needs room before the log is written.
#[test]
fn without_room_for_an_index_entry_nothing_is_appended() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()[..118]).unwrap();
    // Somebody takes the index away: the next entry has no place.
    std::fs::create_dir(fixture.path("00000000000000000000.index")).unwrap();
    assert!(matches!(active.append(&three()[118..236]), Err(SegmentError::Index { .. })));
    assert_eq!(fixture.bytes(LOG).len(), 118);
    assert_eq!(active.next_offset(), Offset::new(3));
    std::fs::remove_dir(fixture.path("00000000000000000000.index")).unwrap();
    active.append(&three()[118..236]).unwrap();
    assert_eq!(active.next_offset(), Offset::new(6));
}

/// A descriptor with unsynced bytes is synced before it is closed for another.
#[test]
fn a_written_file_is_synced_before_the_pool_closes_it() {
    let shim = Shim::new();
    let synced: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
    let pool = FilePool::with_io(1, Io::with_hook(shim.clone()));
    let fixture = Fixture::with_pool(&pool);
    let mut first = fixture.create(0, every_batch());
    first.append(&three()).unwrap();
    let seen = synced.clone();
    shim.set(move |call| {
        if let IoCall::Sync { .. } = call {
            seen.lock().push(PathBuf::new());
        }
        IoVerdict::Proceed
    });
    let mut second = fixture.create(100, every_batch());
    second.append(&moved(&one(), 100)).unwrap();
    fixture.create(200, every_batch());
    assert!(pool.open_files() <= 1, "{}", pool.open_files());
    assert!(!synced.lock().is_empty());
    // It is opened again when it is needed.
    first.append(&moved(&one(), 9)).unwrap();
    assert_eq!(ranges(first.segment()).len(), 4);
}

/// A sync that fails while the pool closes a file is reported by the next append.
#[test]
fn a_sync_that_fails_in_the_pool_is_not_forgotten() {
    let shim = Shim::new();
    let pool = FilePool::with_io(1, Io::with_hook(shim.clone()));
    let fixture = Fixture::with_pool(&pool);
    let mut first = fixture.create(0, every_batch());
    first.append(&three()).unwrap();
    shim.set(|call| match call {
        IoCall::Sync { .. } => fail(io::ErrorKind::Other),
        _ => IoVerdict::Proceed,
    });
    let mut second = fixture.create(100, every_batch());
    second.append(&moved(&one(), 100)).unwrap();
    fixture.create(200, every_batch());
    shim.clear();
    assert!(matches!(first.append(&moved(&one(), 9)), Err(SegmentError::InDoubt { .. })));
    assert!(matches!(first.segment().flush(), Err(SegmentError::InDoubt { .. })));
}

#[test]
fn a_rename_that_fails_leaves_the_old_name_in_use() {
    let shim = Shim::new();
    let fixture = shim.fixture();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let segment = active.seal().unwrap();
    shim.set(|call| match call {
        IoCall::Rename { from, .. } if is_log(from) => fail(io::ErrorKind::PermissionDenied),
        _ => IoVerdict::Proceed,
    });
    segment.rename(Suffix::Deleted).unwrap_err();
    assert_eq!(ranges(&segment).len(), 3);
    shim.clear();
    segment.rename(Suffix::Deleted).unwrap();
    assert_eq!(ranges(&segment).len(), 3);
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// FR-085 (b): a transaction index that cannot be written leaves the log alone.
#[test]
fn a_failed_entry_of_an_aborted_transaction_is_not_there() {
    let shim = Shim::new();
    let fixture = shim.fixture();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let [first, last, stable] = [0, 5, 6].map(Offset::new);
    let txn = AbortedTxn::new(ProducerId::new(7), first, last, stable);
    shim.set(|call| match call {
        IoCall::Write { path, .. } if path.extension().is_some_and(|end| end == "txnindex") => {
            fail(io::ErrorKind::StorageFull)
        }
        _ => IoVerdict::Proceed,
    });
    active.segment().append_aborted(txn).unwrap_err();
    assert!(active.segment().aborted().unwrap().is_empty());
    active.append(&moved(&one(), 9)).unwrap();
    shim.clear();
    active.segment().append_aborted(txn).unwrap();
    assert_eq!(active.segment().aborted().unwrap(), [txn]);
    assert_eq!(fixture.bytes("00000000000000000000.txnindex").len(), 34);
}
