//! Many logs on many disks.

mod checkpoints;
mod cleaned;
mod create;
mod data_dir;
mod delete;
mod error;
mod identity;
mod loading;
mod moving;
mod options;
mod scrub;
mod start;
mod stop;
mod stray;
mod tasks;
mod unloaded;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use alluvium_record_format::Offset;
use alluvium_recovery::{CheckpointKind, ProducerStateConfig, TopicPartition};
use alluvium_segment::FilePool;
use dashmap::DashMap;
use parking_lot::{Mutex, RwLock};

use crate::gate::{Kept, KeptOff};
use crate::log::check_cut;
use crate::{Background, BrokerConfig, CleaningGate, Clock, Log, LogConfig, LogError};

pub use create::NewLog;
pub use error::ManagerError;
pub use identity::BrokerIdentity;
pub use options::ManagerOptions;
pub use scrub::{ScrubDamage, ScrubDamageKind, ScrubTick, Scrubber};
pub use start::{DirReport, StartProgress, StartReport};
pub use stop::{DirStop, StopReport};

use data_dir::DataDir;
use delete::Deletion;
use options::{AllOffline, IsStray};
use tasks::Schedule;
use unloaded::Unloaded;

/// All logs of a broker, on one or more disks (`log.dirs`).
///
/// Cheap to clone. A disk that fails takes its own logs offline and no others; it stays offline
/// until the next start. Once all have failed there is nothing to do but to end: see
/// [`ManagerOptions::when_all_offline`].
///
/// Source: `LogManager` in Kafka.
#[derive(Clone, Debug)]
pub struct LogManager {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: BrokerConfig,
    clock: Arc<dyn Clock>,
    background: Arc<dyn Background>,
    pool: Arc<FilePool>,
    producers: ProducerStateConfig,
    /// In the order of the settings, failed ones included.
    dirs: Vec<Arc<DataDir>>,
    logs: DashMap<TopicPartition, Hosted>,
    /// Copies that are on their way to another disk.
    futures: DashMap<TopicPartition, Hosted>,
    /// Logs whose disk has failed: they must not be made again elsewhere.
    offline: DashMap<TopicPartition, Arc<DataDir>>,
    /// Logs that could not be loaded, on disks that are in service, by the path of their directory.
    unloaded: DashMap<PathBuf, Unloaded>,
    /// Settings of topics beside the defaults.
    topics: RwLock<HashMap<String, LogConfig>>,
    deletions: Mutex<Vec<Deletion>>,
    /// Held while a log is made, moved or deleted: one at a time.
    changing: Mutex<()>,
    gate: Arc<dyn CleaningGate>,
    is_stray: Option<IsStray>,
    /// Whom to tell, once, that no disk is left; nobody while the logs are loaded.
    all_offline: Mutex<Option<AllOffline>>,
    schedule: Mutex<Schedule>,
    stopped: AtomicBool,
}

/// A log and the disk that it lies on.
#[derive(Clone, Debug)]
struct Hosted {
    log: Log,
    dir: Arc<DataDir>,
    /// Of a copy on its way: as long as it is there, the log that it is made of is not cleaned.
    _kept_off: Option<Arc<KeptOff>>,
}

impl LogManager {
    /// The log of a partition.
    ///
    /// # Errors
    ///
    /// `Unknown`; `Offline` where its disk has failed; `NotLoaded` where the start could not load
    /// it.
    pub fn log(&self, partition: &TopicPartition) -> Result<Log, ManagerError> {
        self.shared.hosted(partition).map(|hosted| hosted.log)
    }

    /// All partitions that have a log in service, in no order.
    #[must_use]
    pub fn partitions(&self) -> Vec<TopicPartition> {
        self.shared.logs.iter().map(|entry| entry.key().clone()).collect()
    }

    /// The disks in service, in the order of the settings.
    #[must_use]
    pub fn live_dirs(&self) -> Vec<PathBuf> {
        let live = self.shared.dirs.iter().filter(|dir| dir.is_live());
        live.map(|dir| dir.path().to_path_buf()).collect()
    }

    /// The disks that have failed, with the reason.
    #[must_use]
    pub fn offline_dirs(&self) -> Vec<(PathBuf, String)> {
        let reason =
            |dir: &Arc<DataDir>| dir.failure().map(|reason| (dir.path().to_path_buf(), reason));
        self.shared.dirs.iter().filter_map(reason).collect()
    }

    /// The disk that a partition lies on.
    ///
    /// # Errors
    ///
    /// As [`log`](Self::log).
    pub fn dir_of(&self, partition: &TopicPartition) -> Result<PathBuf, ManagerError> {
        self.shared.hosted(partition).map(|hosted| hosted.dir.path().to_path_buf())
    }

    /// The settings of all logs.
    #[must_use]
    pub fn config(&self) -> &BrokerConfig {
        &self.shared.config
    }

    /// Truncates the log of a partition, the cleaner kept off it, and writes down the new recovery
    /// point: see [`Log::truncate_to`].
    ///
    /// Source: `LogManager.truncateTo` in Kafka.
    ///
    /// # Errors
    ///
    /// As [`log`](Self::log); `Log` where the truncation fails; `Offline`, with nothing cut, where
    /// the cleaner's checkpoint cannot be lowered before it.
    pub fn truncate_to(
        &self,
        partition: &TopicPartition,
        offset: Offset,
    ) -> Result<bool, ManagerError> {
        self.cut(partition, (offset, offset), |log| log.truncate_to(offset))
    }

