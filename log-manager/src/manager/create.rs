//! New logs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use alluvium_record_format::Uuid;
use alluvium_recovery::{FileError, PartitionMetadata, TopicPartition, sync_directory};
use alluvium_segment::PartitionDirName;

use super::data_dir::{DataDir, KeptInCheckpoint};
use super::{LogManager, ManagerError, Shared};
use crate::{Log, LogError, LogOptions};

/// What is known of a log that may have to be made.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct NewLog {
    topic_id: Option<Uuid>,
    is_new: bool,
    dir: Option<PathBuf>,
}

impl NewLog {
    /// A log that may exist already, perhaps on a disk that is offline now.
    pub fn new() -> Self {
        Self::default()
    }

    /// The id of the topic: stored with a new log, compared with that of an old one.
    pub const fn topic_id(mut self, topic_id: Uuid) -> Self {
        self.topic_id = Some(topic_id);
        self
    }

    /// The partition was made just now, so it lies on no disk yet: disks that are offline do not
    /// keep it from being made. Where one of them holds a directory of its name, it is `Offline`
    /// nevertheless.
    pub const fn is_new(mut self) -> Self {
        self.is_new = true;
        self
    }

    /// The disk to make it on; the one with the fewest logs where none is named.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }
}

impl LogManager {
    /// The log of a partition, made if it is not there: on the disk that is asked for, or on that
    /// with the fewest logs, the first of several. A disk that cannot take it goes offline, and the
    /// next one is tried.
    ///
    /// Source: `LogManager.getOrCreateLog` in Kafka.
    ///
    /// # Errors
    ///
    /// `Offline` where the log lies, or may lie, on a disk that has failed; `NotLoaded`;
    /// `InconsistentTopicId`; `UnknownDir`; `AllOffline`; `Log` where it cannot be made.
    pub fn get_or_create(
        &self,
        partition: &TopicPartition,
        new: &NewLog,
    ) -> Result<Log, ManagerError> {
        let shared = &*self.shared;
        let _one_at_a_time = shared.changing.lock();
        shared.check_running()?;
        match shared.hosted(partition) {
            Ok(hosted) => {
                shared.check_topic_id(partition, &hosted.log.dir().path(), new.topic_id)?;
                return Ok(hosted.log);
            }
            Err(ManagerError::Unknown { .. }) => {}
            Err(error) => return Err(error),
        }
        if !new.is_new
            && let Some(dir) = shared.dirs.iter().find(|dir| !dir.is_live())
        {
            // It may be there.
            return Err(ManagerError::Offline { path: dir.path().to_path_buf() });
        }
        let name = PartitionDirName::new(partition.topic(), partition.partition());
        let candidates = match &new.dir {
            Some(path) => vec![shared.live_dir(path)?],
            None => shared.emptiest_dirs(),
        };
        for dir in candidates {
            match shared.make(&dir, partition, &name, new.topic_id, false) {
                Ok(log) => return Ok(log),
                Err(error) if dir.is_live() => return Err(error),
                Err(_) => shared.retire_failed_dirs(),
            }
        }
        Err(ManagerError::AllOffline)
    }
}

impl Shared {
    pub(super) fn check_running(&self) -> Result<(), ManagerError> {
        if self.stopped.load(Ordering::Acquire) { Err(ManagerError::Stopped) } else { Ok(()) }
    }

    /// Compares the id of the topic in a directory, and puts it there where none is.
    pub(super) fn check_topic_id(
        &self,
        partition: &TopicPartition,
        dir: &Path,
        expected: Option<Uuid>,
    ) -> Result<(), ManagerError> {
        let Some(expected) = expected else { return Ok(()) };
        let metadata = PartitionMetadata::read(self.pool.io(), dir)
            .map_err(|source| ManagerError::File { source })?;
        match metadata {
            Some(found) if found.topic_id != expected => Err(ManagerError::InconsistentTopicId {
                partition: partition.to_string(),
                found: found.topic_id.to_string(),
                expected: expected.to_string(),
            }),
            Some(_) => Ok(()),
            None => PartitionMetadata::new(expected)
                .write(self.pool.io(), dir)
                .map_err(|source| ManagerError::File { source }),
        }
    }

