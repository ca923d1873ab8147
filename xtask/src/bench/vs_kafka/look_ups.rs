//! From an offset, and from a time, to a place in the log: both sides over the same bytes.

use std::time::Instant;

use alluvium_log_manager::{Isolation, Log, OffsetQuery};
use alluvium_record_format::{LeaderEpoch, Offset, Timestamp};
use anyhow::{Context, Result, ensure};

use super::Arena;
use crate::bench::batches::{Batches, FIRST_TIMESTAMP, RECORDS};
use crate::bench::log_dir::LogDir;
use crate::bench::outcome::{Bar, Outcome};
use crate::bench::random::Random;
use crate::kafka::copy_tree;

/// Batches of the log: 64 MiB.
const BATCHES: usize = 4_096;

/// Reads in a slice of ours and of Kafka's.
const READS: u32 = 50_000;

/// Look-ups by time in a slice.
const TIMES: u32 = 5_000;

/// Bytes that a read asks for.
const READ_BYTES: u32 = 4_096;

pub(super) fn by_offset(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    fill(&arena.dir)?;
    let kafkas = format!("read {} {READS}", arena.dir.path().join("kafka-0").display());
    let mut random = Random::new(3);
    arena.contest((name, "k/s", 1e3), Bar(5.0), &mut |dir| read(dir, &mut random), &kafkas)
}

pub(super) fn by_time(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    let records = fill(&arena.dir)?;
    let path = arena.dir.path().join("kafka-0");
    let (from, to) = (FIRST_TIMESTAMP, FIRST_TIMESTAMP + i64::try_from(records)?);
    let kafkas = format!("times {} {TIMES} {from} {to}", path.display());
    let mut random = Random::new(3);
    let mut ours = |dir: &LogDir| look_up(dir, &mut random, from, records);
    arena.contest((name, "k/s", 1e3), Bar(8.0), &mut ours, &kafkas)
}

/// Writes a log whose records are a millisecond apart, and gives Kafka a copy. Returns how many
/// records there are.
fn fill(dir: &LogDir) -> Result<u64> {
    let log = dir.log("ours-0", dir.options())?;
    let batches = Batches::build(BATCHES, RECORDS)?;
    for batch in batches.iter() {
        log.append_as_follower(batch, LeaderEpoch::new(0))?;
    }
    // Kafka's bare close leaves zeros behind the entries of the active segment, and its next
    // search runs into them: the records are to be in a sealed one.
    log.roll()?;
    log.close()?;
    drop(log);
    dir.wait_for("ours-0")?;
    let copy = dir.path().join("kafka-0");
    crate::workspace::empty_dir(&copy)?;
    copy_tree(&dir.path().join("ours-0"), &copy)?;
    Ok((BATCHES * RECORDS) as u64)
}

fn open(dir: &LogDir) -> Result<Log> {
    Ok(dir.options().open(dir.path().join("ours-0"))?)
}

/// Reads a second.
fn read(dir: &LogDir, random: &mut Random) -> Result<f64> {
    let log = open(dir)?;
    let end = log.log_end_offset().get().unsigned_abs();
    let start = Instant::now();
    for _ in 0..READS {
        let offset = Offset::new(i64::try_from(random.below(end))?);
        let found = log.read(offset, READ_BYTES, Isolation::LogEnd, true)?;
        ensure!(!found.is_empty(), "nothing at {offset}");
    }
    Ok(f64::from(READS) / start.elapsed().as_secs_f64())
}

/// Look-ups a second.
fn look_up(dir: &LogDir, random: &mut Random, from: i64, span: u64) -> Result<f64> {
    let log = open(dir)?;
    let start = Instant::now();
    for _ in 0..TIMES {
        let offset = i64::try_from(random.below(span))?;
        let time = Timestamp::new(from + offset);
        let found = log.offset_for(OffsetQuery::AtOrAfter(time))?.context("no such time")?;
        ensure!(found.offset.get() == offset, "{time} is not at {}", found.offset);
    }
    Ok(f64::from(TIMES) / start.elapsed().as_secs_f64())
}