    /// As [`truncate_to`](Self::truncate_to), for all records: see
    /// [`Log::truncate_fully_and_start_at`].
    ///
    /// # Errors
    ///
    /// As [`truncate_to`](Self::truncate_to).
    pub fn truncate_fully_and_start_at(
        &self,
        partition: &TopicPartition,
        offset: Offset,
        log_start_offset: Option<Offset>,
    ) -> Result<(), ManagerError> {
        let to = (offset, log_start_offset.unwrap_or(offset));
        self.cut(partition, to, |log| log.truncate_fully_and_start_at(offset, log_start_offset))
    }

    fn cut<T>(
        &self,
        partition: &TopicPartition,
        (to, start): (Offset, Offset),
        work: impl FnOnce(&Log) -> Result<T, LogError>,
    ) -> Result<T, ManagerError> {
        self.shared.hosted(partition)?;
        // A cut that is refused changes no checkpoint.
        check_cut(to, start)
            .map_err(|source| ManagerError::Log { partition: partition.to_string(), source })?;
        let kept = Kept::off(&*self.shared.gate, partition);
        // It may have moved while a cleaning ended.
        let hosted = self.shared.hosted(partition)?;
        self.shared.lower_cleaned(partition, &hosted.dir, to)?;
        let done = work(&hosted.log);
        // New records go into the active segment: all of it is dirty from now on.
        let active = hosted.log.segments().last().map(|(active, _)| *active);
        let lowered =
            active.map_or(Ok(()), |to| self.shared.lower_cleaned(partition, &hosted.dir, to));
        kept.moved(active);
        let done =
            done.map_err(|source| ManagerError::Log { partition: partition.to_string(), source })?;
        lowered?;
        // The log has it written before a cut.
        if !hosted.dir.recovery_points.keeps(partition, hosted.log.recovery_point()) {
            self.shared.write_checkpoint(&hosted.dir, CheckpointKind::RecoveryPoint)?;
        }
        Ok(done)
    }

    /// Changes the settings of a topic: its logs follow at once, and those made later.
    pub fn set_topic_config(&self, topic: &str, config: LogConfig) {
        let shared = &*self.shared;
        // Held until the logs have it: of two changes at a time, the later one counts for all. One
        // that is made meanwhile asks again once it stands among them.
        let mut topics = shared.topics.write();
        let kept = topics.entry(topic.to_owned()).insert_entry(config);
        // In this order: a copy that takes the place of its log goes from the one to the other.
        let logs = shared.futures.iter().chain(shared.logs.iter());
        for entry in logs.filter(|entry| entry.key().topic() == topic) {
            entry.log.set_config(kept.get().clone());
        }
    }
}

impl Shared {
    fn hosted(&self, partition: &TopicPartition) -> Result<Hosted, ManagerError> {
        let hosted = self.logs.get(partition).map(|hosted| hosted.clone());
        match hosted {
            Some(hosted) if hosted.dir.is_live() => return Ok(hosted),
            Some(Hosted { dir, .. }) => {
                self.retire_failed_dirs();
                return Err(ManagerError::Offline { path: dir.path().to_path_buf() });
            }
            None => self.retire_failed_dirs(),
        }
        if let Some(dir) = self.offline.get(partition) {
            return Err(ManagerError::Offline { path: dir.path().to_path_buf() });
        }
        let partition_name = partition.to_string();
        Err(match self.why_unloaded(partition) {
            Some(source) => ManagerError::NotLoaded { partition: partition_name, source },
            None => ManagerError::Unknown { partition: partition_name },
        })
    }

    /// The settings of a topic's logs.
    fn topic_config(&self, topic: &str) -> LogConfig {
        let topics = self.topics.read();
        topics.get(topic).cloned().unwrap_or_else(|| self.config.log_defaults())
    }

    /// Gives a log the settings of its topic that came after it was opened.
    fn renew_config(&self, log: &Log, topic: &str) {
        let topics = self.topics.read();
        if let Some(config) = topics.get(topic) {
            log.set_config(config.clone());
        }
    }

    /// Takes the logs of failed disks out of service, and gives up their locks.
    ///
    /// Source: `LogManager.handleLogDirFailure` in Kafka.
    fn retire_failed_dirs(&self) {
        let mut is_any_new = false;
        for dir in self.dirs.iter().filter(|dir| !dir.is_live() && dir.retire()) {
            let shown = dir.path().display();
            let _span = tracing::error_span!("dir_offline", dir = %shown).entered();
            tracing::error!(dir = %shown, "its logs go offline");
            self.logs.retain(|partition, hosted| {
                let stays = !abandon_in(hosted, dir);
                if !stays {
                    self.offline.insert(partition.clone(), Arc::clone(dir));
                }
                stays
            });
            // The log that a copy was made of lies on another disk. The cleaner is let in again
            // with no map locked.
            let mut copies = Vec::new();
            self.futures.retain(|_, hosted| {
                let stays = !abandon_in(hosted, dir);
                if !stays {
                    copies.push(hosted.clone());
                }
                stays
            });
            drop(copies);
            dir.unlock();
            is_any_new = true;
        }
        if is_any_new && !self.dirs.iter().any(|dir| dir.is_live()) {
            let when = self.all_offline.lock().take();
            if let Some(when) = when {
                when.tell();
            }
        }
    }

    fn dir(&self, path: &Path) -> Option<&Arc<DataDir>> {
        self.dirs.iter().find(|dir| dir.path() == path)
    }
}

/// Ends the use of a log if it lies in this directory; returns whether it does.
fn abandon_in(hosted: &Hosted, dir: &Arc<DataDir>) -> bool {
    let lies_there = Arc::ptr_eq(&hosted.dir, dir);
    if lies_there {
        hosted.log.abandon_at_once();
    }
    lies_there
}
