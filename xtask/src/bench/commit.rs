//! Group commit: 64 writers share syncs, against a lock around a write and a sync for each; and
//! one writer alone, against a write and a sync.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use alluvium_log_manager::{Durability, LeaderRequest, Log};
use alluvium_record_format::LeaderEpoch;
use anyhow::{Context, Result, ensure};

use super::Run;
use super::batches::Batches;
use super::crew::Crew;
use super::io_count::IoCount;
use super::log_dir::LogDir;
use super::pair::{Bar, Bench, Outcome, Slice};

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] =
    &[("group-commit-64-writers", shared), ("group-commit-1-writer", alone)];

const WRITERS: usize = 64;

/// Appends of each writer in a slice.
const APPENDS: usize = 16;

/// Records of a batch: about a kilobyte.
const RECORDS: usize = 10;

fn shared(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let (count, io) = IoCount::watched();
    let dir = LogDir::with_io("commit", io)?;
    let log = dir.log("ours-0", dir.options().durability(Durability::GroupCommit))?;
    let batches = Batches::build(WRITERS, RECORDS)?;
    let mut ours = Crew::start(batches.copies().into_iter().map(|it| writer(&log, it)).collect());
    let file = File::create(dir.path().join("twin")).context("cannot make the twin's file")?;
    let file = Arc::new(Mutex::new((file, 0)));
    let twins = batches.copies().into_iter().map(|batch| locked_writer(&file, batch));
    let mut twin = Crew::start(twins.collect());
    ours.run()?;
    let before = count.syncs();
    let work = f64::from(u32::try_from(WRITERS * APPENDS)?);
    let bench = bench.fewer(25);
    let appends_before = log.log_end_offset();
    let outcome = bench.sides(name, (work, "/s"), Bar(10.0), &mut ours, &mut twin)?;
    let records = log.log_end_offset().get() - appends_before.get();
    let appends = f64::from(u32::try_from(records)?) / f64::from(u32::try_from(RECORDS)?);
    let syncs = f64::from(u32::try_from(count.syncs() - before)?);
    Ok(outcome.at_least("appends a sync", appends / syncs, 24.0))
}

/// One writer waits for nobody, and for one sync each time.
fn alone(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let (count, io) = IoCount::watched();
    let dir = LogDir::with_io("commit-alone", io)?;
    let log = dir.log("ours-0", dir.options().durability(Durability::GroupCommit))?;
    let batches = Batches::build(1, RECORDS)?;
    let mut ours = writer(&log, batches.bytes.clone());
    let file = File::create(dir.path().join("twin")).context("cannot make the twin's file")?;
    let mut twin = locked_writer(&Arc::new(Mutex::new((file, 0))), batches.bytes.clone());
    ours()?;
    let (syncs_before, appends_before) = (count.syncs(), log.log_end_offset());
    let outcome = bench.pair(
        name,
        (f64::from(u32::try_from(APPENDS)?), "/s"),
        Bar(0.9),
        &mut ours,
        &mut twin,
    )?;
    let records = log.log_end_offset().get() - appends_before.get();
    let appends = records / i64::try_from(RECORDS)?;
    ensure!(i64::try_from(count.syncs() - syncs_before)? == appends, "not a sync for each append");
    Ok(outcome)
}

fn writer(log: &Log, mut batch: Vec<u8>) -> impl FnMut() -> Result<u64> + Send + use<> {
    let log = log.clone();
    move || {
        let mut sum = 0;
        for _ in 0..APPENDS {
            batch[..8].fill(0);
            let request = LeaderRequest::new(LeaderEpoch::new(0));
            let appended = log.append_as_leader(&mut batch, request)?;
            let last = appended.last_offset.context("a batch was appended")?;
            ensure!(appended.durable_offset > last, "the append returned before it was durable");
            sum += last.get().unsigned_abs();
        }
        Ok(sum)
    }
}

fn locked_writer(
    file: &Arc<Mutex<(File, u64)>>,
    batch: Vec<u8>,
) -> impl FnMut() -> Result<u64> + Send + use<> {
    let file = Arc::clone(file);
    move || {
        let mut sum = 0;
        for _ in 0..APPENDS {
            let mut held = file.lock().unwrap_or_else(PoisonError::into_inner);
            let (file, at) = &mut *held;
            file.write_all_at(&batch, *at).context("cannot write")?;
            file.sync_data().context("cannot sync")?;
            *at += batch.len() as u64;
            sum += *at;
        }
        Ok(sum)
    }
}
