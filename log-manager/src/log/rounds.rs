//! Work that many threads wait for and one of them does for all, round after round.
//!
//! Who comes while a round runs waits for the next one. That begins as soon as the first ends, led
//! by one who waits or by whoever comes first. All of a round are woken by one call and the next
//! ones go on sleeping: the lock is the standard library's, whose condition variable wakes threads
//! together rather than in a chain of hand-overs.

use std::sync::PoisonError;
use std::time::Duration;

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
    /// How many shared the last round that did not fail, and how long its syncs took.
    last_count: usize,
    last_took: Duration,
    /// Counts what makes the work of a round void.
    lower_count: u64,
}

impl Rounds {
    /// Waits for a round that begins after the call, and does its work where nobody else does,
    /// until `is_over` says so or either fails. The work tells how long its syncs took.
    pub(super) fn join<E>(
        &self,
        is_over: impl Fn() -> Result<bool, E>,
        work: impl Fn() -> Result<Duration, E>,
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
        work: impl Fn() -> Result<Duration, E>,
    ) -> Result<(), E> {
        state.is_led = true;
        state = self.gather(state);
        state.begun += 1;
        let count = std::mem::take(&mut state.waiting);
        let mut led = Led { rounds: self, round: state.begun, count, took: None };
        drop(state);
        led.took = Some(work()?);
        Ok(())
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
    /// they keep coming, no longer than the last round's syncs took twice, and no longer than
    /// [`MOST_PER_TURN`] allows. Who was alone in the last round does not wait; who is alone after
    /// a shared one waits for one turn.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.wanted = state.last_count;
        for _ in 0..GATHERING_TURNS {
            let (before, turn) = (state.waiting, turn_after(state.last_took));
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

/// The round that a thread leads. It ends however its work ends, a panic included: who waits for it
/// goes on.
struct Led<'a> {
    rounds: &'a Rounds,
    round: u64,
    count: usize,
    /// How long its syncs took; `None` where it failed.
    took: Option<Duration>,
}

impl Drop for Led<'_> {
    fn drop(&mut self) {
        let mut state = self.rounds.lock();
        state.is_led = false;
        state.ended = self.round;
        if let Some(took) = self.took {
            (state.last_count, state.last_took) = (self.count, took);
        }
        let is_next_due = state.waiting > 0;
        // Whoever wakes needs the lock.
        drop(state);
        if is_next_due {
            self.rounds.done[parity(self.round + 1)].notify_one();
        }
        if self.count > 1 {
            self.rounds.done[parity(self.round)].notify_all();
        }
    }
}

fn wait<'a>(condvar: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    condvar.wait(state).unwrap_or_else(PoisonError::into_inner)
}

/// Which of two neighbouring rounds this is.
const fn parity(round: u64) -> usize {
    if round.is_multiple_of(2) { 0 } else { 1 }
}

/// How long a leader waits before it looks whether somebody came.
fn turn_after(last_took: Duration) -> Duration {
    (last_took / TURNS_OF_A_ROUND).min(MOST_PER_TURN)
}

/// A leader looks so often, in the time that the last round's syncs took, whether somebody came.
const TURNS_OF_A_ROUND: u32 = 4;

/// A disk that has stalled once says nothing about when writers come back.
const MOST_PER_TURN: Duration = Duration::from_millis(2);

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
                    Ok(Duration::ZERO)
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
    fn a_leader_waits_a_part_of_the_last_sync_and_never_as_long_as_a_stall() {
        assert_eq!(turn_after(Duration::from_micros(400)), Duration::from_micros(100));
        assert_eq!(turn_after(Duration::from_secs(20)), MOST_PER_TURN);
    }

    #[test]
    fn a_failed_round_says_nothing_about_the_next() {
        let rounds = Rounds::default();
        let join = |result: Result<Duration, &'static str>| {
            let is_done = std::cell::Cell::new(false);
            let work = || {
                is_done.set(true);
                result
            };
            assert_eq!(rounds.join(|| Ok(is_done.get()), work).is_ok(), result.is_ok());
            let state = rounds.lock();
            (state.last_count, state.last_took)
        };
        assert_eq!(join(Err("a failure")), (0, Duration::ZERO));
        assert_eq!(join(Ok(Duration::from_millis(3))), (1, Duration::from_millis(3)));
        assert_eq!(join(Err("a failure")), (1, Duration::from_millis(3)));
    }

    #[test]
    fn a_panic_in_the_work_ends_its_round_and_the_others_go_on() {
        let log = &Log::default();
        let one_waits = || {
            while log.rounds.lock().waiting < 1 {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            let work = move || {
                scope.spawn(move || log.append(|| Ok(())).unwrap());
                one_waits();
                panic!("in the work")
            };
            let leader = scope.spawn(move || log.append(work));
            leader.join().unwrap_err();
        });
        log.append(|| Ok(())).unwrap();
        assert_eq!(log.durable.load(Ordering::SeqCst), 3);
        let state = log.rounds.lock();
        assert_eq!((state.waiting, state.is_led, state.begun), (0, false, state.ended));
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
