//! Who waits for a log to change, and what wakes them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Instant;

use alluvium_log_manager::Log;
use alluvium_record_format::Offset;
use alluvium_segment::IoCall;

use crate::batches::{NOW, batch, l3};
use crate::disk::{Disk, append, follow};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Whether `work` wakes a future that waits for the log, and a thread that waits, or is about to,
/// sees the change.
fn wakes<T>(log: &Log, work: impl FnOnce() -> T) -> bool {
    let seen = log.version();
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let mut changed = pin!(log.changed(seen));
    assert!(changed.as_mut().poll(&mut context).is_pending());
    thread::scope(|scope| {
        // If it waits by then, it ends only if it is woken: nobody says when it does. That a
        // waiting thread is woken is shown over all schedules, in `schedules::waiting`.
        let waiting = scope.spawn(|| log.wait_for_change(seen, None));
        work();
        assert!(waiting.join().unwrap());
    });
    let is_ready = matches!(changed.poll(&mut context), Poll::Ready(now) if now > seen);
    is_ready && count.0.load(Ordering::SeqCst) == 1
}

#[test]
fn appends_moves_of_the_watermark_and_the_start_truncations_and_the_close_wake_who_waits() {
    let disk = Disk::new();
    let log = disk.open_clean();
    assert!(wakes(&log, || append(&log, &batch(&[(None, NOW.get())]))));
    let follower = Disk::new();
    let followed = follower.open_clean();
    assert!(wakes(&followed, || follow(&followed, &l3()[0])));
    assert!(wakes(&log, || log.update_high_watermark(Offset::new(1)).unwrap()));
    append(&log, &batch(&[(None, NOW.get())]));
    assert!(wakes(&log, || log.increment_high_watermark(Offset::new(2)).unwrap()));
    // Where an open transaction goes with it, readers see further.
    assert!(wakes(&log, || log.increment_log_start_offset(Offset::new(1)).unwrap()));
    assert!(wakes(&log, || log.truncate_to(Offset::new(1)).unwrap()));
    assert!(wakes(&log, || log.truncate_fully_and_start_at(Offset::new(5), None).unwrap()));
    assert!(wakes(&log, || log.close().unwrap()));
}

#[test]
fn a_disk_that_fails_and_a_log_that_is_abandoned_wake_who_waits() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &batch(&[(None, NOW.get())]));
    disk.faults.fail_once(std::io::ErrorKind::Other, |call| matches!(call, IoCall::Sync { .. }));
    assert!(wakes(&log, || log.flush(false).unwrap_err()));
    let other = Disk::new();
    let log = other.open_clean();
    assert!(wakes(&log, || log.abandon()));
}

#[test]
fn nobody_is_woken_by_a_read_or_a_flush() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &batch(&[(None, NOW.get())]));
    let seen = log.version();
    log.flush(false).unwrap();
    log.read(Offset::new(0), 100, alluvium_log_manager::Isolation::LogEnd, true).unwrap();
    assert!(!log.wait_for_change(seen, Some(Instant::now())));
}
