//! Runs jobs on several threads and hands the results back in order.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How often `idle` is called while results are waited for.
const TICK: Duration = Duration::from_millis(100);

/// Threads to use when the caller names none.
pub(crate) fn default_jobs() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Runs `work` for each of `items` on `jobs` threads; `each` gets the results in the order of
/// the items, on the calling thread. `idle` is called now and then.
///
/// # Errors
///
/// The first error of `each`; items that were not begun by then are left out.
pub(crate) fn run<T: Sync, R: Send, E>(
    jobs: NonZeroUsize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut each: impl FnMut(usize, R) -> Result<(), E>,
    mut idle: impl FnMut(),
) -> Result<(), E> {
    if jobs == NonZeroUsize::MIN {
        // Nobody to wait for: on a busy machine, waking a second thread can take longer than
        // the work.
        for (index, item) in items.iter().enumerate() {
            each(index, work(item))?;
            idle();
        }
        return Ok(());
    }
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(items.len()) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                // Work is handed out in order; each slot is taken once whatever the ordering.
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(index)
                    && sender.send((index, work(item))).is_ok()
                {}
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut due = 0;
        loop {
            match receiver.recv_timeout(TICK) {
                Ok((index, result)) => {
                    early.insert(index, result);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            }
            while let Some(result) = early.remove(&due) {
                if let Err(error) = each(due, result) {
                    next.store(items.len(), Ordering::Relaxed);
                    return Err(error);
                }
                due += 1;
            }
            idle();
        }
    })
}