    pub(super) fn live_dir(&self, path: &Path) -> Result<Arc<DataDir>, ManagerError> {
        let canonical = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        match self.dir(&canonical) {
            Some(dir) if dir.is_live() => Ok(Arc::clone(dir)),
            Some(_) => Err(ManagerError::Offline { path: canonical }),
            None => Err(ManagerError::UnknownDir { path: canonical }),
        }
    }

    /// The disks in service, the one with the fewest logs first.
    fn emptiest_dirs(&self) -> Vec<Arc<DataDir>> {
        let mut dirs: Vec<_> = self.dirs.iter().filter(|dir| dir.is_live()).cloned().collect();
        dirs.sort_by_key(|dir| dir.log_count());
        dirs
    }

    pub(super) fn make(
        &self,
        dir: &Arc<DataDir>,
        partition: &TopicPartition,
        name: &PartitionDirName,
        topic_id: Option<Uuid>,
        is_future: bool,
    ) -> Result<Log, ManagerError> {
        let path = dir.path().join(name.to_string());
        let failed =
            |source: LogError| ManagerError::Log { partition: partition.to_string(), source };
        // What fails here puts the disk in doubt.
        let offline = |error: LogError| {
            dir.fail(error);
            ManagerError::Offline { path: path.clone() }
        };
        self.forget(dir, partition, is_future)
            .map_err(|source| offline(LogError::File { source }))?;
        let is_made = match std::fs::create_dir(&path) {
            Ok(()) => true,
            // Put there by hand, or left by a creation that failed: what it holds is recovered.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => false,
            Err(source) => return Err(offline(LogError::Directory { path: path.clone(), source })),
        };
        self.sync_name(dir).map_err(|source| offline(LogError::File { source }))?;
        if !is_made {
            self.check_topic_id(partition, &path, topic_id).map_err(|error| match error {
                ManagerError::File { source: source @ FileError::Io { .. } } => {
                    offline(LogError::File { source })
                }
                other => other,
            })?;
        } else if let Some(topic_id) = topic_id {
            PartitionMetadata::new(topic_id)
                .write(self.pool.io(), &path)
                .map_err(|source| offline(LogError::File { source }))?;
        }
        let log = self.log_options(dir, partition).clean(is_made).open(&path).map_err(failed)?;
        self.host(partition, log.clone(), dir, is_future)?;
        self.renew_config(&log, partition.topic());
        tracing::info!(dir = %path.display(), "Created log");
        Ok(log)
    }

    /// What the checkpoints of the disk say is of another log of this name that is gone, and that
    /// was perhaps longer: the next start would take it for the new one's, and drop what lies below
    /// its log start.
    fn forget(
        &self,
        dir: &Arc<DataDir>,
        partition: &TopicPartition,
        is_future: bool,
    ) -> Result<(), FileError> {
        self.forget_checkpointed(partition, dir);
        dir.forget(self.pool.io(), partition)?;
        if !is_future {
            // Of a copy's partition, the file of another disk rightly speaks.
            self.forget_cleaned(partition);
            self.gate.checkpoint_moved(partition, None);
        }
        Ok(())
    }

    /// No flush of a log makes the name of its own directory durable.
    fn sync_name(&self, dir: &DataDir) -> Result<(), FileError> {
        #[cfg(alluvium_mutant)]
        if alluvium_segment::mutant::is("unsynced-name") {
            return Ok(());
        }
        sync_directory(self.pool.io(), dir.path())
    }

    /// How a log of this broker is opened.
    pub(super) fn log_options(&self, dir: &Arc<DataDir>, partition: &TopicPartition) -> LogOptions {
        let keeper = KeptInCheckpoint {
            dir: Arc::clone(dir),
            partition: partition.clone(),
            io: self.pool.io().clone(),
        };
        let options = Log::options()
            .config(self.topic_config(partition.topic()))
            .offset_keeper(Arc::new(keeper))
            .clock(Arc::clone(&self.clock))
            .background(Arc::clone(&self.background))
            .producers(self.producers)
            .health(dir.health().clone())
            .pool(Arc::clone(&self.pool));
        match dir.lock() {
            Some(lock) => options.lock(lock),
            None => options,
        }
    }
}
