//! Starts: after a crash, and over many segments after a clean stop.

use std::time::Instant;

use alluvium_log_manager::LogConfig;
use alluvium_record_format::LeaderEpoch;
use alluvium_recovery::ScanConfig;
use anyhow::{Result, ensure};

use super::Arena;
use crate::bench::batches::{Batches, RECORDS};
use crate::bench::log_dir::LogDir;
use crate::bench::outcome::{Bar, Outcome};
use crate::kafka::copy_tree;
use crate::workspace;

/// Batches of the log that is recovered: just below a gigabyte, one segment.
const BATCHES: usize = 62_000;

/// Segments of the log that is opened.
const SEGMENTS: u32 = 2_000;

pub(super) fn recover_by_one(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    recover(arena, name, 1, Bar(1.3))
}

/// Kafka recovers a log by one thread: here as well.
pub(super) fn recover_by_two(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    recover(arena, name, 2, Bar(2.2))
}

fn recover(arena: &mut Arena, name: &'static str, threads: usize, bar: Bar) -> Result<Outcome> {
    let log = arena.dir.log("ours-0", arena.dir.options())?;
    let batches = Batches::build(BATCHES, RECORDS)?;
    for batch in batches.iter() {
        log.append_as_follower(batch, LeaderEpoch::new(0))?;
    }
    drop(batches);
    log.close()?;
    drop(log);
    arena.dir.wait_for("ours-0")?;
    copy(&arena.dir, "ours-0", "kafka-0")?;
    let kafkas = format!("recover {}", arena.dir.path().join("kafka-0").display());
    let mut ours = |dir: &LogDir| recovered(dir, threads);
    arena.contest((name, "MiB/s", f64::from(1 << 20)), bar, &mut ours, &kafkas)
}

/// Bytes a second.
fn recovered(dir: &LogDir, threads: usize) -> Result<f64> {
    let options = dir.options().clean(false).scan(ScanConfig::new().threads(threads));
    let start = Instant::now();
    let log = options.open(dir.path().join("ours-0"))?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(log.log_end_offset().get() == i64::try_from(BATCHES * RECORDS)?, "the log is cut");
    #[expect(clippy::cast_precision_loss, reason = "a gigabyte")]
    let bytes = log.size_bytes() as f64;
    Ok(bytes / seconds)
}

/// Kafka writes the log, and each side opens a copy of its own.
pub(super) fn open_many(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    let path = arena.dir.path().join("kafka-0").display().to_string();
    arena.storage.run(&format!("many {path} {SEGMENTS}"))?;
    copy(&arena.dir, "kafka-0", "ours-0")?;
    arena.contest((name, "/s", 1.0), Bar(5.0), &mut opened, &format!("open {path}"))
}

/// Segments a second.
fn opened(dir: &LogDir) -> Result<f64> {
    let config = LogConfig::builder().segment_index_bytes(4_096).build()?;
    let start = Instant::now();
    let log = dir.options().config(config).open(dir.path().join("ours-0"))?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(log.segment_count() > SEGMENTS as usize, "{} segments", log.segment_count());
    Ok(f64::from(SEGMENTS) / seconds)
}

fn copy(dir: &LogDir, from: &str, to: &str) -> Result<()> {
    let to = dir.path().join(to);
    workspace::empty_dir(&to)?;
    copy_tree(&dir.path().join(from), &to)
}
