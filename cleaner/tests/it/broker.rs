//! The logs of a broker with a cleaner, for tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alluvium_cleaner::{CleanerGate, LogCleaner, LogCleanerConfig, RetryPolicy};
use alluvium_log_manager::{
    BrokerConfig, CleanupPolicy, Inline, Isolation, LeaderRequest, Log, LogConfig,
    LogConfigBuilder, LogManager, ManualClock, NewLog,
};
use alluvium_record_format::{Entries, Entry, LeaderEpoch, Offset, Position, Timestamp};
use alluvium_recovery::{CheckpointKind, OffsetCheckpoint, TopicPartition};
use alluvium_segment::{FilePool, Io, IoCall, IoHook, IoVerdict};
use tempfile::TempDir;

use crate::support::{NOW, Pair, batch, records_of};

type Rule = Box<dyn FnMut(&IoCall<'_>) -> IoVerdict + Send>;
type Watch = Box<dyn FnOnce() + Send>;

/// Decides on the system calls of the logs.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Option<Rule>>, Mutex<Option<Watch>>);

impl Faults {
    /// Runs before the next call that the rule fails, and may make others.
    pub(crate) fn before_failure(&self, watch: impl FnOnce() + Send + 'static) {
        *self.1.lock().unwrap() = Some(Box::new(watch));
    }

    pub(crate) fn set(&self, rule: impl FnMut(&IoCall<'_>) -> IoVerdict + Send + 'static) {
        *self.rule() = Some(Box::new(rule));
    }

    pub(crate) fn clear(&self) {
        *self.rule() = None;
    }

    /// Also after a rule that panicked.
    fn rule(&self) -> MutexGuard<'_, Option<Rule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IoHook for Faults {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        let verdict = self.rule().as_mut().map_or(IoVerdict::Proceed, |rule| rule(call));
        if matches!(verdict, IoVerdict::Fail(_)) {
            let watch = self.1.lock().unwrap().take();
            if let Some(watch) = watch {
                watch();
            }
        }
        verdict
    }
}

/// Some disks with logs, a cleaner, and a clock that a test moves.
pub(crate) struct Broker {
    pub(crate) cleaner: LogCleaner,
    pub(crate) logs: LogManager,
    pub(crate) gate: Arc<CleanerGate>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) faults: Arc<Faults>,
    dirs: Vec<PathBuf>,
    root: Option<TempDir>,
}

impl Broker {
    /// On so many disks; every log is compacted as soon as it is dirty at all.
    pub(crate) fn new(disks: usize) -> Self {
        Self::with(disks, compacted())
    }

    pub(crate) fn with(disks: usize, defaults: LogConfigBuilder) -> Self {
        let root = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(root.path()).unwrap();
        let dirs: Vec<_> = (1..=disks).map(|number| base.join(format!("d{number}"))).collect();
        let mut broker = Self::at(dirs, defaults);
        broker.root = Some(root);
        broker
    }

    /// Started on directories that may hold logs.
    pub(crate) fn at(dirs: Vec<PathBuf>, defaults: LogConfigBuilder) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::new(NOW)));
        let faults: Arc<Faults> = Arc::default();
        let io = Io::with_hook(Arc::<Faults>::clone(&faults));
        let gate = CleanerGate::new();
        let (logs, _report) = LogManager::options(config(dirs.clone(), defaults))
            .clock(Arc::<ManualClock>::clone(&clock))
            .background(Arc::new(Inline::default()))
            .pool(FilePool::with_io(64, io))
            .cleaning_gate(Arc::<CleanerGate>::clone(&gate))
            .start()
            .unwrap();
        let cleaner = LogCleaner::with_clock(
            logs.clone(),
            Arc::clone(&gate),
            settings(),
            Arc::<ManualClock>::clone(&clock),
        );
        Self { cleaner, logs, gate, clock, faults, dirs, root: None }
    }

    /// Closes everything and starts again on the same disks.
    pub(crate) fn restart(self) -> Self {
        self.restart_after(|| ())
    }

    /// As [`restart`](Self::restart), with something done in between.
    pub(crate) fn restart_after(self, work: impl FnOnce()) -> Self {
        let Self { cleaner, logs, dirs, root, .. } = self;
        drop(cleaner);
        logs.stop(None).unwrap();
        work();
        let mut broker = Self::at(dirs, compacted());
        broker.root = root;
        broker
    }

    /// A log with so many dirty segments, each with one record of the same key, and a log end
    /// that is rolled off.
    pub(crate) fn dirty(&self, number: i32, segments: usize) -> Log {
        let log = self.logs.get_or_create(&t(number), &NewLog::new()).unwrap();
        for value in 0..segments {
            append(&log, &[("k", Some(&*value.to_string()))]);
            log.roll().unwrap();
        }
        log
    }

    /// What `cleaner-offset-checkpoint` of a disk says of a log.
    pub(crate) fn checkpoint(&self, disk: usize, partition: &TopicPartition) -> Option<i64> {
        let dir = &self.dirs[disk - 1];
        let read = OffsetCheckpoint::read(&Io::new(), CheckpointKind::Cleaner, dir).unwrap();
        read.offset(partition).map(Offset::get)
    }

    pub(crate) fn write_checkpoint(&self, offsets: &[(TopicPartition, i64)]) {
        let entries = offsets.iter().map(|(name, offset)| (name.clone(), Offset::new(*offset)));
        let checkpoint: OffsetCheckpoint = entries.collect();
        checkpoint.write(&Io::new(), CheckpointKind::Cleaner, &self.dirs[0]).unwrap();
    }
}

