//! Work that many threads wait for and one of them does for all, round after round.
//!
//! Who comes while a round runs waits for the next one. That begins as soon as the first ends, led
//! by one who waits or by whoever comes first. All of a round are woken by one call and the next
//! ones go on sleeping: the lock is the standard library's, whose condition variable wakes threads
//! together rather than in a chain of hand-overs.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::broadcast::{Condvar, Mutex, MutexGuard};

/// The rounds, and who waits for them.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    state: Mutex<State>,
    /// Those who wait for a round, by whether its number is odd.
    done: [Condvar; 2],
    /// The leader, who waits for company.
    gathered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether somebody leads a round: gathers, or works.
    is_led: bool,
    /// Rounds whose work has begun, and those whose work has ended.
    begun: u64,
    ended: u64,
    /// Those who wait for the next round, its leader included.
    waiting: usize,
    /// With how many the leader would begin at once; 0 where it does not wait.
    wanted: usize,
    /// How many shared the last round, and how long its work took.
    last_count: usize,
    last_took: Duration,
    /// Counts what makes the work of a round void.
    lower_count: u64,
}

impl Rounds {
    /// Waits for a round that begins after the call, and does its work where nobody else does,
    /// until `is_over` says so or either fails.
    pub(super) fn join<E>(
        &self,
        is_over: impl Fn() -> Result<bool, E>,
        work: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut mine = 0;
        let mut state = self.lock();
        let result = loop {
            match is_over() {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
            if mine <= state.ended {
                mine = state.begun + 1;
                state.waiting += 1;
                if state.waiting == state.wanted {
                    self.gathered.notify_one();
                }
            }
            if state.is_led {
                state = wait(&self.done[parity(mine)], state);
                continue;
            }
            self.lead(state, &work)?;
            if matches!(is_over(), Ok(true)) {
                return Ok(());
            }
            state = self.lock();
        };
        self.leave(state, mine);
        result
    }

    /// Does the work of the next round, then wakes those who wait for it.
    fn lead<'a, E>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        work: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        state.is_led = true;
        state = self.gather(state);
        state.begun += 1;
        state.last_count = std::mem::take(&mut state.waiting);
        let (round, count) = (state.begun, state.last_count);
        drop(state);
        let started = Instant::now();
        let worked = work();
        let took = started.elapsed();
        let mut state = self.lock();
        state.is_led = false;
        state.ended = round;
        state.last_took = took;
        let is_next_due = state.waiting > 0;
        // Whoever wakes needs the lock.
        drop(state);
        if is_next_due {
            self.done[parity(round + 1)].notify_one();
        }
        if count > 1 {
            self.done[parity(round)].notify_all();
        }
        worked
    }

    /// Goes without having led, perhaps as the one who was woken to lead.
    fn leave(&self, mut state: MutexGuard<'_, State>, mine: u64) {
        if mine > state.begun {
            state.waiting -= 1;
        }
        let is_next_due = !state.is_led && state.waiting > 0;
        let next = state.begun + 1;
        drop(state);
        if is_next_due {
            self.done[parity(next)].notify_one();
        }
    }

