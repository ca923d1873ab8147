//! Wakes those who wait for a log to change: blocking, or as a `Future` of no runtime.

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
    wakers: Mutex<Vec<Waker>>,
    changed: Condvar,
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
            std::mem::take(&mut *wakers)
        };
        for waker in wakers {
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
    counted: bool,
}

impl Changed {
    pub(crate) const fn new(notifier: Arc<Notifier>, seen: LogVersion) -> Self {
        Self { notifier, seen, counted: false }
    }
}

impl Future for Changed {
    type Output = LogVersion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LogVersion> {
        if !self.counted {
            self.notifier.waiter_count.fetch_add(1, Ordering::SeqCst);
            self.counted = true;
        }
        let mut wakers = self.notifier.wakers.lock();
        let version = self.notifier.version();
        if version > self.seen {
            return Poll::Ready(version);
        }
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        if self.counted {
            self.notifier.waiter_count.fetch_sub(1, Ordering::SeqCst);
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
