//! `oracle`: a real Kafka judges what we print, live.

mod damage;
mod fresh;
mod modes;
mod plan;
mod written;

use anyhow::{Result, ensure};

use crate::conformance::Alluvium;
use crate::kafka::Kafka;
use crate::tally::Tally;
use crate::workspace;

/// Fewer checks than this is a failure: something was left out unseen.
const LEAST: usize = 1_000;

/// Runs every comparison with a live Kafka. `seed` makes the fresh disk.
///
/// # Errors
///
/// When a check fails, too few ran, or Kafka is not to be had.
pub(crate) fn run(seed: u64) -> Result<()> {
    let kafka = Kafka::ready()?;
    let alluvium = Alluvium::build()?;
    let work = workspace::scratch().join("oracle");
    workspace::empty_dir(&work)?;
    let mut tally = Tally::default();
    written::check(&kafka, &work.join("written"), &mut tally)?;
    let disk = fresh::check(&kafka, &alluvium, seed, &work, &mut tally)?;
    modes::check(&kafka, &alluvium, &disk.join("clean"), &modes::EVERY, &mut tally)?;
    modes::check(&kafka, &alluvium, &disk.join("unclean"), &modes::EVERY, &mut tally)?;
    let damaged = work.join("damaged");
    damage::make(&disk.join("clean"), &damaged)?;
    modes::check(&kafka, &alluvium, &damaged, &modes::DEEP, &mut tally)?;
    let checks = tally.checks();
    tally.finish()?;
    ensure!(checks >= LEAST, "{checks} checks ran, expected at least {LEAST}");
    Ok(())
}
