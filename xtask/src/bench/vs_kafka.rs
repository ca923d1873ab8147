//! Our log against Kafka's own classes, in turns: the same sizes, the same batches, one warm JVM.
//!
//! Each side times itself without its start, so that starting a process counts for neither.

mod appends;
mod compaction;
mod look_ups;
mod starts;

use anyhow::Result;

use super::log_dir::LogDir;
use super::outcome::{Bar, Outcome, Quartiles};
use crate::kafka::{Kafka, Storage};

/// Rounds of each contest. A slice is some hundredths of a second, a start a whole one.
const ROUNDS: usize = 11;

/// Runs the contests whose name holds `only`.
///
/// # Errors
///
/// When Kafka is not to be had, or a side fails.
pub(super) fn run(only: &str, tell: &mut dyn FnMut(&Outcome)) -> Result<()> {
    let kafka = Kafka::ready()?;
    let arena = &mut Arena { storage: Storage::start(&kafka)?, dir: LogDir::new("vs-kafka")? };
    appends::warm_up(arena)?;
    for (name, run) in CONTESTS {
        if name.contains(only) {
            tell(&run(arena, name)?);
        }
    }
    Ok(())
}

type Contest = fn(&mut Arena, &'static str) -> Result<Outcome>;

const CONTESTS: [(&str, Contest); 10] = [
    ("kafka-append-16KiB", appends::of_16_kib),
    ("kafka-append-1-record", appends::of_one_record),
    ("kafka-random-read", look_ups::by_offset),
    ("kafka-time-look-up", look_ups::by_recent_time),
    ("kafka-time-look-up-scattered", look_ups::by_scattered_time),
    ("kafka-recover-1-thread", starts::recover_by_one),
    ("kafka-recover-2-threads", starts::recover_by_two),
    ("kafka-open-2000-segments", starts::open_many),
    ("kafka-compact-1GiB", compaction::plain),
    ("kafka-compact-1GiB-zstd", compaction::compressed),
];

/// Where both sides work.
struct Arena {
    storage: Storage,
    dir: LogDir,
}

impl Arena {
    /// Measures both sides in turns, Kafka's twice a round. Each returns work a second, of which
    /// `unit` tells `scale` at a time.
    fn contest(
        &mut self,
        (name, unit, scale): (&'static str, &'static str, f64),
        bar: Bar,
        ours: &mut dyn FnMut(&LogDir) -> Result<f64>,
        kafkas: &str,
    ) -> Result<Outcome> {
        self.storage.run(kafkas)?;
        ours(&self.dir)?;
        let mut rates = [const { Vec::new() }; 3];
        for round in 0..ROUNDS {
            for turn in 0..3 {
                let turn = (turn + round) % 3;
                let rate = if turn == 0 { ours(&self.dir)? } else { self.storage.run(kafkas)? };
                rates[turn].push(rate);
            }
        }
        let [ours, kafka, again] = rates;
        let median = |rates: &[f64]| Quartiles::of(rates.to_vec()).median / scale;
        let ratios = |over: &[f64]| {
            Quartiles::of(over.iter().zip(&kafka).map(|(over, under)| over / under).collect())
        };
        Ok(Outcome::new(name, unit, bar, ROUNDS)
            .rates(median(&ours), median(&kafka))
            .speed(ratios(&ours), ratios(&again)))
    }
}
