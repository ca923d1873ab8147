//! Which of a log's work in the background runs now. A task holds the log and with it the lock of
//! its directory: a close waits for those that run and lets no other begin.

use std::sync::Arc;

use crate::sync::{Condvar, Mutex};

/// The tasks of one log.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    is_closed: bool,
}

/// A task that runs; it ends with this.
#[derive(Debug)]
pub(super) struct Running(Arc<InFlight>);

impl InFlight {
    /// A task begins, unless the log is closed.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Running> {
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        state.running += 1;
        Some(Running(Arc::clone(self)))
    }

    /// No task begins any more.
    pub(super) fn refuse(&self) {
        self.state.lock().is_closed = true;
    }

    /// No task begins any more, and those that ran are over. Not for a task of the log itself.
    pub(super) fn refuse_and_wait(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        while state.running > 0 {
            self.idle.wait(&mut state);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
        self.0.idle.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::InFlight;

    #[test]
    fn a_close_waits_for_what_runs_and_lets_nothing_begin() {
        let in_flight = Arc::new(InFlight::default());
        let running = in_flight.begin().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let task = thread::spawn({
            let is_over = Arc::clone(&is_over);
            let in_flight = Arc::clone(&in_flight);
            move || {
                // Until the close has begun to wait, nothing is over.
                while in_flight.begin().is_some() {
                    thread::yield_now();
                }
                is_over.store(true, Ordering::Release);
                drop(running);
            }
        });
        in_flight.refuse_and_wait();
        assert!(is_over.load(Ordering::Acquire));
        assert!(in_flight.begin().is_none());
        task.join().unwrap();
    }
}