/// Starts the logs in these directories with nobody that cleans them.
pub(crate) fn without_cleaner(dirs: &[PathBuf]) -> LogManager {
    let options = LogManager::options(config(dirs.to_vec(), compacted()));
    options.background(Arc::new(Inline::default())).start().unwrap().0
}

fn config(dirs: Vec<PathBuf>, defaults: LogConfigBuilder) -> BrokerConfig {
    BrokerConfig::builder()
        .log_dirs(dirs)
        .log_defaults(defaults.build().unwrap())
        .transaction_verification(false)
        .build()
        .unwrap()
}

/// The names in the directory of a log, sorted.
pub(crate) fn files(log: &Log) -> Vec<String> {
    let entries = fs::read_dir(log.dir().path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What the cleaner of tests is told.
pub(crate) fn settings() -> LogCleanerConfig {
    LogCleanerConfig::new()
        .dedupe_buffer_bytes(1 << 20)
        .backoff_ms(1)
        .retry(RetryPolicy::doubling(1000, 4000))
}

/// Compacted as soon as anything is dirty; nothing is kept for later.
pub(crate) fn compacted() -> LogConfigBuilder {
    LogConfig::builder()
        .cleanup_policy(CleanupPolicy::COMPACT)
        .min_cleanable_dirty_ratio(0.0)
        .segment_index_bytes(4096)
        .delete_retention_ms(0)
        .file_delete_delay_ms(0)
}

/// Partition `number` of topic `t`.
pub(crate) fn t(number: i32) -> TopicPartition {
    TopicPartition::new("t", number)
}

/// Appends a batch, and commits it at once.
pub(crate) fn append(log: &Log, pairs: &[Pair<'_>]) -> i64 {
    let mut bytes = batch(0, pairs);
    let request = LeaderRequest::new(LeaderEpoch::new(0));
    let appended = log.append_as_leader(&mut bytes, request).unwrap();
    log.update_high_watermark(log.log_end_offset()).unwrap();
    appended.first_offset.unwrap().get()
}

/// The last value of every key, as a consumer finds it that reads from `from` on.
pub(crate) fn values(log: &Log) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut values = BTreeMap::new();
    let mut next = log.log_start_offset();
    let end = log.high_watermark();
    while next < end {
        let fetched = log.read(next, 1 << 16, Isolation::HighWatermark, true).unwrap();
        let Some(slice) = fetched.slice.filter(|slice| !slice.is_empty()) else { break };
        let mut bytes = Vec::new();
        slice.read_to(&mut bytes).unwrap();
        for entry in Entries::new(&bytes, Position::new(0)).map_while(Result::ok) {
            let Entry::Batch(batch) = entry else { panic!("an old format") };
            batch.verify_crc().unwrap();
            next = batch.header().next_offset();
            for record in records_of(&batch) {
                let Some(key) = record.key else { continue };
                match record.value {
                    Some(value) => drop(values.insert(key, value)),
                    None => drop(values.remove(&key)),
                }
            }
        }
    }
    values
}

/// The base offsets of the segments.
pub(crate) fn bases(log: &Log) -> Vec<i64> {
    log.segments().iter().map(|(base, _)| base.get()).collect()
}
