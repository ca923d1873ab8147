//! The threads that clean.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::job::Worker;
use super::{Shared, metrics};

/// The threads that clean.
pub(super) struct Crew {
    shared: Arc<Shared>,
    plan: Arc<Plan>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Plan {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that should be there, numbered from 1; `None` before the start and after the stop.
    wanted: Option<usize>,
    /// The numbers of those that are there. One that is to end leaves under the lock under which it
    /// finds that out: who wants it back later knows that it must start another.
    alive: BTreeSet<usize>,
    /// Counts the calls that wake all who sleep.
    woken: u64,
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("state", &*self.plan.state.lock()).finish_non_exhaustive()
    }
}

impl Crew {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, plan: Arc::default(), threads: Mutex::default() }
    }

    pub(super) fn is_started(&self) -> bool {
        self.plan.state.lock().wanted.is_some()
    }

    /// Lets so many threads work. Those that are too many end after the log they are at.
    pub(super) fn resize(&self, wanted: usize) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let missing: Vec<usize> = {
            let mut state = self.plan.state.lock();
            state.wanted = Some(wanted);
            (1..=wanted).filter(|number| !state.alive.contains(number)).collect()
        };
        // Where nobody cleans, the log manager runs retention.
        self.shared.gate.set_attached(wanted > 0);
        self.wake();
        threads.retain(|thread| !thread.is_finished());
        for number in missing {
            threads.push(self.spawn(number)?);
        }
        Ok(())
    }

    pub(super) fn stop(&self) {
        let mut threads = self.threads.lock();
        self.plan.state.lock().wanted = None;
        self.wake();
        while threads.iter().any(|thread| !thread.is_finished()) {
            // A log may have been taken just before the call.
            self.shared.gate.abort_all();
            let mut state = self.plan.state.lock();
            if !state.alive.is_empty() {
                self.plan.changed.wait_for(&mut state, Duration::from_millis(1));
            }
        }
        for thread in threads.drain(..) {
            // A panic has reported itself already.
            let _ = thread.join();
        }
        self.shared.gate.abort_all();
    }

    /// Lets threads that sleep look again.
    pub(super) fn wake(&self) {
        self.plan.state.lock().woken += 1;
        self.plan.changed.notify_all();
    }

    /// Threads that should be there and are not.
    pub(super) fn dead(&self) -> usize {
        let state = self.plan.state.lock();
        state.wanted.map_or(0, |wanted| wanted.saturating_sub(state.alive.len()))
    }

    fn spawn(&self, number: usize) -> io::Result<JoinHandle<()>> {
        let (shared, plan) = (Arc::clone(&self.shared), Arc::clone(&self.plan));
        let name = format!("log-cleaner-{number}");
        plan.state.lock().alive.insert(number);
        let spawned = thread::Builder::new().name(name).spawn(move || plan.work(&shared, number));
        if spawned.is_err() {
            self.plan.state.lock().alive.remove(&number);
        }
        spawned
    }
}

impl Plan {
    fn work(&self, shared: &Shared, number: usize) {
        let mut worker = Worker::new(number);
        while let Some(seen) = self.turn(number) {
            // What panics outside of a log's own work ends neither the thread nor the others.
            let round = catch_unwind(AssertUnwindSafe(|| shared.round(&mut worker)));
            if round.is_ok_and(|round| !round.is_idle()) {
                continue;
            }
            self.sleep(seen, Duration::from_millis(shared.config.read().backoff_ms));
        }
        self.changed.notify_all();
    }

    /// How often this thread was woken so far, if it goes on. Otherwise it has left.
    fn turn(&self, number: usize) -> Option<u64> {
        let mut state = self.state.lock();
        let wanted = state.wanted.unwrap_or(0);
        metrics::dead(wanted.saturating_sub(state.alive.len()));
        if number > wanted {
            state.alive.remove(&number);
            return None;
        }
        Some(state.woken)
    }

    fn sleep(&self, seen: u64, time: Duration) {
        let until = Instant::now().checked_add(time);
        let mut state = self.state.lock();
        while state.woken == seen {
            let Some(until) = until else {
                self.changed.wait(&mut state);
                continue;
            };
            if self.changed.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }
}
