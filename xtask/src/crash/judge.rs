//! The judges: our recovery beside the slow model, and a second start.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_log_manager::{LeaderRequest, Log, LogManager, ManagerError, ManualClock};
use alluvium_record_format::{Codec, LeaderEpoch, Timestamp};
use alluvium_recovery::TopicPartition;
use anyhow::{Context, Result, ensure};

use super::agreed;
use super::disk::State;
use super::history::History;
use super::producers::Producer;
use super::workload::{self, NOW, TOPICS};
use crate::proof::{Found, read_all, read_contents, stamped_batch};
use crate::workspace;

/// The stamp of the record that is appended at the end; no workload comes so far.
const APPENDED: u64 = 1 << 40;

/// Of so many disks, one is stopped cleanly after the second start, and started a third time.
const STOPPED: usize = 3;

/// Opens a state, and checks everything that must hold.
///
/// # Errors
///
/// What does not hold.
pub(super) fn check(state: &State, history: &History, dir: &Path) -> Result<()> {
    workspace::empty_dir(dir)?;
    state.write(dir)?;
    check_disk(dir, history)
}

/// As [`check`], of a disk as it lies there.
///
/// # Errors
///
/// As [`check`].
pub(crate) fn check_disk(dir: &Path, history: &History) -> Result<()> {
    let clock = Arc::new(ManualClock::new(Timestamp::new(NOW + 60_000)));
    let (manager, tasks) = match workload::start(dir, &clock) {
        Ok(started) => started,
        // As in Kafka: where a log lies in two directories, a person has to choose.
        Err(error) if history.is_moving() && is_same_partition(&error) => return Ok(()),
        Err(error) => return Err(error.context("the first start")),
    };
    let first = contents(&manager, history, true).context("after the first start")?;
    drop((manager, tasks));
    let files = log_files(dir)?;

    // Without a shutdown: nothing is left to mend.
    let (mut manager, mut tasks) = workload::start(dir, &clock).context("the second start")?;
    let mut second = contents(&manager, history, false).context("after the second start")?;
    ensure!(
        is_same(&first, &second),
        "a second start changed what the logs hold: {first:?} {second:?}"
    );
    ensure!(files == log_files(dir)?, "a second start changed the bytes of a log");
    if files.values().map(Vec::len).sum::<usize>() % STOPPED == 0 {
        manager.stop(None).context("the first shutdown")?;
        drop((manager, tasks));
        (manager, tasks) = workload::start(dir, &clock).context("the third start")?;
        second = contents(&manager, history, false).context("after the third start")?;
        ensure!(is_same(&first, &second), "a shutdown changed what the logs hold: {second:?}");
    }
    for (name, content) in second {
        let log = manager.log(&TopicPartition::new(topic_of(&name), 0))?;
        agreed::go_on(&log, &content.producers, APPENDED + 1..APPENDED + 100)
            .and_then(|()| append_and_read(&log))
            .with_context(|| format!("an append to {name}"))?;
    }
    manager.stop(None).context("the shutdown")?;
    drop(tasks);
    Ok(())
}

fn is_same_partition(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ManagerError::SamePartition { .. }))
}

/// What a log holds.
#[derive(Debug)]
struct Content {
    start: i64,
    records: Vec<Found>,
    /// Those whose next batch it must know.
    producers: BTreeMap<i64, Producer>,
}

type Contents = BTreeMap<String, Content>;

fn is_same(one: &Contents, other: &Contents) -> bool {
    let same = |(one, other): ((&String, &Content), (&String, &Content))| {
        let (name, one, other) = (one.0 == other.0, one.1, other.1);
        name && (one.start, &one.records) == (other.start, &other.records)
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

fn contents(manager: &LogManager, history: &History, is_judged: bool) -> Result<Contents> {
    let mut contents = BTreeMap::new();
    for name in TOPICS {
        let partition = TopicPartition::new(name, 0);
        let model = history.log(&partition.to_string());
        let Ok(log) = manager.log(&partition) else {
            if let Some(model) = model {
                model.check(0, 0, &[]).with_context(|| format!("{partition} is gone"))?;
            }
            continue;
        };
        let found = read_contents(&log, false).with_context(|| partition.to_string())?;
        let (start, end) = (log.log_start_offset().get(), log.log_end_offset().get());
        let mut producers = BTreeMap::new();
        if let Some(model) = model {
            if is_judged {
                model.check(start, end, &found.records).with_context(|| partition.to_string())?;
            }
            producers =
                agreed::check(&log, model, &found).with_context(|| partition.to_string())?;
        }
        let content = Content { start, records: found.records, producers };
        contents.insert(partition.to_string(), content);
    }
    Ok(contents)
}

fn topic_of(name: &str) -> &str {
    name.trim_end_matches("-0")
}

fn append_and_read(log: &Log) -> Result<()> {
    let mut batch = stamped_batch(APPENDED, 1, 10, Codec::None, NOW)?;
    let end = log.log_end_offset().get();
    let epoch = log.latest_epoch().unwrap_or(LeaderEpoch::new(0));
    let appended = log.append_as_leader(&mut batch, LeaderRequest::new(epoch))?;
    ensure!(appended.first_offset.is_some_and(|offset| offset.get() == end), "not at the end");
    let last = read_all(log, false)?.last().copied();
    ensure!(last == Some(Found { offset: end, stamp: APPENDED }), "it is not read: {last:?}");
    Ok(())
}

/// The bytes of every log file that is in use.
fn log_files(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for dir in ["a", "b"] {
        let dir = root.join(dir);
        if !dir.exists() {
            continue;
        }
        for partition in workspace::entries(&dir)?.into_iter().filter(|path| path.is_dir()) {
            for path in workspace::entries(&partition)? {
                if path.extension().is_some_and(|extension| extension == "log") {
                    let bytes = fs::read(&path).context("cannot read a log")?;
                    files.insert(path, bytes);
                }
            }
        }
    }
    Ok(files)
}
