//! Keeps cleanings off logs that are about to be cut, moved or deleted.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use alluvium_log_manager::CleaningGate;
use alluvium_recovery::TopicPartition;
use parking_lot::{Condvar, Mutex};

/// Which logs are being cleaned, and which must not be: what a
/// [`LogManager`](alluvium_log_manager::LogManager) and a [`LogCleaner`](super::LogCleaner) share.
///
/// Made first, given to both.
///
/// Source: `LogCleanerManager` in Kafka.
pub struct CleanerGate {
    states: Mutex<HashMap<TopicPartition, State>>,
    changed: Condvar,
    attached: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// A cleaning, or the retention of a compacted log, is under way.
    busy: bool,
    /// It is asked to end.
    abort: bool,
    /// How often the log is kept from being cleaned.
    pauses: usize,
}

impl CleanerGate {
    /// A gate for one log manager and one cleaner.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            states: Mutex::default(),
            changed: Condvar::new(),
            attached: AtomicBool::new(false),
        })
    }

    /// Whether a cleaning of this log may not begin.
    #[must_use]
    pub fn is_paused(&self, partition: &TopicPartition) -> bool {
        self.states.lock().get(partition).is_some_and(|state| state.pauses > 0)
    }

    /// The logs that are worked on.
    #[must_use]
    pub fn in_progress(&self) -> Vec<TopicPartition> {
        let states = self.states.lock();
        states.iter().filter(|(_, state)| state.busy).map(|(name, _)| name.clone()).collect()
    }

    /// Says whether a cleaner is at work, which runs the retention of compacted logs as well.
    pub(super) fn set_attached(&self, yes: bool) {
        self.attached.store(yes, Ordering::Release);
    }

    /// Begins to work on a log, unless somebody does or it is paused.
    pub(super) fn begin<'a>(&'a self, partition: &'a TopicPartition) -> Option<Turn<'a>> {
        let mut states = self.states.lock();
        let state = states.entry(partition.clone()).or_default();
        if state.busy || state.pauses > 0 {
            return None;
        }
        state.busy = true;
        Some(Turn { gate: self, partition })
    }

    /// Whether nobody works on a log and it is not paused.
    pub(super) fn is_free(&self, partition: &TopicPartition) -> bool {
        self.states.lock().get(partition).is_none_or(|state| !state.busy && state.pauses == 0)
    }

    /// Asks all that is under way to end.
    pub(super) fn abort_all(&self) {
        for state in self.states.lock().values_mut() {
            state.abort |= state.busy;
        }
        self.changed.notify_all();
    }

    fn pause_one(&self, partition: &TopicPartition, abort: bool) {
        let mut states = self.states.lock();
        let state = states.entry(partition.clone()).or_default();
        state.pauses += 1;
        state.abort |= abort && state.busy;
        self.changed.notify_all();
        while abort && states.get(partition).is_some_and(|state| state.busy) {
            self.changed.wait(&mut states);
        }
    }
}

impl CleaningGate for CleanerGate {
    fn pause(&self, partition: &TopicPartition) {
        self.pause_one(partition, false);
    }

    fn abort_and_pause(&self, partition: &TopicPartition) {
        self.pause_one(partition, true);
    }

    fn resume(&self, partition: &TopicPartition) {
        let mut states = self.states.lock();
        if let Some(state) = states.get_mut(partition) {
            state.pauses = state.pauses.saturating_sub(1);
            if state.pauses == 0 && !state.busy {
                states.remove(partition);
            }
        }
    }

    fn runs_retention(&self) -> bool {
        self.attached.load(Ordering::Acquire)
    }
}

impl fmt::Debug for CleanerGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CleanerGate").field("states", &*self.states.lock()).finish_non_exhaustive()
    }
}

/// Work on a log; it ends with this value.
#[derive(Debug)]
#[must_use]
pub(super) struct Turn<'a> {
    gate: &'a CleanerGate,
    partition: &'a TopicPartition,
}

impl Turn<'_> {
    /// Whether the work is to end.
    pub(super) fn must_stop(&self) -> bool {
        self.gate.states.lock().get(self.partition).is_some_and(|state| state.abort)
    }

    /// Waits so long, or until the work is to end; returns whether it is.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let Some(until) = Instant::now().checked_add(time) else { return self.must_stop() };
        let mut states = self.gate.states.lock();
        while !states.get(self.partition).is_some_and(|state| state.abort) {
            if self.gate.changed.wait_until(&mut states, until).timed_out() {
                return false;
            }
        }
        true
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut states = self.gate.states.lock();
        if let Some(state) = states.get_mut(self.partition) {
            (state.busy, state.abort) = (false, false);
            if state.pauses == 0 {
                states.remove(self.partition);
            }
        }
        self.gate.changed.notify_all();
    }
}
