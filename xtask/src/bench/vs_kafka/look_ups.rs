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

/// Batches of the log of the last second: a gigabyte, in one segment.
const RECENT_BATCHES: usize = 62_000;

const TEN_MINUTES_MS: i64 = 600_000;

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

/// As after an append at full speed: all records of the last second, and look-ups of any time of
/// the last ten minutes.
pub(super) fn by_recent_time(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    let records = i64::try_from(RECENT_BATCHES * RECORDS)?;
    fill_with(&arena.dir, &Batches::timed(RECENT_BATCHES, RECORDS, records / 1_000)?)?;
    let end = FIRST_TIMESTAMP + 1_000;
    by_time(arena, name, Bar(8.0), (end - TEN_MINUTES_MS, end), &|time| {
        (time <= FIRST_TIMESTAMP).then_some(0)
    })
}

/// A time that one record has, anywhere in the log.
pub(super) fn by_scattered_time(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    let records = fill(&arena.dir)?;
    let span = (FIRST_TIMESTAMP, FIRST_TIMESTAMP + i64::try_from(records)?);
    by_time(arena, name, Bar::NONE, span, &|time| Some(time - FIRST_TIMESTAMP))
}

fn by_time(
    arena: &mut Arena,
    name: &'static str,
    bar: Bar,
    (from, to): (i64, i64),
    offset_of: &dyn Fn(i64) -> Option<i64>,
) -> Result<Outcome> {
    let path = arena.dir.path().join("kafka-0");
    let kafkas = format!("times {} {TIMES} {from} {to}", path.display());
    let mut random = Random::new(3);
    let mut ours = |dir: &LogDir| look_up(dir, &mut random, (from, to), offset_of);
    arena.contest((name, "k/s", 1e3), bar, &mut ours, &kafkas)
}

/// Writes a log whose records are a millisecond apart, and gives Kafka a copy. Returns how many
/// records there are.
fn fill(dir: &LogDir) -> Result<u64> {
    fill_with(dir, &Batches::build(BATCHES, RECORDS)?)?;
    Ok((BATCHES * RECORDS) as u64)
}

/// Writes these batches as a follower, and gives Kafka a copy.
fn fill_with(dir: &LogDir, batches: &Batches) -> Result<()> {
    let log = dir.log("ours-0", dir.options())?;
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
    copy_tree(&dir.path().join("ours-0"), &copy)
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

/// Look-ups a second, each of which must find the offset that `offset_of` names.
fn look_up(
    dir: &LogDir,
    random: &mut Random,
    (from, to): (i64, i64),
    offset_of: &dyn Fn(i64) -> Option<i64>,
) -> Result<f64> {
    let log = open(dir)?;
    let start = Instant::now();
    for _ in 0..TIMES {
        let time = from + i64::try_from(random.below((to - from).unsigned_abs()))?;
        let query = OffsetQuery::AtOrAfter(Timestamp::new(time));
        let found = log.offset_for(query)?.context("no such time")?.offset.get();
        let is_right = offset_of(time).is_none_or(|offset| offset == found);
        ensure!(is_right, "{time} is not at {found}");
    }
    Ok(f64::from(TIMES) / start.elapsed().as_secs_f64())
}
