//! A log under a model checker: which thread goes on is drawn anew at every lock, atomic and
//! published pointer, by a seed. What a thread does between two of them is one step, calls of the
//! system and the crates below included.
//!
//! `cargo xtask schedules` builds and runs these; a plain test build leaves them out.

mod commits;
mod fixture;
mod readers;
mod retention;
mod waiting;

use std::env;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// Runs `test` under many schedules: half of them drawn step by step, half with few, far-reaching
/// preemptions, which finds what needs a thread to stand still for long.
fn explore(test: impl Fn() + Clone + Send + Sync + 'static) {
    let (seed, schedules) = (number("SCHEDULES_SEED", 1), number("SCHEDULES", 300));
    let half = usize::try_from(schedules / 2).unwrap();
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.failure_persistence = FailurePersistence::Print;
    Runner::new(RandomScheduler::new_from_seed(seed, half), config.clone()).run(test.clone());
    Runner::new(PctScheduler::new_from_seed(seed, 3, half), config).run(test);
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
