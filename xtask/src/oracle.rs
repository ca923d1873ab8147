//! `oracle`: a real Kafka judges what we print and what we write, live.

mod brokers;
mod cleaning;
mod damage;
mod expected;
mod fresh;
mod lock;
mod modes;
mod ours;
mod plan;
mod rounds;
mod salvaged;
mod scenarios;
mod written;

use std::path::Path;

use anyhow::{Result, ensure};

use crate::conformance::Alluvium;
use crate::flags;
use crate::golden;
use crate::kafka::Kafka;
use crate::tally::Tally;
use crate::workspace;

/// Fewer checks than this is a failure: something was left out unseen.
const LEAST: usize = 2_000;

/// The seed of the fresh disk; that of the repository's own is another.
const SEED: u64 = 2;

/// Every part, with the disk of every run in CI.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn run_whole() -> Result<()> {
    run(&flags::Oracle { seed: None, no_broker: false, only: None })
}

/// Runs the comparisons with a live Kafka that the flags ask for.
///
/// # Errors
///
/// When a check fails, too few ran, or Kafka is not to be had.
pub(crate) fn run(flags: &flags::Oracle) -> Result<()> {
    let kafka = Kafka::ready()?;
    let work = workspace::scratch().join("oracle");
    workspace::empty_dir(&work)?;
    let mut tally = Tally::default();
    let wanted = |part: &str| flags.only.as_ref().is_none_or(|only| part == only);
    if wanted("lock") {
        lock::check(&kafka, &work.join("lock"), &mut tally)?;
    }
    if wanted("written") {
        written::check(&kafka, &work.join("written"), &mut tally)?;
    }
    if wanted("rounds") && !flags.no_broker {
        rounds::check(&kafka, &work.join("rounds"), &mut tally)?;
    }
    if wanted("cleaning") && !flags.no_broker {
        cleaning::check(&kafka, &work.join("cleaning"), &mut tally)?;
    }
    if wanted("salvaged") && !flags.no_broker {
        salvaged::check(&kafka, &work.join("salvaged"), &mut tally)?;
    }
    if wanted("brokers") && !flags.no_broker {
        brokers::check(&kafka, &work.join("brokers"), &mut tally)?;
    }
    if wanted("disk") {
        let seed = (!flags.no_broker).then_some(flags.seed.unwrap_or(SEED));
        disk(&kafka, seed, &work, &mut tally)?;
    }
    let checks = tally.checks();
    tally.finish()?;
    let is_whole = !flags.no_broker && flags.only.is_none();
    ensure!(!is_whole || checks >= LEAST, "{checks} checks ran, expected at least {LEAST}");
    Ok(())
}

/// What we print of a disk, sound and damaged, against Kafka's dump tool. `seed` makes a fresh
/// one; with none, the repository's own takes its place.
fn disk(kafka: &Kafka, seed: Option<u64>, work: &Path, tally: &mut Tally) -> Result<()> {
    let alluvium = Alluvium::build()?;
    let disk = match seed {
        Some(seed) => fresh::check(kafka, &alluvium, seed, work, tally)?,
        None => golden::unpacked()?.swap_remove(0),
    };
    modes::check(kafka, &alluvium, &disk.join("clean"), &modes::EVERY, tally)?;
    modes::check(kafka, &alluvium, &disk.join("unclean"), &modes::EVERY, tally)?;
    let damaged = work.join("damaged");
    damage::make(&disk.join("clean"), &damaged)?;
    modes::check(kafka, &alluvium, &damaged, &modes::DEEP, tally)
}
