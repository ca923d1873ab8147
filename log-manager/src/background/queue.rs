//! Work that waits for explicit ticks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Background, Task};
use crate::Clock;
use crate::sync::Mutex;

/// Keeps work until it is asked for: for tests, and for brokers with a loop of their own.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use alluvium_log_manager::{Background, ManualClock, Task, TaskQueue};
/// let clock = Arc::new(ManualClock::default());
/// let queue = TaskQueue::new(clock.clone());
/// queue.after(60_000, Task::new("delete files", || {}));
///
/// assert_eq!(queue.run_due(), 0);
/// clock.advance_ms(60_000);
/// assert_eq!(queue.run_due(), 1);
/// ```
#[derive(Debug)]
pub struct TaskQueue {
    clock: Arc<dyn Clock>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By due time, then by order of arrival.
    tasks: BTreeMap<(i64, u64), Task>,
    next_number: u64,
}

impl TaskQueue {
    /// An empty queue whose delays are measured by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, waiting: Mutex::default() }
    }

    /// Runs what is due, work that comes up meanwhile included, and returns how much it was.
    pub fn run_due(&self) -> usize {
        let now = self.clock.now().get();
        let mut count = 0;
        while let Some(task) = self.take_due(now) {
            task.run();
            count += 1;
        }
        count
    }

    /// How much work waits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.lock().tasks.len()
    }

    /// Whether no work waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take_due(&self, now: i64) -> Option<Task> {
        let mut waiting = self.waiting.lock();
        let first = waiting.tasks.first_entry().filter(|task| task.key().0 <= now)?;
        Some(first.remove())
    }
}

impl Background for TaskQueue {
    fn after(&self, delay_ms: u64, task: Task) {
        let delay = i64::try_from(delay_ms).unwrap_or(i64::MAX);
        let due = self.clock.now().get().saturating_add(delay);
        let mut waiting = self.waiting.lock();
        let number = waiting.next_number;
        waiting.next_number += 1;
        waiting.tasks.insert((due, number), task);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::ManualClock;

    #[test]
    fn work_runs_in_order_of_due_time_then_of_arrival() {
        let clock = Arc::new(ManualClock::default());
        let queue = TaskQueue::new(clock.clone());
        let ran = Arc::new(Mutex::new(Vec::new()));
        for (delay, number) in [(5, 0), (3, 1), (5, 2), (9, 3)] {
            let ran = Arc::clone(&ran);
            queue.after(delay, Task::new("note", move || ran.lock().push(number)));
        }
        clock.advance_ms(5);
        assert_eq!(queue.run_due(), 3);
        assert_eq!(*ran.lock(), [1, 0, 2]);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn work_that_comes_up_meanwhile_runs_in_the_same_tick() {
        let queue = Arc::new(TaskQueue::new(Arc::new(ManualClock::default())));
        let ran = Arc::new(AtomicUsize::new(0));
        let (again, count) = (Arc::clone(&queue), Arc::clone(&ran));
        queue.after(
            0,
            Task::new("first", move || {
                again.after(
                    0,
                    Task::new("second", move || {
                        count.fetch_add(1, Ordering::Relaxed);
                    }),
                );
            }),
        );
        assert_eq!(queue.run_due(), 2);
        assert_eq!(ran.load(Ordering::Relaxed), 1);
    }
}
