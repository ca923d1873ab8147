//! Builds that are wrong on purpose: the explorer must find each of them.
//!
//! One build with `--cfg alluvium_mutant`, for our own crates alone; which fault it has, an
//! environment variable says. It runs the workload; this process, which is right, judges.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::trace::Event;
use super::{Explorer, Failure, recorded_by};
use crate::workspace;

/// Each mutant by the name that the code asks for (`alluvium_segment::mutant`), and what is wrong
/// with it.
const EVERY: [(&str, &str); 11] = [
    ("no-directory-sync", "no directory is synced"),
    ("no-log-sync", "no log file is synced"),
    ("swapped-rename", "old segments are renamed before the new ones have `.swap`"),
    ("early-marker", "the marker of a clean stop is written before the logs are closed"),
    ("early-recovery-point", "the checkpoint has the log end for the recovery point"),
    ("late-recovery-point", "a truncation cuts before the checkpoint is lowered"),
    ("forgotten-log-start", "retention drops many segments by one sync, the log start not kept"),
    ("unsynced-cut", "a truncation is not synced"),
    ("unsynced-name", "a new log is used before its name is durable"),
    ("unsynced-snapshots", "the snapshot of producers that a roll writes is not synced"),
    ("unsynced-leftovers", "indexes that a killed process has written are not synced"),
];

/// Those that are wrong in a start: they judge themselves.
const IN_A_START: [(&str, &str); 1] =
    [("trusted-snapshot", "a snapshot of producers from beyond the log end is taken")];

/// Seconds in which such a one is looked for.
const SECONDS: &str = "60";

/// States of one record in which a mutant is looked for: the same on any machine.
const STATES: u64 = 512;

/// Records in which a mutant is looked for: the rarest fault shows itself in one of three or four.
const RECORDS: u64 = 24;

/// Every mutant must be found, in one of some records.
///
/// # Errors
///
/// When one is not found, or the build fails.
pub(super) fn explore(seed: u64) -> Result<()> {
    let program = build()?;
    let mut missed = Vec::new();
    for (name, what) in EVERY {
        match found(&program, name, seed)? {
            (states, Some(failure)) => {
                println!("  {name} ({what}): found after {states} states");
                println!("      {:#}", failure.error);
            }
            (states, None) => missed.push(format!("{name} ({states} states)")),
        }
    }
    for (name, what) in IN_A_START {
        match found_by_itself(&program, name, seed)? {
            Some(error) => println!("  {name} ({what}): found\n      {error}"),
            None => missed.push(format!("{name} ({SECONDS} s)")),
        }
    }
    ensure!(missed.is_empty(), "not found: {}", missed.join("; "));
    let count = EVERY.len() + IN_A_START.len();
    println!("crash: all {count} mutants are found; seed {seed}");
    Ok(())
}

fn found(program: &Path, name: &str, seed: u64) -> Result<(u64, Option<Failure>)> {
    let mut states = 0;
    for seed in seed..seed + RECORDS {
        let events: Vec<Event> = recorded_by(program, seed, Some(name))?;
        let mut explorer = Explorer::new(&events, seed)?;
        let failure = explorer.so_many(STATES)?;
        states += explorer.states;
        if failure.is_some() {
            return Ok((states, failure));
        }
    }
    Ok((states, None))
}

/// What a wrong program says of the states that it has recovered itself, if it finds one wrong; its
/// own workload is one of them.
fn found_by_itself(program: &Path, name: &str, seed: u64) -> Result<Option<String>> {
    let mut command = Command::new(program);
    command.args(["crash", "--budget", SECONDS, "--seed", &seed.to_string()]);
    let out = command.env("ALLUVIUM_MUTANT", name).output().context("cannot start it")?;
    let said = String::from_utf8_lossy(&out.stderr);
    Ok((!out.status.success()).then(|| said.trim_end().to_owned()))
}

/// Builds the wrong program beside the right one; what others wrote is not compiled again.
fn build() -> Result<PathBuf> {
    let target = workspace::target();
    let out = target.join("mutant");
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--quiet", "--package", "xtask", "--bin", "xtask"]);
    cargo.env("CARGO_BUILD_BUILD_DIR", &target).env("CARGO_TARGET_DIR", &out);
    cargo.env("RUSTC_WORKSPACE_WRAPPER", workspace::root().join("xtask/mutant-rustc"));
    workspace::run(&mut cargo)?;
    Ok(out.join("debug/xtask"))
}
