//! `replay`: operations that Kafka's own log went through, on ours, with the same results.
//!
//! A folder holds `trace.jsonl`, a line an operation with its result and the state after it, and
//! `final/`, the directory after the last one. Where the log is stopped in between, there is
//! `stop-N` with what Kafka left; where it was killed, `found-N` with what it started with.

mod errors;
mod files;
mod operation;
mod player;
mod trace;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use self::player::Player;
use self::trace::Trace;
use crate::golden;
use crate::tally::Tally;

/// Replays every folder; with none, the repository's own traces.
///
/// # Errors
///
/// When a line or a file differs, or a folder cannot be read.
pub(crate) fn run(dirs: &[PathBuf]) -> Result<()> {
    let mut tally = Tally::default();
    let own = if dirs.is_empty() { golden::traces()? } else { Vec::new() };
    for dir in dirs.iter().chain(&own) {
        replay(dir, &mut tally).with_context(|| format!("cannot replay {}", dir.display()))?;
    }
    tally.finish()
}

fn replay(dir: &Path, tally: &mut Tally) -> Result<()> {
    let text = fs::read_to_string(dir.join("trace.jsonl")).context("cannot read the trace")?;
    let trace = Trace::parse(&text)?;
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let work = tempfile::tempdir().context("cannot make a directory to work in")?;
    let ours = work.path().join(&trace.head.directory);
    let mut player = Player::open(&trace.head, dir, &ours)?;
    for line in &trace.lines {
        let at = format!("{name} line {} ({})", line.number, line.operation.name());
        match player.play(line, tally) {
            Ok(None) => tally.check(&at, Ok(())),
            Ok(Some(reason)) => tally.skip(&at, reason),
            Err(error) => tally.check(&at, Err(error)),
        }
    }
    let allowed = player.allowed();
    drop(player);
    let theirs = dir.join("final").join(&trace.head.directory);
    files::compare(&name, &ours, &theirs, allowed, tally)
}
