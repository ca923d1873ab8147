//! How far each log is clean: `cleaner-offset-checkpoint` of every log directory.

use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_recovery::{FileError, TopicPartition};

use super::data_dir::DataDir;
use super::{LogManager, ManagerError, Shared};
use crate::{Log, LogError};

impl LogManager {
    /// The first offset of a log that a cleaner has not reached, as its directory's
    /// `cleaner-offset-checkpoint` says; `None` where that says nothing.
    ///
    /// What other directories say does not count: it is of a log that lay there once.
    ///
    /// Source: `LogCleanerManager.allCleanerCheckpoints` in Kafka, where it counts.
    ///
    /// # Errors
    ///
    /// As [`log`](Self::log).
    pub fn cleaner_checkpoint(
        &self,
        partition: &TopicPartition,
    ) -> Result<Option<Offset>, ManagerError> {
        self.shared.hosted(partition).map(|hosted| hosted.dir.cleaned.offset(partition))
    }

    /// Writes down how far a log is clean, and forgets the logs that are not in its directory any
    /// more. For a cleaner, while its [`CleaningGate`](crate::CleaningGate) lets the log be
    /// cleaned: what cuts, moves and deletions do to it is done already. Costs a file that is
    /// replaced and synced, unless it says so already.
    ///
    /// Source: `LogCleanerManager.updateCheckpoints` in Kafka.
    ///
    /// # Errors
    ///
    /// As [`log`](Self::log); `Stopped`; `Log` where it cannot be written: then the directory of
    /// the log is offline.
    pub fn set_cleaner_checkpoint(
        &self,
        partition: &TopicPartition,
        offset: Offset,
    ) -> Result<(), ManagerError> {
        let shared = &*self.shared;
        let hosted = shared.hosted(partition)?;
        let is_there = |name: &TopicPartition| shared.lies_in(name, &hosted.dir);
        let io = shared.pool.io();
        hosted.dir.cleaned.note(io, &hosted.dir, (partition, offset), is_there).map_err(|source| {
            match shared.check_running() {
                Ok(()) => ManagerError::Log {
                    partition: partition.to_string(),
                    source: hosted.log.dir_failed(LogError::File { source }),
                },
                // Closed beside it: nothing is wrong with the disk.
                Err(stopped) => stopped,
            }
        })
    }
}

impl Shared {
    /// Makes durable that nothing of a log from here on is clean, before it is cut: after a crash,
    /// new records there would count as clean. What another directory says of a log that lay there
    /// goes, unless the log has moved there meanwhile. Only what the log's own directory cannot
    /// write keeps the log from being cut.
    ///
    /// Source: `LogCleanerManager.maybeTruncateCheckpoint` in Kafka.
    pub(super) fn lower_cleaned(
        &self,
        partition: &TopicPartition,
        home: &Arc<DataDir>,
        to: Offset,
    ) -> Result<(), ManagerError> {
        let lowered = home.cleaned.lower(self.pool.io(), home.path(), partition, to);
        let elsewhere = |dir: &&Arc<DataDir>| !Arc::ptr_eq(dir, home);
        let others = self.dirs.iter().filter(|dir| elsewhere(dir) && !self.lies_in(partition, dir));
        others.for_each(|dir| self.forget_cleaned_in(partition, dir));
        self.written(home, lowered)
    }

    /// Takes along how far a log is clean to the directory that it moves to; `None` where it is
    /// not known. Out of the old file first: Kafka's cleaner ends where two files speak of one
    /// partition. After a crash in between the log is cleaned from its start.
    ///
    /// Source: `LogCleanerManager.alterCheckpointDir` in Kafka.
    pub(super) fn carry_cleaned(
        &self,
        partition: &TopicPartition,
        from: Option<&Arc<DataDir>>,
        to: &Arc<DataDir>,
        said: Option<Offset>,
    ) -> Result<(), ManagerError> {
        if let Some(from) = from {
            self.forget_cleaned_in(partition, from);
        }
        let io = self.pool.io();
        let carried = match said {
            Some(offset) => to.cleaned.note(io, to, (partition, offset), |_| true),
            None => to.cleaned.forget(io, to.path(), partition),
        };
        self.written(to, carried)
    }

    /// A start may have cut the log below where it was clean: its cleaning begins anew, before new
    /// records there count as clean. In Kafka they do until the cleaner comes.
    pub(super) fn check_cleaned(&self, partition: &TopicPartition, dir: &Arc<DataDir>, log: &Log) {
        if dir.cleaned.offset(partition).is_some_and(|said| said > log.log_end_offset()) {
            self.forget_cleaned_in(partition, dir);
        }
    }

    /// A log is gone: no directory speaks of it. One that cannot write that goes offline.
    pub(super) fn forget_cleaned(&self, partition: &TopicPartition) {
        self.dirs.iter().for_each(|dir| self.forget_cleaned_in(partition, dir));
    }

    /// As [`forget_cleaned`](Self::forget_cleaned), in one directory. One that is offline says what
    /// it said when it comes back.
    pub(super) fn forget_cleaned_in(&self, partition: &TopicPartition, dir: &Arc<DataDir>) {
        if dir.is_live() {
            let forgotten = dir.cleaned.forget(self.pool.io(), dir.path(), partition);
            drop(self.written(dir, forgotten));
        }
    }

    /// What directories say of logs that a start has found in another one goes: a crash may have
    /// left it in the middle of a move, or a disk that comes back. Threads of Kafka's cleaner end
    /// where two files speak of one partition.
    pub(super) fn forget_cleaned_elsewhere(&self) {
        for dir in self.dirs.iter().filter(|dir| dir.is_live()) {
            let is_elsewhere = |name: &TopicPartition| {
                self.logs.get(name).is_some_and(|hosted| !Arc::ptr_eq(&hosted.dir, dir))
            };
            let kept = dir.cleaned.retain(self.pool.io(), dir.path(), |name| !is_elsewhere(name));
            drop(self.written(dir, kept));
        }
    }

    /// Takes the directory offline whose file could not be written.
    fn written(&self, dir: &DataDir, result: Result<(), FileError>) -> Result<(), ManagerError> {
        let Err(source) = result else { return Ok(()) };
        // Closed beside it: nothing is wrong with the disk.
        self.check_running()?;
        dir.fail(LogError::File { source });
        Err(ManagerError::Offline { path: dir.path().to_path_buf() })
    }

    /// Whether a directory holds the log of a partition, a copy of it, or one that could not be
    /// loaded.
    fn lies_in(&self, partition: &TopicPartition, dir: &Arc<DataDir>) -> bool {
        // In this order: a copy that takes the place of its log goes from the one to the other.
        [&self.futures, &self.logs]
            .iter()
            .any(|map| map.get(partition).is_some_and(|hosted| Arc::ptr_eq(&hosted.dir, dir)))
            || self.is_unloaded_in(partition, dir)
    }
}
