//! What makes names durable where others change and sync them at the same time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;

use alluvium_record_format::{Offset, ProducerId};
use alluvium_segment::replace::FileStep;
use alluvium_segment::{
    FileKind, Io, IoCall, IoHook, IoVerdict, PartitionDir, SegmentFileName, Suffix,
};
use alluvium_sparse_index::AbortedTxn;

use crate::support::{Fixture, every_batch, three};

type Watch = Box<dyn Fn(&IoCall<'_>) + Send + Sync>;

/// Sees all calls, and may make others.
#[derive(Default)]
struct Watched(OnceLock<Watch>);

impl Watched {
    fn fixture(self: &Arc<Self>) -> Fixture {
        Fixture::with_io(Io::with_hook(self.clone()))
    }

    fn set(&self, watch: impl Fn(&IoCall<'_>) + Send + Sync + 'static) {
        assert!(self.0.set(Box::new(watch)).is_ok(), "watched before");
    }
}

impl IoHook for Watched {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        if let Some(watch) = self.0.get() {
            watch(call);
        }
        IoVerdict::Proceed
    }
}

/// A flush beside retention took the name of its new segment for durable while the other one's sync
/// was still under way.
#[test]
fn a_sync_of_names_waits_for_the_one_that_is_under_way() {
    let watched = Arc::new(Watched::default());
    let fixture = watched.fixture();
    let active = fixture.create(0, every_batch());
    let ((begin, begun), (call, called)) = (channel(), channel());
    let called = Mutex::new(called);
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    watched.set(move |io_call| {
        if matches!(io_call, IoCall::SyncDir { .. }) {
            begin.send(()).unwrap();
            called.lock().unwrap().recv().unwrap();
            // Time for the other one to come back before it should.
            (0..1000).for_each(|_| thread::yield_now());
            over.store(true, Ordering::Release);
        }
    });
    thread::scope(|scope| {
        scope.spawn(|| fixture.dir.sync_names().unwrap());
        begun.recv().unwrap();
        call.send(()).unwrap();
        fixture.dir.sync_names().unwrap();
        assert!(is_over.load(Ordering::Acquire), "the name of {active:?} is not durable yet");
    });
}

/// Has the names synced just before each change of one, as a flush beside it may, and counts the
/// syncs that are made by then.
fn synced_before_each_change(dir: &Arc<PartitionDir>, watched: &Watched) -> Arc<AtomicUsize> {
    let (syncs, beside) = (Arc::new(AtomicUsize::new(0)), Arc::downgrade(dir));
    let count = Arc::clone(&syncs);
    watched.set(move |call| match call {
        IoCall::SyncDir { .. } => drop(count.fetch_add(1, Ordering::AcqRel)),
        IoCall::Rename { .. } | IoCall::Remove { .. } | IoCall::Open { create: true, .. } => {
            sync(&beside);
        }
        // The first entry makes the file.
        IoCall::Write { path, .. } if path.extension().is_some_and(|end| end == "txnindex") => {
            sync(&beside);
        }
        _ => {}
    });
    syncs
}

fn sync(dir: &Weak<PartitionDir>) {
    if let Some(dir) = dir.upgrade() {
        dir.sync_names().unwrap();
    }
}

/// Told of a change before it is made, a sync in between would count for it.
#[test]
fn a_change_that_a_sync_has_come_before_is_synced_by_the_next() {
    let watched = Arc::new(Watched::default());
    let fixture = watched.fixture();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    fixture.put("00000000000000000009.log.cleaned", b"");
    fixture.put("00000000000000000009.index.swap", b"");
    let syncs = synced_before_each_change(&fixture.dir, &watched);
    let is_synced_after = |what: &str, change: &dyn Fn()| {
        fixture.dir.sync_names().unwrap();
        change();
        let before = syncs.load(Ordering::Acquire);
        fixture.dir.sync_names().unwrap();
        assert_eq!(syncs.load(Ordering::Acquire), before + 1, "{what}");
    };
    let name = |kind, suffix| SegmentFileName::new(Offset::new(9), kind).with_suffix(suffix);
    is_synced_after("a removal", &|| {
        FileStep::Remove(name(FileKind::Log, Suffix::Cleaned)).run(&fixture.dir).unwrap();
    });
    is_synced_after("a rename", &|| {
        FileStep::Restore(name(FileKind::OffsetIndex, Suffix::Swap)).run(&fixture.dir).unwrap();
    });
    is_synced_after("a transaction index", &|| {
        let txn =
            AbortedTxn::new(ProducerId::new(1), Offset::new(0), Offset::new(1), Offset::new(1));
        active.segment().append_aborted(txn).unwrap();
    });
    drop(active.seal().unwrap());
    std::fs::remove_file(fixture.path("00000000000000000000.timeindex")).unwrap();
    is_synced_after("an index that is made again", &|| {
        fixture.open(0).rebuild_indexes().unwrap();
    });
}
