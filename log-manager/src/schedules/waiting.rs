//! Nobody who waits is forgotten.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use alluvium_segment::DirLock;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use super::explore;
use super::fixture::{Fixture, append};
use crate::Changed;
use crate::notify::Notifier;

#[test]
fn a_change_wakes_every_thread_that_waits_for_it() {
    explore(|| {
        let notifier = Arc::new(Notifier::default());
        let seen = notifier.version();
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let notifier = Arc::clone(&notifier);
                thread::spawn(move || assert!(notifier.wait(seen, None)))
            })
            .collect();
        notifier.notify();
        // A waiter that missed it would wait for ever: the checker calls that a deadlock.
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_future_that_found_nothing_is_woken_by_the_change_after() {
    explore(|| {
        let notifier = Arc::new(Notifier::default());
        let seen = notifier.version();
        let wakes = Arc::new(Wakes::default());
        let other = thread::spawn({
            let notifier = Arc::clone(&notifier);
            move || notifier.notify()
        });
        // One that gives up meanwhile takes no wake with it.
        let mut given_up = Changed::new(Arc::clone(&notifier), seen);
        let mut future = Changed::new(Arc::clone(&notifier), seen);
        let waker = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        let _either = Pin::new(&mut given_up).poll(&mut Context::from_waker(Waker::noop()));
        let first = Pin::new(&mut future).poll(&mut context);
        drop(given_up);
        other.join().unwrap();
        if first.is_pending() {
            assert_eq!(wakes.0.load(Ordering::SeqCst), 1, "nobody woke it");
        }
        assert!(
            matches!(Pin::new(&mut future).poll(&mut context), Poll::Ready(found) if found > seen)
        );
    });
}

#[test]
fn a_close_is_over_only_when_the_work_beside_it_is() {
    explore(|| {
        let Fixture { log, tasks, root } = Fixture::new();
        append(&log, b"one");
        log.roll().unwrap();
        let work = thread::spawn({
            let tasks = Arc::clone(&tasks);
            move || tasks.run_due()
        });
        log.close().unwrap();
        assert_eq!(log.recovery_point(), log.log_end_offset());
        drop(log);
        // Work that still ran would hold the log, and with it the lock of the directory.
        drop(DirLock::acquire(root.path()).unwrap());
        let _ran = work.join().unwrap();
        assert_eq!(tasks.run_due(), 0, "what comes after a close does nothing");
    });
}
