//! The stop: logs are closed, checkpoints and markers written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use alluvium_recovery::{CleanShutdown, TopicPartition};
use dashmap::DashMap;
use parking_lot::Mutex;

use super::data_dir::DataDir;
use super::{LogManager, ManagerError, Shared};
use crate::{Log, LogError};

/// How a stop went.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct StopReport {
    /// Each log directory, in the order of the settings.
    pub dirs: Vec<DirStop>,
}

/// How one log directory was stopped.
#[derive(Debug)]
#[non_exhaustive]
pub struct DirStop {
    /// The directory.
    pub path: PathBuf,
    /// Whether its next start may do without recovery.
    pub is_clean: bool,
    /// The logs that could not be closed properly, with the reason.
    pub failed: Vec<(TopicPartition, LogError)>,
}

impl LogManager {
    /// Closes all logs, several at a time, writes the checkpoints, and marks every directory as
    /// properly stopped in which nothing has failed. `broker_epoch` goes into the marker.
    ///
    /// Ticks, appends and reads may go on beside it. What they begin once the logs are closed is
    /// refused, and no checkpoint is written and nothing removed once the locks of the directories
    /// are given up, also by a tick that began before. A directory that is just being removed keeps
    /// the lock of its log directory until it is gone.
    ///
    /// Source: `LogManager.shutdown` in Kafka.
    ///
    /// # Errors
    ///
    /// `Stopped` where that was done before.
    pub fn stop(&self, broker_epoch: Option<i64>) -> Result<StopReport, ManagerError> {
        let shared = &*self.shared;
        let _one_at_a_time = shared.changing.lock();
        if shared.stopped.swap(true, Ordering::AcqRel) {
            return Err(ManagerError::Stopped);
        }
        let dirs = thread::scope(|scope| {
            let stop = |dir| scope.spawn(move || shared.stop_dir(dir, broker_epoch));
            let threads: Vec<_> = shared.dirs.iter().map(stop).collect();
            let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
            joined.map(|dir| dir.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        // Before the logs go: a checkpoint without them would forget where they start. On a disk
        // that has failed none is begun any more, and one that was is not waited for.
        shared.dirs.iter().filter(|dir| dir.is_live()).for_each(|dir| dir.seal());
        shared.logs.clear();
        shared.futures.clear();
        shared.dirs.iter().for_each(|dir| dir.unlock());
        Ok(StopReport { dirs })
    }
}

impl Shared {
    fn stop_dir(&self, dir: &Arc<DataDir>, broker_epoch: Option<i64>) -> DirStop {
        let logs: Vec<(TopicPartition, Log)> = [&self.logs, &self.futures]
            .into_iter()
            .flat_map(DashMap::iter)
            .filter(|entry| Arc::ptr_eq(&entry.dir, dir))
            .map(|entry| (entry.key().clone(), entry.log.clone()))
            .collect();
        #[cfg(alluvium_mutant)]
        if alluvium_segment::mutant::is("early-marker") {
            self.mark_clean(dir, broker_epoch);
        }
        let queue = Mutex::new(logs.into_iter());
        let failed = Mutex::new(Vec::new());
        let all_clean = Mutex::new(true);
        let work = || {
            while let Some((partition, log)) = take(&queue) {
                match log.close() {
                    Ok(closed) => *all_clean.lock() &= closed.clean,
                    Err(error) => failed.lock().push((partition, error)),
                }
            }
        };
        thread::scope(|scope| {
            (0..self.config.recovery_threads()).for_each(|_| drop(scope.spawn(work)));
        });
        let failed = failed.into_inner();
        let all_loaded = !self.has_unloaded(dir);
        let closed = dir.is_live() && failed.is_empty() && all_clean.into_inner();
        let is_clean = closed && all_loaded && self.mark_clean(dir, broker_epoch);
        if closed && !all_loaded {
            // The next start has less to recover. The reason of a failure is kept with the disk.
            drop(self.write_checkpoints(dir));
        }
        DirStop { path: dir.path().to_path_buf(), is_clean, failed }
    }

    /// Writes the checkpoints, then the marker: in this order, as the marker makes them count.
    fn mark_clean(&self, dir: &Arc<DataDir>, broker_epoch: Option<i64>) -> bool {
        if self.write_checkpoints(dir).is_err() {
            return false;
        }
        let marker = CleanShutdown::new(broker_epoch);
        match marker.write(self.pool.io(), dir.path()) {
            Ok(()) => true,
            Err(source) => {
                dir.fail(LogError::File { source });
                false
            }
        }
    }
}

/// Takes the next one out, and lets the others go on.
fn take<T>(queue: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    queue.lock().next()
}
