//! A broker's disks for tests.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_log_manager::{
    BrokerConfig, LogConfig, LogManager, ManagerError, ManagerOptions, ManualClock, StartReport,
    TaskQueue,
};
use alluvium_recovery::TopicPartition;
use alluvium_segment::{FilePool, Io};
use tempfile::TempDir;

use crate::batches::NOW;
use crate::disk::Faults;

/// Some log directories, with a clock and faults that a test may set.
pub(crate) struct Cluster {
    root: TempDir,
    pub(crate) names: Vec<String>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) tasks: Arc<TaskQueue>,
    pub(crate) faults: Arc<Faults>,
}

impl Cluster {
    /// `d1`, `d2` and so on, not made yet.
    pub(crate) fn new(dirs: usize) -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        Self {
            root: tempfile::tempdir().unwrap(),
            names: (1..=dirs).map(|number| format!("d{number}")).collect(),
            tasks: Arc::new(TaskQueue::new(Arc::<ManualClock>::clone(&clock))),
            clock,
            faults: Arc::default(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join(name)
    }

    pub(crate) fn config(&self) -> BrokerConfig {
        let defaults = LogConfig::builder()
            .segment_index_bytes(1024)
            .retention_ms(None)
            .file_delete_delay_ms(1000)
            .build()
            .unwrap();
        BrokerConfig::builder()
            .log_dirs(self.names.iter().map(|name| self.path(name)).collect())
            .log_defaults(defaults)
            .transaction_verification(false)
            .build()
            .unwrap()
    }

    pub(crate) fn try_start(&self) -> Result<(LogManager, StartReport), ManagerError> {
        self.options().start()
    }

    /// How the broker is started; to be completed.
    pub(crate) fn options(&self) -> ManagerOptions {
        let io = Io::with_hook(Arc::<Faults>::clone(&self.faults));
        LogManager::options(self.config())
            .clock(Arc::<ManualClock>::clone(&self.clock))
            .background(Arc::<TaskQueue>::clone(&self.tasks))
            .pool(FilePool::with_io(64, io))
    }

    pub(crate) fn start(&self) -> (LogManager, StartReport) {
        self.try_start().unwrap()
    }

    /// The names in one of the directories, files and partitions, in order.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let read = fs::read_dir(self.path(name)).unwrap();
        let text = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = read.map(|entry| text(entry.unwrap())).collect();
        names.sort();
        names
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }
}

/// Partition `number` of topic `t`.
pub(crate) fn t(number: i32) -> TopicPartition {
    TopicPartition::new("t", number)
}
