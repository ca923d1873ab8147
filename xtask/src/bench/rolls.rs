//! The slowest appends while a log rolls, beside a bare twin that makes a new file as often and
//! syncs the old one in the background.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use alluvium_log_manager::{LeaderRequest, Log, LogConfig};
use alluvium_record_format::LeaderEpoch;
use anyhow::{Context, Result, ensure};

use super::Run;
use super::batches::{Batches, RECORDS};
use super::log_dir::LogDir;
use super::pair::{Bar, Bench, Outcome, Slice};

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] = &[("append-across-1000-rolls", run)];

const ROLLS: usize = 1_000;

/// Appends between two rolls: a segment of 64 KiB.
const APPENDS: usize = 4;

/// Rolls after which a side starts anew: so many files stay at once.
const FILES: usize = 250;

fn run(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let dir = LogDir::new("rolls")?;
    let batches = Batches::build(APPENDS, RECORDS)?;
    let segment_bytes = u32::try_from(batches.bytes.len())?;
    let mut ours = Ours {
        dir: &dir,
        config: LogConfig::builder().internal_segment_bytes(Some(segment_bytes)).build()?,
        batches: batches.copies(),
        log: None,
        logs: 0,
        latencies: Vec::new(),
    };
    let mut twin = Twin {
        dir: dir.path().join("twin"),
        batches: batches.copies(),
        syncing: None,
        files: 0,
        latencies: Vec::new(),
    };
    let work = f64::from(u32::try_from(APPENDS)?);
    let bench = bench.of_rounds(ROLLS);
    let outcome = bench.sides(name, (work, "/s"), Bar::NONE, &mut ours, &mut twin)?;
    let (ours, twin) = (&mut ours.latencies, &mut twin.latencies);
    let rolling = |all: &[f64]| all.iter().copied().step_by(APPENDS).collect::<Vec<f64>>();
    let (mut our_rolls, mut twin_rolls) = (rolling(ours), rolling(twin));
    Ok(outcome
        .count("us: our append, median", at(ours, 0.5))
        .count("us: our append that rolls, median", at(&mut our_rolls, 0.5))
        .count("us: our append, 99 of 100", at(ours, 0.99))
        .count("us: our append, slowest", at(ours, 1.0))
        .count("us: the twin's append, median", at(twin, 0.5))
        .count("us: the twin's append that makes a file, median", at(&mut twin_rolls, 0.5))
        .count("us: the twin's append, 99 of 100", at(twin, 0.99))
        .count("us: the twin's append, slowest", at(twin, 1.0)))
}

/// The latency in microseconds that this share of the appends does not pass.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index of some thousands"
)]
fn at(latencies: &mut [f64], share: f64) -> f64 {
    latencies.sort_by(f64::total_cmp);
    latencies[((latencies.len() - 1) as f64 * share) as usize] * 1e6
}

/// Four appends, the first of which rolls.
struct Ours<'a> {
    dir: &'a LogDir,
    config: LogConfig,
    batches: Vec<Vec<u8>>,
    log: Option<Log>,
    logs: usize,
    latencies: Vec<f64>,
}

impl Slice for Ours<'_> {
    fn prepare(&mut self) -> Result<()> {
        if let Some(log) = &self.log {
            ensure!(
                log.segment_count() > 1 || log.size_bytes() <= 1 << 17,
                "the log does not roll"
            );
        }
        if self.log.as_ref().is_none_or(|log| log.segment_count() > FILES) {
            if let Some(log) = self.log.take() {
                log.close()?;
            }
            let options = self.dir.options().config(self.config.clone());
            // Work in the background may still hold the old one: the new one has its own folder.
            self.logs += 1;
            self.log = Some(self.dir.log(&format!("ours-{}", self.logs), options)?);
        }
        for batch in &mut self.batches {
            batch[..8].fill(0);
        }
        Ok(())
    }

    fn run(&mut self) -> Result<u64> {
        let log = self.log.as_ref().context("prepared")?;
        for batch in &mut self.batches {
            let start = Instant::now();
            log.append_as_leader(batch, LeaderRequest::new(LeaderEpoch::new(0)))?;
            self.latencies.push(start.elapsed().as_secs_f64());
        }
        Ok(log.log_end_offset().get().unsigned_abs())
    }
}

/// A new file and four writes; a thread syncs the file before.
struct Twin {
    dir: PathBuf,
    batches: Vec<Vec<u8>>,
    syncing: Option<(Sender<File>, JoinHandle<std::io::Result<()>>)>,
    files: usize,
    latencies: Vec<f64>,
}

impl Slice for Twin {
    fn prepare(&mut self) -> Result<()> {
        if self.files.is_multiple_of(FILES) {
            if let Some((sender, thread)) = self.syncing.take() {
                drop(sender);
                thread.join().expect("syncing does not panic").context("cannot sync")?;
            }
            crate::workspace::empty_dir(&self.dir)?;
            let (sender, files) = mpsc::channel::<File>();
            let sync = move || files.iter().try_for_each(|file| file.sync_data());
            self.syncing = Some((sender, thread::spawn(sync)));
        }
        self.files += 1;
        Ok(())
    }

    fn run(&mut self) -> Result<u64> {
        let (sender, _) = self.syncing.as_ref().context("prepared")?;
        let mut start = Instant::now();
        let file = File::create_new(self.dir.join(format!("{:020}.log", self.files)))?;
        let mut at = 0;
        for batch in &self.batches {
            file.write_all_at(batch, at).context("cannot write")?;
            at += batch.len() as u64;
            let end = Instant::now();
            self.latencies.push((end - start).as_secs_f64());
            start = end;
        }
        sender.send(file).ok().context("the syncing thread is gone")?;
        Ok(at)
    }
}
