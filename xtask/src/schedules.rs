//! `schedules`: the parts without a lock under model checkers, which choose the thread that goes
//! on.
//!
//! `shuttle` runs a whole log, its files included, under schedules drawn by a seed; `loom` goes
//! through every order that the memory model allows for the words of an index, and for what a
//! segment shows beside its writer. Both live in unit tests that a plain build leaves out: they are
//! built with a `cfg` for the crate under test alone, so that all below it is what the other tests
//! have built.

mod mutants;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{flags, workspace};

/// How many schedules of each test run, if nothing else is asked for.
const SCHEDULES: u64 = 1000;

/// Runs the tests under their checkers; or those of wrong builds, which must fail.
///
/// # Errors
///
/// When a test fails: its text names the schedule. When a wrong build passes.
pub(crate) fn run(flags: &flags::Schedules) -> Result<()> {
    if flags.mutants {
        return mutants::run();
    }
    let start = Instant::now();
    let (count, seed) = (flags.count.unwrap_or(SCHEDULES), flags.seed.unwrap_or(1));
    for checked in CHECKED {
        let program = checked.build(workspace::root(), &workspace::target())?;
        workspace::run(&mut command(&program, count, seed))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("schedules: {count} schedules of each test, seed {seed}, {seconds:.0} s");
    Ok(())
}

/// A crate with tests for a checker.
#[derive(Clone, Copy, Debug)]
struct Checked {
    package: &'static str,
    /// The checker, which is also the name of its `cfg`.
    checker: &'static str,
}

const INDEX: Checked = Checked { package: "alluvium-sparse-index", checker: "loom" };
const SEGMENT: Checked = Checked { package: "alluvium-segment", checker: "loom" };
const LOG: Checked = Checked { package: "alluvium-log-manager", checker: "shuttle" };
const CHECKED: [Checked; 3] = [INDEX, SEGMENT, LOG];

impl Checked {
    /// Builds the unit tests of the crate in the workspace at `root`, and returns the program.
    fn build(self, root: &Path, target: &Path) -> Result<PathBuf> {
        let mut build = workspace::cargo();
        build.current_dir(root).env("CARGO_TARGET_DIR", target);
        build.args(["rustc", "--quiet", "--package", self.package, "--lib", "--profile", "test"]);
        build.args(["--message-format", "json-render-diagnostics"]);
        build.args(["--", "--cfg", self.checker]);
        let out = workspace::output(&mut build)?;
        let program = out.split(|byte| *byte == b'\n').find_map(executable);
        program.with_context(|| format!("cargo built no tests of {}", self.package))
    }

    /// Whether the test of a program that is for a fault finds it; and that there are tests. That
    /// another one fails, or the program dies, does not count.
    fn finds(self, program: &Path, test: &str, count: u64, seed: u64) -> Result<bool> {
        let mut command = command(program, count, seed);
        let out =
            command.output().with_context(|| format!("cannot start {}", program.display()))?;
        let said = String::from_utf8_lossy(&out.stdout);
        ensure!(!said.contains("running 0 tests"), "no test of {} ran", self.package);
        Ok(!out.status.success() && failed(&said).any(|name| name == test))
    }
}

/// The tests that failed, by what the program said at its end.
fn failed(said: &str) -> impl Iterator<Item = &str> {
    let (_, list) = said.rsplit_once("\nfailures:\n").unwrap_or_default();
    list.lines().map_while(|line| line.strip_prefix("    "))
}

fn command(program: &Path, count: u64, seed: u64) -> Command {
    let mut command = workspace::command(program);
    command.arg("schedules::").arg("--quiet");
    command.env("SCHEDULES", count.to_string()).env("SCHEDULES_SEED", seed.to_string());
    command
}

/// The program that a line of cargo's output names.
fn executable(line: &[u8]) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Line {
        executable: Option<PathBuf>,
    }
    serde_json::from_slice::<Line>(line).ok()?.executable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_failed_are_those_of_the_list_at_the_end() {
        let said = "\nrunning 2 tests\n.F\nfailures:\n\n---- schedules::a stdout ----\n    \
                    schedules::c\n\n\nfailures:\n    schedules::a\n    schedules::b\n\n\
                    test result: FAILED. 0 passed\n";
        assert_eq!(failed(said).collect::<Vec<_>>(), ["schedules::a", "schedules::b"]);
        assert_eq!(failed("\nrunning 1 test\nthread panicked, aborting\n").count(), 0);
    }
}
