//! Work on a thread of its own.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::{Background, Task};

/// Runs work on threads of its own when it is due, measured by the machine's steady clock.
///
/// Dropping it waits for work that runs, and drops work that waits.
#[derive(Debug)]
pub struct Scheduler {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Latest due first, so that the next stands last.
    tasks: Vec<(Instant, Task)>,
    stopped: bool,
}

impl Scheduler {
    /// Starts `thread_count` threads, at least one.
    ///
    /// # Errors
    ///
    /// The operating system has no thread to give.
    pub fn start(thread_count: usize) -> std::io::Result<Self> {
        let mut scheduler = Self { shared: Arc::default(), threads: Vec::new() };
        for number in 0..thread_count.max(1) {
            let shared = Arc::clone(&scheduler.shared);
            let name = format!("log-background-{number}");
            let thread = thread::Builder::new().name(name).spawn(move || shared.run())?;
            scheduler.threads.push(thread);
        }
        Ok(scheduler)
    }
}

impl Background for Scheduler {
    fn after(&self, delay_ms: u64, task: Task) {
        let now = Instant::now();
        // A delay beyond what the clock can hold is for ever: the task would never run.
        let Some(due) = now.checked_add(Duration::from_millis(delay_ms)) else { return };
        let mut waiting = self.shared.waiting.lock();
        let place = waiting.tasks.partition_point(|(other, _)| *other > due);
        waiting.tasks.insert(place, (due, task));
        self.shared.changed.notify_one();
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.waiting.lock().stopped = true;
        self.shared.changed.notify_all();
        let own = thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != own) {
            // A task that panicked has reported so already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        while let Some(task) = self.next() {
            task.run();
        }
    }

    /// Waits for the next task that is due; `None` after the stop.
    fn next(&self) -> Option<Task> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.stopped {
                return None;
            }
            match waiting.tasks.last() {
                None => self.changed.wait(&mut waiting),
                Some((due, _)) if *due <= Instant::now() => {
                    return waiting.tasks.pop().map(|(_, task)| task);
                }
                Some((due, _)) => {
                    let due = *due;
                    self.changed.wait_until(&mut waiting, due);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_runs_on_another_thread() {
        let scheduler = Scheduler::start(2).unwrap();
        let (send, receive) = mpsc::channel();
        let late = send.clone();
        scheduler.after(3_600_000, Task::new("late", move || late.send(None).unwrap()));
        scheduler.after(
            0,
            Task::new("now", move || {
                send.send(Some(thread::current().id())).unwrap();
            }),
        );
        assert_ne!(receive.recv().unwrap(), Some(thread::current().id()));
        drop(scheduler);
        assert!(receive.try_recv().is_err());
    }
}
