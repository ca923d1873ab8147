//! Appends as the leader, with every check on both sides.

use std::time::Instant;

use alluvium_log_manager::LeaderRequest;
use alluvium_record_format::LeaderEpoch;
use anyhow::Result;

use super::Arena;
use crate::bench::batches::{Batches, RECORDS};
use crate::bench::log_dir::LogDir;
use crate::bench::outcome::{Bar, Outcome};

/// Different batches, again and again.
const COUNT: usize = 64;

/// MiB of an append of 16 KiB batches.
const MIB: u64 = 64;

/// MiB of an append of batches with one record: 49,000 of them.
const MIB_OF_ONE: u64 = 8;

/// A gigabyte through Kafka's log, and as many small batches as matter to its compiler.
pub(super) fn warm_up(arena: &mut Arena) -> Result<()> {
    let path = arena.dir.path().join("kafka-0").display().to_string();
    arena.storage.run(&format!("append {path} 1024 {RECORDS}"))?;
    arena.storage.run(&format!("append {path} 128 1"))?;
    Ok(())
}

pub(super) fn of_16_kib(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    run(arena, (name, "MiB/s", f64::from(1 << 20)), RECORDS, MIB, Bar(1.7))
}

pub(super) fn of_one_record(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    run(arena, (name, "MiB/s", f64::from(1 << 20)), 1, MIB_OF_ONE, Bar(1.6))
}

fn run(
    arena: &mut Arena,
    name: (&'static str, &'static str, f64),
    records: usize,
    mib: u64,
    bar: Bar,
) -> Result<Outcome> {
    let mut batches = Batches::build(COUNT, records)?.copies();
    let path = arena.dir.path().join("kafka-0");
    let kafkas = format!("append {} {mib} {records}", path.display());
    arena.contest(name, bar, &mut |dir| append(dir, &mut batches, mib << 20), &kafkas)
}

/// Bytes a second.
fn append(dir: &LogDir, batches: &mut [Vec<u8>], bytes: u64) -> Result<f64> {
    let log = dir.log("ours-0", dir.options())?;
    let start = Instant::now();
    while log.size_bytes() < bytes {
        for batch in &mut *batches {
            batch[..8].fill(0);
            log.append_as_leader(batch, LeaderRequest::new(LeaderEpoch::new(0)))?;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let bytes = log.size_bytes() as f64;
    Ok(bytes / start.elapsed().as_secs_f64())
}
