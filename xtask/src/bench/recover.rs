//! A start after a crash, against reading the log in pieces of 256 KiB with a CRC over each piece,
//! by as many threads.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;

use alluvium_log_manager::{LeaderRequest, LogConfig};
use alluvium_record_format::LeaderEpoch;
use alluvium_recovery::ScanConfig;
use anyhow::{Context, Result, ensure};

use super::Run;
use super::batches::{Batches, RECORDS};
use super::crc_pass::{Crc, LOG, PIECE, damage, read_range, sum};
use super::log_dir::LogDir;
use super::pair::{Bar, Bench, Outcome};

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] = &[
    ("recover-1GiB-1-thread", one_thread),
    ("recover-1GiB-2-threads", two_threads),
    ("recover-1GiB-1-thread-crate", one_thread_crate),
    ("recover-1GiB-2-threads-crate", two_threads_crate),
];

/// Bytes of the one segment: just below its limit of a gigabyte.
const LOG_BYTES: u64 = (1 << 30) - (32 << 20);

fn one_thread(bench: &Bench, name: &'static str) -> Result<Outcome> {
    run(bench, name, 1, alluvium_record_format::crc32c)
}

fn two_threads(bench: &Bench, name: &'static str) -> Result<Outcome> {
    run(bench, name, 2, alluvium_record_format::crc32c)
}

fn one_thread_crate(bench: &Bench, name: &'static str) -> Result<Outcome> {
    run(bench, name, 1, crc32c::crc32c)
}

fn two_threads_crate(bench: &Bench, name: &'static str) -> Result<Outcome> {
    run(bench, name, 2, crc32c::crc32c)
}

fn run(bench: &Bench, name: &'static str, threads: usize, crc: Crc) -> Result<Outcome> {
    let dir = LogDir::new("recover")?;
    let (path, end) = fill(&dir, "ours-0", LOG_BYTES)?;
    prove(&dir, threads)?;
    let log = path.join(LOG);
    let bytes = fs::metadata(&log).context("cannot look at the log")?.len();
    #[expect(clippy::cast_precision_loss, reason = "a gigabyte")]
    let mib = bytes as f64 / f64::from(1 << 20);
    let bar = if threads == 1 { Bar(0.8) } else { Bar(0.9) };
    bench.fewer(16).pair(
        name,
        (mib, "MiB/s"),
        bar,
        || {
            let recovered = recover(&dir, &path, threads)?;
            ensure!(recovered == end, "the log ends at {recovered}, not at {end}");
            Ok(recovered)
        },
        || read(&log, bytes, threads, crc),
    )
}

/// A log that nobody closed. Returns its folder and its end.
fn fill(dir: &LogDir, partition: &str, bytes: u64) -> Result<(PathBuf, u64)> {
    let config = LogConfig::builder().segment_bytes(1 << 30).build()?;
    let log = dir.log(partition, dir.options().config(config))?;
    let mut batches = Batches::build(256, RECORDS)?.copies();
    while log.size_bytes() < bytes {
        for batch in &mut batches {
            batch[..8].fill(0);
            log.append_as_leader(batch, LeaderRequest::new(LeaderEpoch::new(0)))?;
        }
    }
    ensure!(log.segment_count() == 1, "the log has rolled");
    Ok((dir.path().join(partition), log.log_end_offset().get().unsigned_abs()))
}

/// One flipped bit in the middle cuts the log there.
fn prove(dir: &LogDir, threads: usize) -> Result<()> {
    let (path, end) = fill(dir, "proof-0", 16 << 20)?;
    let log = path.join(LOG);
    damage(&log)?;
    let recovered = recover(dir, &path, threads)?;
    ensure!(recovered > 0 && recovered < end, "a flipped bit is not found: no check ran");
    Ok(())
}

/// Opens the log as after a crash, with nothing known to be durable.
fn recover(dir: &LogDir, path: &Path, threads: usize) -> Result<u64> {
    let options = dir.options().clean(false).scan(ScanConfig::new().threads(threads));
    Ok(options.open(path)?.log_end_offset().get().unsigned_abs())
}

fn read(log: &Path, bytes: u64, threads: usize, crc: Crc) -> Result<u64> {
    let file = File::open(log).context("cannot open the log")?;
    let pieces = bytes.div_ceil(PIECE as u64).div_ceil(threads as u64);
    let share = pieces * PIECE as u64;
    thread::scope(|scope| {
        let read = |thread: u64| {
            let (start, end) = (thread * share, ((thread + 1) * share).min(bytes));
            let file = &file;
            scope.spawn(move || read_range(file, start, end, crc))
        };
        let readers: Vec<_> = (0..threads as u64).map(read).collect();
        sum(readers)
    })
}
