//! A log directory for tests, whose system calls can be made to fail.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use alluvium_log_manager::{
    Appended, Closed, Isolation, LeaderRequest, Log, LogConfig, LogError, LogOptions, ManualClock,
    TaskQueue,
};
use alluvium_record_format::{Entries, Entry, LeaderEpoch, Offset, Position};
use alluvium_recovery::ProducerStateConfig;
use alluvium_segment::{DirLock, FilePool, Io, IoCall, IoHook, IoVerdict};
use tempfile::TempDir;

use crate::batches::NOW;

type Rule = Box<dyn FnMut(&IoCall<'_>) -> IoVerdict + Send>;
type Watch = Arc<dyn Fn(&IoCall<'_>) + Send + Sync>;

/// Sees all system calls; fails those that a test picks.
#[derive(Default)]
pub(crate) struct Faults {
    rule: Mutex<Option<Rule>>,
    /// Sees a call before the rule does, beside other threads' calls: it may wait for them.
    watch: Mutex<Option<Watch>>,
    /// What was done, in order: `sync NAME`, `sync-dir`, `rename NAME`.
    pub(crate) calls: Mutex<Vec<String>>,
}

impl Faults {
    /// From now on `rule` decides.
    pub(crate) fn set(&self, rule: impl FnMut(&IoCall<'_>) -> IoVerdict + Send + 'static) {
        *self.rule.lock().unwrap() = Some(Box::new(rule));
    }

    /// From now on `watch` sees every call, and may wait or make others.
    pub(crate) fn watch(&self, watch: impl Fn(&IoCall<'_>) + Send + Sync + 'static) {
        *self.watch.lock().unwrap() = Some(Arc::new(watch));
    }

    /// Fails the next call that `picked` takes, once.
    pub(crate) fn fail_once(
        &self,
        kind: ErrorKind,
        picked: impl Fn(&IoCall<'_>) -> bool + Send + 'static,
    ) {
        let mut left = 1;
        self.set(move |call| {
            if left > 0 && picked(call) {
                left -= 1;
                return IoVerdict::Fail(io::Error::from(kind));
            }
            IoVerdict::Proceed
        });
    }

    /// Nothing fails any more, and nobody watches.
    pub(crate) fn clear(&self) {
        *self.watch.lock().unwrap() = None;
        *self.rule.lock().unwrap() = None;
    }
}

impl IoHook for Faults {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        let note = match call {
            IoCall::Sync { path, .. } => Some(format!("sync {}", name(path))),
            IoCall::SyncDir { .. } => Some("sync-dir".to_owned()),
            IoCall::Rename { to, .. } => Some(format!("rename {}", name(to))),
            _ => None,
        };
        self.calls.lock().unwrap().extend(note);
        let watch = self.watch.lock().unwrap().clone();
        if let Some(watch) = watch {
            watch(call);
        }
        self.rule.lock().unwrap().as_mut().map_or(IoVerdict::Proceed, |rule| rule(call))
    }
}

/// Whether the call is about a file of this extension.
pub(crate) fn is_about(call: &IoCall<'_>, extension: &str) -> bool {
    let (IoCall::Write { path, .. } | IoCall::Sync { path, .. } | IoCall::SetLen { path, .. }) =
        call
    else {
        return false;
    };
    path.extension().is_some_and(|found| found == extension)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A log directory with one partition, `orders-0`.
pub(crate) struct Disk {
    root: TempDir,
    lock: DirLock,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) tasks: Arc<TaskQueue>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) config: LogConfig,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self::with(|config| config)
    }

    /// A disk whose log has settings beside Kafka's defaults; small indexes, an entry for every
    /// batch.
    pub(crate) fn with(
        set: impl FnOnce(
            alluvium_log_manager::LogConfigBuilder,
        ) -> alluvium_log_manager::LogConfigBuilder,
    ) -> Self {
        let root = tempfile::tempdir().unwrap();
        let lock = DirLock::acquire(root.path()).unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let tasks = Arc::new(TaskQueue::new(Arc::<ManualClock>::clone(&clock)));
        let plain = LogConfig::builder()
            .segment_index_bytes(1024)
            .index_interval_bytes(1)
            .retention_ms(None)
            .file_delete_delay_ms(1000);
        let config = set(plain).build().unwrap();
        Self { root, lock, clock, tasks, faults: Arc::default(), config }
    }

    /// The partition's directory.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("orders-0")
    }

    /// How to open the log; to be completed.
    pub(crate) fn options(&self) -> LogOptions {
        let io = Io::with_hook(Arc::<Faults>::clone(&self.faults));
        Log::options()
            .config(self.config.clone())
            .clock(Arc::<ManualClock>::clone(&self.clock))
            .background(Arc::<TaskQueue>::clone(&self.tasks))
            .lock(self.lock.clone())
            .pool(FilePool::with_io(64, io))
            .producers(ProducerStateConfig::new().transaction_verification(false))
    }

    /// Opens the log as after a controlled shutdown.
    pub(crate) fn open_clean(&self) -> Log {
        self.options().clean(true).open(self.dir()).unwrap()
    }

    /// Opens the log as after a crash.
    pub(crate) fn open_unclean(&self) -> Log {
        self.options().open(self.dir()).unwrap()
    }

    /// A directory that holds these files alone, as after a crash or an accident.
    pub(crate) fn put(&self, files: &[(&str, &[u8])]) {
        fs::create_dir_all(self.dir()).unwrap();
        for (name, bytes) in files {
            fs::write(self.dir().join(name), bytes).unwrap();
        }
    }

    /// The bytes of a file of the partition.
    pub(crate) fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir().join(name)).unwrap()
    }

    /// The names of the partition's files, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let read = fs::read_dir(self.dir()).unwrap();
        let mut names: Vec<_> = read.map(|entry| name(&entry.unwrap().path())).collect();
        names.sort();
        names
    }

    /// Closes the log and opens it again.
    pub(crate) fn reopen(&self, log: Log) -> Log {
        let closed: Closed = log.close().unwrap();
        drop(log);
        self.options().after_close(&closed).open(self.dir()).unwrap()
    }
}

