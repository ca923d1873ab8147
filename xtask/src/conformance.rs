//! `conformance`: what we say of a disk that Kafka wrote, against what Kafka said of it.
//!
//! A folder may hold any of `clean/`, `dump/`, `view/`, `unclean/`, `recovered/`,
//! `view-recovered/`, or be a folder of logs of the old formats with the text of Kafka's dump
//! tool beside each (`NAME.dump.txt` beside `NAME/`).

mod binary;
mod coordinator;
mod dump;
mod legacy;
mod rebuild;
mod recover;
mod times;
mod topics;
mod verify;
mod view;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub(crate) use self::binary::Alluvium;
use self::topics::Topics;
use crate::golden;
use crate::tally::Tally;

/// Checks every folder; with none, the repository's own sets.
///
/// # Errors
///
/// When a check fails, or a folder holds nothing to check.
pub(crate) fn run(dirs: &[PathBuf]) -> Result<()> {
    let alluvium = Alluvium::build()?;
    let mut tally = Tally::default();
    let own = if dirs.is_empty() { golden::unpacked()? } else { Vec::new() };
    for dir in dirs.iter().chain(&own) {
        let dir = dir.canonicalize().with_context(|| format!("cannot open {}", dir.display()))?;
        check(&alluvium, &dir, &mut tally)?;
    }
    tally.finish()
}

/// Checks one folder.
///
/// # Errors
///
/// When it holds nothing to check, or cannot be read.
pub(crate) fn check(alluvium: &Alluvium, dir: &Path, tally: &mut Tally) -> Result<()> {
    let has = |name: &str| dir.join(name).is_dir();
    let before = tally.checks();
    if has("clean") {
        if has("dump") {
            dump::check(alluvium, dir, tally)?;
        }
        if has("view") {
            view::check(alluvium, &dir.join("clean"), &dir.join("view"), tally)?;
            times::check(alluvium, &dir.join("clean"), &dir.join("view"), tally)?;
        }
        verify::check(alluvium, &dir.join("clean"), tally);
    }
    let topics = Topics::read(&dir.join("clean"))?;
    if has("clean") {
        rebuild::check(&dir.join("clean"), None, &topics, tally)?;
    }
    if has("recovered") {
        let unclean = has("unclean").then(|| dir.join("unclean"));
        rebuild::check(&dir.join("recovered"), unclean.as_deref(), &topics, tally)?;
    }
    if has("unclean") && has("recovered") {
        recover::check(alluvium, dir, &topics, tally)?;
    }
    legacy::check(alluvium, dir, tally)?;
    if tally.checks() == before {
        bail!("{} holds nothing that can be checked", dir.display());
    }
    Ok(())
}
