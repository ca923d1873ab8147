//! Compaction of a log that Kafka wrote, by one thread and 128 MiB of map on each side.

use std::time::Instant;

use alluvium_cleaner::{Cleaner, CleanerConfig};
use anyhow::{Result, ensure};

use super::Arena;
use crate::bench::compact::{clean, link};
use crate::bench::outcome::{Bar, Outcome, Quartiles};

/// Rounds of a contest: a turn takes some seconds.
const ROUNDS: usize = 5;

pub(super) fn plain(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    run(arena, name, "1024 none", Bar(5.0))
}

pub(super) fn compressed(arena: &mut Arena, name: &'static str) -> Result<Outcome> {
    run(arena, name, "128 zstd", Bar(2.0))
}

fn run(arena: &mut Arena, name: &'static str, log: &str, bar: Bar) -> Result<Outcome> {
    let path = arena.dir.path().to_path_buf();
    arena.storage.run(&format!("fill {} {log}", path.join("source-0").display()))?;
    let mut cleaner = Cleaner::new(CleanerConfig::new());
    let mut rates = [const { Vec::new() }; 3];
    for round in 0..=ROUNDS {
        for turn in 0..3 {
            let turn = (turn + round) % 3;
            let rate = if turn == 0 {
                link(&path, "source-0", "ours-0")?;
                ours(arena, &mut cleaner)?
            } else {
                link(&path, "source-0", "kafka-0")?;
                arena.storage.run(&format!("clean {}", path.join("kafka-0").display()))?
            };
            // The first round warms both up.
            if round > 0 {
                rates[turn].push(rate);
            }
        }
    }
    let [ours, kafka, again] = rates;
    let median = |rates: &[f64]| Quartiles::of(rates.to_vec()).median / f64::from(1 << 20);
    let ratios = |over: &[f64]| {
        Quartiles::of(over.iter().zip(&kafka).map(|(over, under)| over / under).collect())
    };
    Ok(Outcome::new(name, "MiB/s", bar, ROUNDS)
        .rates(median(&ours), median(&kafka))
        .speed(ratios(&ours), ratios(&again)))
}

/// Bytes of input a second.
fn ours(arena: &Arena, cleaner: &mut Cleaner) -> Result<f64> {
    let start = Instant::now();
    let report = clean(&arena.dir, "ours-0", cleaner)?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(!report.is_map_full, "the map is full");
    #[expect(clippy::cast_precision_loss, reason = "a gigabyte")]
    let bytes = report.counts.bytes_read as f64;
    Ok(bytes / seconds)
}
