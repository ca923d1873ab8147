//! What was acknowledged, and whether it is there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use alluvium_log_manager::LogManager;
use alluvium_recovery::TopicPartition;
use anyhow::{Context, Result, ensure};

use super::child;
use crate::proof::read_all;
use crate::workspace;

/// What the processes of one disk have acknowledged.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    /// The stamp at each offset of a log.
    logs: BTreeMap<String, BTreeMap<i64, u64>>,
    /// Bytes that were taken from each file.
    taken: HashMap<String, usize>,
}

/// What one process added.
#[derive(Debug, Default)]
pub(super) struct New {
    pub(super) appends: usize,
    pub(super) records: u64,
    pub(super) flushed: usize,
}

impl Acknowledged {
    /// Reads what was added since the last time.
    pub(super) fn take(&mut self, acks: &Path) -> Result<New> {
        let mut new = New::default();
        if !acks.exists() {
            return Ok(new);
        }
        for path in workspace::entries(acks)? {
            let text = fs::read_to_string(&path).context("cannot read acknowledgements")?;
            let done = self.taken.entry(workspace::name(&path)).or_default();
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            for line in text[*done..whole].lines() {
                add(&mut self.logs, line, &mut new)
                    .with_context(|| format!("{}: {line}", path.display()))?;
            }
            *done = whole;
        }
        Ok(new)
    }

    /// Reads every log and compares.
    pub(super) fn check(&self, opened: &Opened) -> Result<()> {
        for partition in child::partitions() {
            let name = partition.to_string();
            let Some(expected) = self.logs.get(&name) else { continue };
            opened.check(&partition, expected).with_context(|| name)?;
        }
        Ok(())
    }
}

fn add(logs: &mut BTreeMap<String, BTreeMap<i64, u64>>, line: &str, new: &mut New) -> Result<()> {
    let mut words = line.split(' ');
    let name = words.next().context("no name")?.to_owned();
    let last: i64 = words.next().context("no offset")?.parse()?;
    let numbers: Result<Vec<u64>, _> = words.map(str::parse).collect();
    let [stamp, count, flushed] = numbers?[..] else { anyhow::bail!("not an acknowledgement") };
    let log = logs.entry(name).or_default();
    let first = last + 1 - i64::try_from(count)?;
    for (offset, stamp) in (first..=last).zip(stamp..) {
        ensure!(log.insert(offset, stamp).is_none(), "offset {offset} was given out twice");
    }
    new.appends += 1;
    new.records += count;
    new.flushed += usize::from(flushed == 1);
    Ok(())
}

/// The logs, opened after a kill.
#[derive(Debug)]
pub(super) struct Opened {
    manager: LogManager,
}

impl Opened {
    pub(super) fn start(disk: &Path) -> Result<Self> {
        let manager = LogManager::start(child::broker(disk)?).context("cannot start the logs")?;
        Ok(Self { manager })
    }

    fn check(&self, partition: &TopicPartition, expected: &BTreeMap<i64, u64>) -> Result<()> {
        let log = self.manager.log(partition)?;
        let found: BTreeMap<i64, u64> =
            read_all(&log, true)?.into_iter().map(|record| (record.offset, record.stamp)).collect();
        for (offset, stamp) in expected {
            let there = found.get(offset);
            ensure!(there.is_some(), "{offset} was acknowledged, the log ends at {}", found.len());
            ensure!(there == Some(stamp), "{offset} holds {there:?}, {stamp} was acknowledged");
        }
        let stamps: HashSet<_> = found.values().collect();
        ensure!(stamps.len() == found.len(), "a record is there twice");
        Ok(())
    }

    /// A controlled shutdown: the next process starts without recovery.
    pub(super) fn stop(self) -> Result<()> {
        let stopped = self.manager.stop(None)?;
        ensure!(stopped.dirs.iter().all(|dir| dir.is_clean), "not stopped cleanly: {stopped:?}");
        Ok(())
    }
}
