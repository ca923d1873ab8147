//! Appends to a log, as the leader with every check and as a follower, against `pwrite` of the
//! same buffers to a file that grows.

use alluvium_log_manager::{LeaderRequest, Log};
use alluvium_record_format::{BatchMut, LeaderEpoch, Offset, Position, crc32c};
use anyhow::{Context, Result};

use super::Run;
use super::batches::{Batches, RECORDS};
use super::growing::{FILE_BYTES, GrowingFile};
use super::log_dir::LogDir;
use super::pair::{Bar, Bench, Outcome, Slice, must_refuse};

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] = &[
    ("leader-append-16KiB", leader),
    ("follower-append-16KiB", follower),
    ("leader-append-1-record", leader_of_one),
    ("leader-append-watched-twice", watched),
];

/// Batches of about 16 KiB a slice: 1 MiB.
const COUNT: usize = 64;

/// Batches of one record a slice: 170 KiB.
const COUNT_OF_ONE: usize = 1_000;

const EPOCH: LeaderEpoch = LeaderEpoch::new(0);

fn leader(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let batches = Batches::build(COUNT, RECORDS)?;
    run(bench, name, &batches, Role::Leader, (batches.mib(), "MiB/s"), Bar(0.65))
}

fn follower(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let batches = Batches::build(COUNT, RECORDS)?;
    run(bench, name, &batches, Role::Follower, (batches.mib(), "MiB/s"), Bar(0.8))
}

fn leader_of_one(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let batches = Batches::build(COUNT_OF_ONE, 1)?;
    run(bench, name, &batches, Role::Leader, (batches.count() / 1e6, "M/s"), Bar(0.4))
}

/// What an append costs that passes each counter, span and event once more while nobody listens:
/// were it to show, the ones that it passes anyway would too.
fn watched(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let batches = Batches::build(COUNT_OF_ONE, 1)?;
    let dir = LogDir::new("watched")?;
    let side = |partition| Appends {
        dir: &dir,
        batches: batches.copies(),
        role: Role::Leader,
        partition,
        log: None,
    };
    let mut ours = WatchedTwice(side("ours-0"));
    let work = (batches.count() / 1e6, "M/s");
    bench.sides(name, work, Bar(0.98), &mut ours, &mut side("twin-0"))
}

/// As whom a slice appends.
#[derive(Clone, Copy, Debug)]
enum Role {
    Leader,
    Follower,
}

fn run(
    bench: &Bench,
    name: &'static str,
    batches: &Batches,
    role: Role,
    work: (f64, &'static str),
    bar: Bar,
) -> Result<Outcome> {
    let dir = LogDir::new("leader")?;
    prove(&dir, batches, role)?;
    let partition = "ours-0";
    let mut ours = Appends { dir: &dir, batches: batches.copies(), role, partition, log: None };
    let mut twin = GrowingFile::new(dir.path().join("twin"), batches);
    bench.sides(name, work, bar, &mut ours, &mut twin)
}

/// A flipped bit is refused, and to a leader also a record that is wrong under a right checksum.
fn prove(dir: &LogDir, batches: &Batches, role: Role) -> Result<()> {
    let log = dir.log("proof-0", dir.options())?;
    let first = batches.iter().next().context("there are batches")?;
    role.append(&log, &mut first.to_vec())?;
    let mut flipped = first.to_vec();
    let middle = 61 + (flipped.len() - 61) / 2;
    flipped[middle] ^= 1;
    must_refuse("the append", &role.append(&log, &mut flipped))?;
    if matches!(role, Role::Leader) {
        let mut wrong = first.to_vec();
        wrong[61] ^= 2; // the length of the first record
        let crc = crc32c(&wrong[21..]).to_be_bytes();
        wrong[17..21].copy_from_slice(&crc);
        must_refuse("the leader", &role.append(&log, &mut wrong))?;
    }
    Ok(())
}

impl Role {
    fn append(self, log: &Log, batch: &mut [u8]) -> Result<()> {
        match self {
            Self::Leader => log.append_as_leader(batch, LeaderRequest::new(EPOCH))?,
            Self::Follower => log.append_as_follower(batch, EPOCH)?,
        };
        Ok(())
    }
}

struct Appends<'a> {
    dir: &'a LogDir,
    batches: Vec<Vec<u8>>,
    role: Role,
    partition: &'static str,
    log: Option<Log>,
}

impl Slice for Appends<'_> {
    /// Outside the measured time: the offsets that a client or a leader sends, and a new log when
    /// one has as many bytes as the twin's file.
    fn prepare(&mut self) -> Result<()> {
        if self.log.as_ref().is_none_or(|log| log.size_bytes() >= FILE_BYTES as u64) {
            // The old one is let go first: a partition has one object over it at a time.
            self.log = None;
            self.log = Some(self.dir.log(self.partition, self.dir.options())?);
        }
        let mut next = match (&self.log, self.role) {
            (Some(log), Role::Follower) => log.log_end_offset(),
            _ => Offset::new(0),
        };
        for bytes in &mut self.batches {
            let mut batch = BatchMut::parse(bytes, Position::new(0))?;
            batch.set_base_offset(next);
            if matches!(self.role, Role::Follower) {
                next = batch.header().next_offset();
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<u64> {
        let log = self.log.as_ref().context("prepared")?;
        for batch in &mut self.batches {
            self.role.append(log, batch)?;
        }
        Ok(log.log_end_offset().get().unsigned_abs())
    }
}

/// An append that passes as much again of what reports on it.
struct WatchedTwice<'a>(Appends<'a>);

impl Slice for WatchedTwice<'_> {
    fn prepare(&mut self) -> Result<()> {
        self.0.prepare()
    }

    fn run(&mut self) -> Result<u64> {
        let Appends { batches, role, log, .. } = &mut self.0;
        let log = log.as_ref().context("prepared")?;
        for batch in batches {
            let _span = tracing::debug_span!("append", log = log.name()).entered();
            role.append(log, batch)?;
            metrics::counter!("bench_bytes_total").increment(batch.len() as u64);
            tracing::debug!(log = log.name(), bytes = batch.len(), "appended");
        }
        Ok(log.log_end_offset().get().unsigned_abs())
    }
}
