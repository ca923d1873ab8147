//! `verify` over a gigabyte of uncompressed batches, against reading the logs in pieces of 256 KiB
//! with a CRC over each piece, by as many threads. The CRC is ours in one pair of benches, and the
//! `crc32c` crate's, which takes twice as long, in the other: both stand for a bare pass.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

use alluvium::verify;
use alluvium_segment::SegmentConfig;
use anyhow::{Context, Result, ensure};

use super::Run;
use super::batches::{Batches, RECORDS};
use super::crc_pass::{Crc, LOG, damage, read_range, sum};
use super::log_dir::LogDir;
use super::pair::{Bar, Bench, Outcome, must_refuse};

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] = &[
    ("verify-1GiB-1-thread", one_thread),
    ("verify-1GiB-2-threads", two_threads),
    ("verify-1GiB-1-thread-crate", one_thread_crate),
    ("verify-1GiB-2-threads-crate", two_threads_crate),
];

/// Partitions of one segment each: with [`BATCHES`], a gigabyte.
const PARTITIONS: usize = 64;

/// Batches of 16 KiB in each.
const BATCHES: usize = 1_024;

/// Partitions that each thread gets in a slice: 64 MiB, so that starting threads does not count.
const A_THREAD: usize = 4;

/// One thread on both sides, our CRC.
fn one_thread(bench: &Bench, name: &'static str) -> Result<Outcome> {
    run(bench, name, 1, alluvium_record_format::crc32c)
}

/// Two threads on both sides, our CRC.
fn two_threads(bench: &Bench, name: &'static str) -> Result<Outcome> {
    run(bench, name, 2, alluvium_record_format::crc32c)
}

/// One thread on both sides, the CRC of the `crc32c` crate in the twin.
fn one_thread_crate(bench: &Bench, name: &'static str) -> Result<Outcome> {
    run(bench, name, 1, crc32c::crc32c)
}

/// Two threads on both sides, the CRC of the `crc32c` crate in the twin.
fn two_threads_crate(bench: &Bench, name: &'static str) -> Result<Outcome> {
    run(bench, name, 2, crc32c::crc32c)
}

fn run(bench: &Bench, name: &'static str, threads: usize, crc: Crc) -> Result<Outcome> {
    let dir = LogDir::new("verify")?;
    let batches = Batches::build(BATCHES, RECORDS)?;
    let partitions: Vec<PathBuf> = (0..PARTITIONS)
        .map(|number| fill(&dir, &format!("part-{number}"), &batches))
        .collect::<Result<_>>()?;
    prove(&dir, &batches)?;
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let mib = (batches.bytes.len() * A_THREAD * threads) as f64 / f64::from(1 << 20);
    let groups: Vec<&[PathBuf]> = partitions.chunks(A_THREAD * threads).collect();
    let (mut ours, mut twins) = (groups.iter().cycle(), groups.iter().cycle());
    bench.pair(
        name,
        (mib, "MiB/s"),
        Bar(0.75),
        || check(ours.next().context("cycles")?, threads),
        || read(twins.next().context("cycles")?, threads, crc),
    )
}

/// Writes a partition as a log would, index included, and closes it.
fn fill(dir: &LogDir, partition: &str, batches: &Batches) -> Result<PathBuf> {
    let mut active = dir.segment(partition, SegmentConfig::new())?;
    for batch in batches.iter() {
        active.append(batch)?;
    }
    active.seal()?;
    Ok(dir.path().join(partition))
}

/// One flipped bit among the records is found.
fn prove(dir: &LogDir, batches: &Batches) -> Result<()> {
    let partition = fill(dir, "proof-0", batches)?;
    damage(&partition.join(LOG))?;
    must_refuse("verify", &check(&[partition], 1))
}

fn check(partitions: &[PathBuf], threads: usize) -> Result<u64> {
    let jobs = NonZeroUsize::new(threads).context("there are threads")?;
    let summary = verify(partitions, jobs);
    ensure!(summary.damage == 0 && summary.failures == 0, "verify finds {summary:?}");
    ensure!(summary.batches == (BATCHES * partitions.len()) as u64, "verify saw {summary:?}");
    Ok(summary.records)
}

fn read(partitions: &[PathBuf], threads: usize, crc: Crc) -> Result<u64> {
    thread::scope(|scope| {
        let shares = partitions.chunks(partitions.len().div_ceil(threads));
        let read_all = |share: &[PathBuf]| share.iter().map(|it| read_one(it, crc)).sum();
        let readers: Vec<_> = shares.map(|share| scope.spawn(move || read_all(share))).collect();
        sum(readers)
    })
}

fn read_one(partition: &Path, crc: Crc) -> Result<u64> {
    let file = File::open(partition.join(LOG)).context("cannot open a log")?;
    let bytes = file.metadata().context("cannot look at a log")?.len();
    read_range(&file, 0, bytes, crc)
}
