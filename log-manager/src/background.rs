//! Work that a log leaves to later: flushes after a roll, files to delete, checkpoints.
//!
//! A log never waits for such work and does it outside its lock. Who runs it is the caller's
//! choice: [`Inline`] at once, [`TaskQueue`] by explicit ticks, [`Scheduler`] on threads.

mod queue;
mod scheduler;

use std::fmt;
use std::sync::{Arc, LazyLock};

pub use queue::TaskQueue;
pub use scheduler::Scheduler;

/// A piece of work.
pub struct Task {
    name: &'static str,
    work: Box<dyn FnOnce() + Send>,
}

impl Task {
    /// Work under a name that says what it does.
    #[must_use]
    pub fn new(name: &'static str, work: impl FnOnce() + Send + 'static) -> Self {
        Self { name, work: Box::new(work) }
    }

    /// What the work does.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Does it.
    pub fn run(self) {
        (self.work)();
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Takes work from logs.
pub trait Background: fmt::Debug + Send + Sync {
    /// Takes `task`, to be run once, `delay_ms` milliseconds from now or later.
    fn after(&self, delay_ms: u64, task: Task);
}

/// One thread for all logs that were given nobody else; no thread, no waiting.
pub(crate) fn of_process() -> Arc<dyn Background> {
    static SCHEDULER: LazyLock<Arc<dyn Background>> = LazyLock::new(|| match Scheduler::start(1) {
        Ok(scheduler) => Arc::new(scheduler),
        Err(error) => {
            tracing::warn!(%error, "no thread for work in the background: it runs at once");
            Arc::new(Inline)
        }
    });
    Arc::clone(&SCHEDULER)
}

/// Runs all work at once on the caller's thread, whatever its delay.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Inline;

impl Background for Inline {
    fn after(&self, _delay_ms: u64, task: Task) {
        task.run();
    }
}