    /// Waits for as many as shared the last round, who are likely on their way again: as long as
    /// they keep coming, and no longer than the last round's work took twice. A thread alone never
    /// waits.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.wanted = state.last_count;
        for _ in 0..GATHERING_TURNS {
            let (before, turn) = (state.waiting, state.last_took / TURNS_OF_A_ROUND);
            if before >= state.wanted {
                break;
            }
            let gathering =
                self.gathered.wait_timeout_while(state, turn, |state| state.waiting < state.wanted);
            (state, _) = gathering.unwrap_or_else(PoisonError::into_inner);
            if state.waiting <= before {
                break;
            }
        }
        state.wanted = 0;
        state
    }

    /// How often [`Self::lower`] was called.
    pub(super) fn lower_count(&self) -> u64 {
        self.lock().lower_count
    }

    /// Makes a change that voids the work of a round that runs.
    pub(super) fn lower<T>(&self, change: impl FnOnce() -> T) {
        let mut state = self.lock();
        state.lower_count += 1;
        change();
    }

    /// Makes a change unless there was one of the other kind since `lower_count` was taken.
    pub(super) fn unless_lowered(&self, lower_count: u64, change: impl FnOnce()) {
        let state = self.lock();
        if state.lower_count == lower_count {
            change();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait<'a>(condvar: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    condvar.wait(state).unwrap_or_else(PoisonError::into_inner)
}

/// Which of two neighbouring rounds this is.
const fn parity(round: u64) -> usize {
    if round.is_multiple_of(2) { 0 } else { 1 }
}

/// A leader looks so often, in the time that the last round's work took, whether somebody came.
const TURNS_OF_A_ROUND: u32 = 4;

/// So often it looks at most. A model checker knows no time.
const GATHERING_TURNS: u32 = if cfg!(all(test, shuttle)) { 0 } else { 2 * TURNS_OF_A_ROUND };

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// Counts what came, and how much of it a round has made durable.
    #[derive(Default)]
    struct Log {
        rounds: Rounds,
        end: AtomicI64,
        durable: AtomicI64,
        syncs: AtomicUsize,
    }

    impl Log {
        fn append(&self, work: impl Fn() -> Result<(), &'static str>) -> Result<(), &'static str> {
            let mine = self.end.fetch_add(1, Ordering::SeqCst) + 1;
            self.rounds.join(
                || Ok(self.durable.load(Ordering::SeqCst) >= mine),
                || {
                    let end = self.end.load(Ordering::SeqCst);
                    work()?;
                    self.syncs.fetch_add(1, Ordering::SeqCst);
                    self.durable.fetch_max(end, Ordering::SeqCst);
                    Ok(())
                },
            )
        }
    }

    #[test]
    fn one_thread_works_once_for_each_call_and_gathers_nobody() {
        let log = Log::default();
        for _ in 0..100 {
            log.append(|| Ok(())).unwrap();
        }
        assert_eq!(log.syncs.load(Ordering::SeqCst), 100);
        assert_eq!(log.rounds.lock().last_count, 1);
    }

    #[test]
    fn all_who_come_while_a_round_runs_share_the_next() {
        const COUNT: usize = 20;
        let log = Log::default();
        thread::scope(|scope| {
            let all_wait = || {
                scope.spawn(|| log.append(|| Ok(())).unwrap());
                Ok(())
            };
            log.append(|| {
                for _ in 0..COUNT {
                    all_wait()?;
                }
                while log.rounds.lock().waiting < COUNT {
                    thread::yield_now();
                }
                Ok(())
            })
            .unwrap();
        });
        assert_eq!(log.syncs.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_failed_round_fails_its_leader_and_the_others_go_on() {
        let log = Log::default();
        assert_eq!(log.append(|| Err("a failure")), Err("a failure"));
        log.append(|| Ok(())).unwrap();
        assert_eq!(log.durable.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn nobody_is_left_waiting_however_rounds_end() {
        let log = Log::default();
        let failures = AtomicUsize::new(0);
        let append_many = |seed: usize| {
            for turn in seed..seed + 200 {
                let work = || if turn.is_multiple_of(7) { Err("a failure") } else { Ok(()) };
                let failed = log.append(work).is_err();
                failures.fetch_add(usize::from(failed), Ordering::SeqCst);
            }
        };
        thread::scope(|scope| {
            for seed in 0..16 {
                let append_many = &append_many;
                scope.spawn(move || append_many(seed));
            }
        });
        let state = log.rounds.lock();
        assert_eq!((state.waiting, state.is_led, state.begun), (0, false, state.ended));
        assert!(failures.load(Ordering::SeqCst) > 0);
    }

    #[test]
    fn what_was_lowered_meanwhile_is_not_raised() {
        let rounds = Rounds::default();
        let before = rounds.lower_count();
        rounds.unless_lowered(before, || {});
        rounds.lower(|| {});
        rounds.unless_lowered(before, || panic!("raised"));
    }
}
