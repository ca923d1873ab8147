//! Wakes those who wait for a log to change: blocking, or as a `Future` of no runtime.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex};

/// Counts the changes of a log: take one before a read, and wait for a later one after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogVersion(u64);

/// Counts changes and wakes those who wait for the next. Without waiters, a change costs two
/// atomic operations.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    version: AtomicU64,
    waiter_count: AtomicUsize,
    wakers: Mutex<Wakers>,
    changed: Condvar,
}

/// Of the futures that wait, each under a number of its own. What is taken out is dropped after the
/// lock is let go of: a waker may be the last owner of a task, and with it of other futures here.
#[derive(Debug, Default)]
struct Wakers {
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

impl Notifier {
    /// The latest change.
    pub(crate) fn version(&self) -> LogVersion {
        LogVersion(self.version.load(Ordering::SeqCst))
    }

    /// Counts a change and wakes everybody.
    pub(crate) fn notify(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        // A waiter counts itself first and looks at the version then, so one of the two sees the
        // other.
        if self.waiter_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let wakers = {
            let mut wakers = self.wakers.lock();
            self.changed.notify_all();
            std::mem::take(&mut wakers.waiting)
        };
        for waker in wakers.into_values() {
            waker.wake();
        }
    }

    /// Waits for a change after `seen`, until `deadline`; returns whether there was one.
    pub(crate) fn wait(&self, seen: LogVersion, deadline: Option<Instant>) -> bool {
        if self.version() > seen {
            return true;
        }
        self.waiter_count.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.wakers.lock();
        let mut in_time = true;
        while in_time && self.version() <= seen {
            match deadline {
                None => self.changed.wait(&mut guard),
                Some(deadline) => {
                    in_time = !self.changed.wait_until(&mut guard, deadline).timed_out();
                }
            }
        }
        drop(guard);
        self.waiter_count.fetch_sub(1, Ordering::SeqCst);
        self.version() > seen
    }
}

/// Is ready when the log has changed. Made by [`Log::changed`](crate::Log::changed).
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct Changed {
    notifier: Arc<Notifier>,
    seen: LogVersion,
    /// Its number among the wakers, once it has waited.
    number: Option<u64>,
    counted: bool,
}

impl Changed {
    pub(crate) const fn new(notifier: Arc<Notifier>, seen: LogVersion) -> Self {
        Self { notifier, seen, number: None, counted: false }
    }
}

impl Future for Changed {
    type Output = LogVersion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LogVersion> {
        if !self.counted {
            self.notifier.waiter_count.fetch_add(1, Ordering::SeqCst);
            self.counted = true;
        }
        let waker = context.waker().clone();
        let mut wakers = self.notifier.wakers.lock();
        let version = self.notifier.version();
        if version > self.seen {
            return Poll::Ready(version);
        }
        let number = self.number.unwrap_or(wakers.next);
        wakers.next = wakers.next.max(number + 1);
        let before = wakers.waiting.insert(number, waker);
        drop(wakers);
        drop(before);
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        if self.counted {
            self.notifier.waiter_count.fetch_sub(1, Ordering::SeqCst);
        }
        if let Some(number) = self.number {
            let waker = self.notifier.wakers.lock().waiting.remove(&number);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;
    use std::thread;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_change_wakes_threads_and_futures() {
        let notifier = Arc::new(Notifier::default());
        let seen = notifier.version();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let mut future = Changed::new(Arc::clone(&notifier), seen);
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
        let thread = thread::spawn({
            let notifier = Arc::clone(&notifier);
            move || notifier.wait(seen, None)
        });
        notifier.notify();
        assert!(thread.join().unwrap());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(Pin::new(&mut future).poll(&mut context).is_ready());
    }

    fn poll(future: &mut Changed, count: &Arc<Count>) -> Poll<LogVersion> {
        let waker = Waker::from(Arc::clone(count));
        Pin::new(future).poll(&mut Context::from_waker(&waker))
    }

    #[test]
    fn a_future_that_is_given_up_leaves_nothing_and_takes_nobody_along() {
        let notifier = Arc::new(Notifier::default());
        let seen = notifier.version();
        let wait = |count: &Arc<Count>| {
            let mut future = Changed::new(Arc::clone(&notifier), seen);
            assert!(poll(&mut future, count).is_pending());
            future
        };
        let count = Arc::new(Count::default());
        let mut kept = wait(&count);
        for _ in 0..1000 {
            let other = Arc::new(Count::default());
            drop((wait(&other), wait(&count)));
            assert_eq!(Arc::strong_count(&other), 1);
        }
        assert!(poll(&mut kept, &count).is_pending(), "a second look adds nothing");
        assert_eq!(notifier.wakers.lock().waiting.len(), 1);
        notifier.notify();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        drop(kept);
        assert_eq!(notifier.wakers.lock().waiting.len(), 0);
        assert_eq!(notifier.waiter_count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_future_that_another_task_polls_wakes_that_one_alone() {
        let notifier = Arc::new(Notifier::default());
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut future = Changed::new(Arc::clone(&notifier), notifier.version());
        assert!(poll(&mut future, &first).is_pending());
        assert!(poll(&mut future, &second).is_pending());
        assert_eq!(Arc::strong_count(&first), 1);
        notifier.notify();
        assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (0, 1));
    }

    /// A task that waits for two logs, and whose last owner is the waker that it left.
    #[test]
    fn a_waker_that_owns_another_future_is_dropped_without_the_lock() {
        struct Owner(#[expect(dead_code, reason = "dropped with it")] Changed);
        impl Wake for Owner {
            fn wake(self: Arc<Self>) {}
        }
        let notifier = Arc::new(Notifier::default());
        let wait = || Changed::new(Arc::clone(&notifier), notifier.version());
        let mut owned = wait();
        assert!(poll(&mut owned, &Arc::default()).is_pending());
        let waker = Waker::from(Arc::new(Owner(owned)));
        let mut future = wait();
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        drop(future);
        assert_eq!(notifier.wakers.lock().waiting.len(), 0);
    }

    #[test]
    fn a_change_before_the_wait_is_not_missed() {
        let notifier = Notifier::default();
        let seen = notifier.version();
        notifier.notify();
        assert!(notifier.wait(seen, None));
    }

    #[test]
    fn a_wait_ends_at_its_deadline() {
        let notifier = Notifier::default();
        assert!(!notifier.wait(notifier.version(), Some(Instant::now())));
        assert_eq!(notifier.waiter_count.load(Ordering::SeqCst), 0);
    }
}
