//! A pool that syncs a log to close it, beside those who use the log.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use alluvium_record_format::Offset;
use alluvium_segment::{
    ActiveSegment, FilePool, Io, IoCall, IoHook, IoVerdict, SegmentConfig, SegmentError,
};

use crate::support::{Fixture, every_batch, moved, one};

type PoolSync = Box<dyn Fn() -> IoVerdict + Send + Sync>;

/// Decides about the syncs that the pool makes, which name no file, and counts the others.
#[derive(Default)]
struct Beside {
    pool_sync: OnceLock<PoolSync>,
    other_syncs: AtomicUsize,
}

impl Beside {
    fn set(&self, pool_sync: impl Fn() -> IoVerdict + Send + Sync + 'static) {
        assert!(self.pool_sync.set(Box::new(pool_sync)).is_ok(), "set before");
    }

    fn other_syncs(&self) -> usize {
        self.other_syncs.load(Ordering::Acquire)
    }
}

impl IoHook for Beside {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        match (call, self.pool_sync.get()) {
            (IoCall::Sync { path, .. }, Some(pool_sync)) if path.as_os_str().is_empty() => {
                pool_sync()
            }
            (IoCall::Sync { .. }, _) => {
                self.other_syncs.fetch_add(1, Ordering::AcqRel);
                IoVerdict::Proceed
            }
            _ => IoVerdict::Proceed,
        }
    }
}

/// A pool of one file, a segment with unsynced bytes, and another one whose next append takes the
/// place of the first.
fn two_for_one_place(
    beside: &Arc<Beside>,
    config: SegmentConfig,
) -> (Fixture, ActiveSegment, impl FnOnce()) {
    let io = Io::with_hook(Arc::<Beside>::clone(beside));
    let fixture = Fixture::with_pool(&FilePool::with_io(1, io));
    let mut first = fixture.create(0, config);
    first.append(&one()).unwrap();
    let mut other = fixture.create(9, every_batch());
    let take_place = move || {
        other.append(&moved(&one(), 9)).unwrap();
    };
    (fixture, first, take_place)
}

/// Waits a while for something that may be kept from happening.
fn give_time_for(happened: impl Fn() -> bool) {
    (0..20_000).take_while(|_| !happened()).for_each(|_| thread::yield_now());
}

fn signal() -> (Mutex<Sender<()>>, Receiver<()>) {
    let (sender, receiver) = channel();
    (Mutex::new(sender), receiver)
}

/// The kernel tells one of the two of a failed write: a flush took what the pool was told of for
/// durable.
#[test]
fn a_flush_fails_where_the_sync_of_the_pool_beside_it_does() {
    let beside = Arc::new(Beside::default());
    let (_fixture, first, take_place) = two_for_one_place(&beside, every_batch());
    let ((begin, begun), flushed) = (signal(), Arc::new(AtomicBool::new(false)));
    let (hook, is_flushed) = (Arc::downgrade(&beside), Arc::clone(&flushed));
    beside.set(move || {
        begin.lock().unwrap().send(()).unwrap();
        let hook = hook.upgrade().unwrap();
        while hook.other_syncs() == 0 {
            thread::yield_now();
        }
        give_time_for(|| is_flushed.load(Ordering::Acquire));
        IoVerdict::Fail(io::Error::from(ErrorKind::Other))
    });
    thread::scope(|scope| {
        scope.spawn(take_place);
        begun.recv().unwrap();
        let result = first.segment().flush_log();
        flushed.store(true, Ordering::Release);
        assert!(matches!(result, Err(SegmentError::InDoubt { .. })), "{result:?}");
    });
}

/// The pool took the cut of a seal, made while its sync was under way, for durable.
#[test]
fn a_seal_beside_a_sync_of_the_pool_leaves_its_cut_to_the_next_flush() {
    let beside = Arc::new(Beside::default());
    let config = every_batch().preallocate_bytes(Some(1 << 16));
    let (_fixture, first, take_place) = two_for_one_place(&beside, config);
    let ((begin, begun), sealed) = (signal(), Arc::new(AtomicBool::new(false)));
    let is_sealed = Arc::clone(&sealed);
    beside.set(move || {
        begin.lock().unwrap().send(()).unwrap();
        give_time_for(|| is_sealed.load(Ordering::Acquire));
        IoVerdict::Proceed
    });
    thread::scope(|scope| {
        let other = scope.spawn(take_place);
        begun.recv().unwrap();
        let segment = first.seal().unwrap();
        sealed.store(true, Ordering::Release);
        other.join().unwrap();
        assert_eq!(segment.base_offset(), Offset::new(0));
        let before = beside.other_syncs();
        segment.flush_log().unwrap();
        assert_eq!(beside.other_syncs(), before + 1);
    });
}
