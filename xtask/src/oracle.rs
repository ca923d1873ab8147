//! `oracle`: a real Kafka judges what we print, live.

mod damage;
mod expected;
mod fresh;
mod lock;
mod modes;
mod plan;
mod scenarios;
mod written;

use anyhow::{Result, ensure};

use crate::conformance::Alluvium;
use crate::golden;
use crate::kafka::Kafka;
use crate::tally::Tally;
use crate::workspace;

/// Fewer checks than this is a failure: something was left out unseen.
const LEAST: usize = 1_500;

/// Runs every comparison with a live Kafka. `seed` makes the fresh disk; with none, the
/// repository's own takes its place and the number of checks does not count.
///
/// # Errors
///
/// When a check fails, too few ran, or Kafka is not to be had.
pub(crate) fn run(seed: Option<u64>) -> Result<()> {
    let kafka = Kafka::ready()?;
    let alluvium = Alluvium::build()?;
    let work = workspace::scratch().join("oracle");
    workspace::empty_dir(&work)?;
    let mut tally = Tally::default();
    lock::check(&kafka, &work.join("lock"), &mut tally)?;
    written::check(&kafka, &work.join("written"), &mut tally)?;
    let disk = match seed {
        Some(seed) => fresh::check(&kafka, &alluvium, seed, &work, &mut tally)?,
        None => golden::unpacked()?.swap_remove(0),
    };
    modes::check(&kafka, &alluvium, &disk.join("clean"), &modes::EVERY, &mut tally)?;
    modes::check(&kafka, &alluvium, &disk.join("unclean"), &modes::EVERY, &mut tally)?;
    let damaged = work.join("damaged");
    damage::make(&disk.join("clean"), &damaged)?;
    modes::check(&kafka, &alluvium, &damaged, &modes::DEEP, &mut tally)?;
    let checks = tally.checks();
    tally.finish()?;
    ensure!(seed.is_none() || checks >= LEAST, "{checks} checks ran, expected at least {LEAST}");
    Ok(())
}
