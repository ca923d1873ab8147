//! The third judge: Kafka's own loader, on a copy of the same directory.
//!
//! Both must keep the same batches and say the same of the log's start and end. A difference that
//! stands in SHORTCOMINGS.md under "Deliberately different" is recognised by a rule that names its
//! row; any other one fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_log_manager::ManualClock;
use alluvium_record_format::{Entries, Entry, Offset, Position, Timestamp};
use alluvium_recovery::{CheckpointKind, CleanShutdown, OffsetCheckpoint, TopicPartition};
use anyhow::{Context, Result, ensure};

use super::disk::State;
use super::explained;
use super::workload::{self, NOW, TOPICS};
use crate::kafka::{Kafka, Storage};
use crate::workspace;

/// So many differences without a row are enough.
const MOST: usize = 20;

/// Kafka's loader in a warm JVM, and what came of it so far.
pub(super) struct Third {
    loader: Storage,
    wanted: u64,
    states: u64,
    logs: u64,
    same: u64,
    /// How often each row explained a difference.
    explained: BTreeMap<&'static str, u64>,
    /// What no row explains, with the place where the state is kept.
    unexplained: Vec<String>,
}

/// What a loader made of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Base offset, last offset and checksum of each batch.
    pub(super) batches: Vec<(i64, i64, u32)>,
    /// Bytes of log files behind what can be read as batches.
    pub(super) rest: usize,
}

/// One partition before the two starts, and after.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) state: &'a State,
    /// The partition in the state.
    pub(super) dir: &'a Path,
    pub(super) is_clean: bool,
    pub(super) recovery_point: i64,
    pub(super) log_start: i64,
    pub(super) ours: Kept,
    /// Or why the start failed.
    pub(super) kafka: Result<Kept, String>,
}

impl Third {
    /// Starts the JVM; it is to look at so many states.
    pub(super) fn start(wanted: u64) -> Result<Self> {
        let loader = Storage::start_as(&Kafka::ready()?, "harness.Loader")?;
        let (explained, unexplained) = (BTreeMap::new(), Vec::new());
        Ok(Self { loader, wanted, states: 0, logs: 0, same: 0, explained, unexplained })
    }

    pub(super) fn is_done(&self) -> bool {
        self.states >= self.wanted || self.unexplained.len() >= MOST
    }

    /// Compares both loads of one state, until all that were asked for are done.
    pub(super) fn check(&mut self, state: &State, scratch: &Path) -> Result<()> {
        if self.is_done() {
            return Ok(());
        }
        let (ours, kafkas) = (scratch.join("ours"), scratch.join("kafkas"));
        for dir in [&ours, &kafkas] {
            workspace::empty_dir(dir)?;
            state.write(dir)?;
        }
        let clock = Arc::new(ManualClock::new(Timestamp::new(NOW + 60_000)));
        let (manager, _tasks) = workload::start(&ours, &clock)?;
        self.states += 1;
        for name in TOPICS {
            let partition = TopicPartition::new(name, 0);
            let Ok(log) = manager.log(&partition) else { continue };
            let path = log.dir().path();
            let dir = path.strip_prefix(fs::canonicalize(&ours)?)?.to_path_buf();
            let ours =
                Kept::below(&path, log.log_start_offset().get(), log.log_end_offset().get())?;
            self.one(state, &partition, &dir, &kafkas, ours)
                .with_context(|| format!("{} beside Kafka's loader", dir.display()))?;
        }
        Ok(())
    }

    fn one(
        &mut self,
        state: &State,
        partition: &TopicPartition,
        dir: &Path,
        root: &Path,
        ours: Kept,
    ) -> Result<()> {
        let log_dir = dir.parent().unwrap_or(dir);
        let is_clean = state.files.contains_key(&log_dir.join(CleanShutdown::FILE_NAME));
        let recovery_point = offset(state, log_dir, CheckpointKind::RecoveryPoint, partition);
        let log_start = offset(state, log_dir, CheckpointKind::LogStart, partition);
        let path = root.join(dir);
        let command = format!("{} {is_clean} {recovery_point} {log_start}", path.display());
        let answer = self.loader.ask(&command)?;
        let kafka = if let Some(why) = answer.strip_prefix("failed ") {
            Err(why.to_owned())
        } else {
            let (start, end) = answer.split_once(' ').context("no range")?;
            Ok(Kept::below(&path, start.parse()?, end.parse()?)?)
        };
        self.logs += 1;
        if kafka.as_ref() == Ok(&ours) {
            self.same += 1;
            return Ok(());
        }
        let case = Case { state, dir, is_clean, recovery_point, log_start, ours, kafka };
        if let Some(row) = explained::row(&case) {
            *self.explained.entry(row).or_default() += 1;
            return Ok(());
        }
        let kept = workspace::scratch().join(format!("kafka-{}", self.unexplained.len()));
        workspace::empty_dir(&kept)?;
        state.write(&kept)?;
        self.unexplained.push(format!("{}: {}", kept.display(), case.told()));
        Ok(())
    }

    /// Says what came of it.
    pub(super) fn finish(self) -> Result<()> {
        let Self { states, logs, same, explained, unexplained, .. } = self;
        println!("  beside Kafka's loader: {states} states with {logs} logs, {same} the same");
        for (row, count) in &explained {
            println!("  {count:>6} by \"{row}\"");
        }
        let count = unexplained.len();
        ensure!(
            count == 0,
            "{count} differences that no row explains:\n{}",
            unexplained.join("\n")
        );
        Ok(())
    }
}

impl Kept {
    /// Reads the log files in use.
    fn below(dir: &Path, start: i64, end: i64) -> Result<Self> {
        let mut kept = Self { start, end, batches: Vec::new(), rest: 0 };
        for path in workspace::entries(dir)? {
            if path.extension().is_some_and(|extension| extension == "log") {
                let bytes = fs::read(&path).context("cannot read a log")?;
                kept.rest += add_batches(&bytes, &mut kept.batches);
            }
        }
        Ok(kept)
    }
}

/// Adds the batches of a log file; returns how many bytes are left behind them.
pub(super) fn add_batches(bytes: &[u8], batches: &mut Vec<(i64, i64, u32)>) -> usize {
    let mut read = 0;
    for entry in Entries::new(bytes, Position::new(0)) {
        let Ok(Entry::Batch(batch)) = entry else { break };
        let header = batch.header();
        batches.push((header.base_offset().get(), header.last_offset().get(), header.crc()));
        read += usize::try_from(header.size_bytes()).unwrap_or(0);
    }
    bytes.len() - read
}

fn offset(state: &State, log_dir: &Path, kind: CheckpointKind, partition: &TopicPartition) -> i64 {
    let path: PathBuf = kind.path(log_dir);
    let bytes = state.files.get(&path).map_or(&[][..], Vec::as_slice);
    // One that cannot be read says nothing.
    let checkpoint = OffsetCheckpoint::parse(bytes).unwrap_or_default();
    checkpoint.offset(partition).map_or(0, Offset::get)
}