/// Appends as the leader of epoch 0.
pub(crate) fn append(log: &Log, batch: &[u8]) -> Appended {
    try_append(log, batch).unwrap()
}

/// As [`append`], where it may fail.
pub(crate) fn try_append(
    log: &Log,
    batch: &[u8],
) -> Result<Appended, alluvium_log_manager::AppendError> {
    log.append_as_leader(&mut batch.to_vec(), LeaderRequest::new(LeaderEpoch::new(0)))
}

/// Appends the end of a transaction, as its coordinator.
pub(crate) fn append_marker(
    log: &Log,
    batch: &[u8],
) -> Result<Appended, alluvium_log_manager::AppendError> {
    let request = LeaderRequest::new(LeaderEpoch::new(0)).coordinator(1);
    log.append_as_leader(&mut batch.to_vec(), request)
}

/// Appends as a follower of the leader of epoch 9.
pub(crate) fn follow(log: &Log, batch: &[u8]) -> Appended {
    log.append_as_follower(batch, LeaderEpoch::new(9)).unwrap()
}

/// The base and last offsets of the whole batches that a read gives.
pub(crate) fn read(log: &Log, start: i64) -> Result<Vec<(i64, i64)>, LogError> {
    read_as(log, start, Isolation::LogEnd)
}

/// As [`read`], as far as the isolation sees.
pub(crate) fn read_as(
    log: &Log,
    start: i64,
    isolation: Isolation,
) -> Result<Vec<(i64, i64)>, LogError> {
    let fetched = log.read(Offset::new(start), 1 << 20, isolation, true)?;
    let mut bytes = Vec::new();
    if let Some(slice) = &fetched.slice {
        slice.read_to(&mut bytes).unwrap();
    }
    let offsets = |entry: Entry<'_>| match entry {
        Entry::Batch(batch) => {
            (batch.header().base_offset().get(), batch.header().last_offset().get())
        }
        _ => panic!("a message of an old format"),
    };
    let entries = Entries::new(&bytes, Position::new(0));
    Ok(entries.map_while(Result::ok).map(offsets).collect())
}

/// The base offsets of the segments.
pub(crate) fn bases(log: &Log) -> Vec<i64> {
    log.segments().into_iter().map(|(base, _)| base.get()).collect()
}
