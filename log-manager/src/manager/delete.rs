//! Logs that go.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alluvium_record_format::Timestamp;
use alluvium_recovery::TopicPartition;
use alluvium_segment::PartitionDirName;

use super::data_dir::DataDir;
use super::{Hosted, LogManager, ManagerError, Shared};
use crate::LogError;
use crate::gate::Kept;

/// A directory that waits for its removal.
#[derive(Debug)]
pub(super) struct Deletion {
    dir: Arc<DataDir>,
    path: PathBuf,
    due: Timestamp,
}

impl LogManager {
    /// Takes a log out of service and renames its directory; its files go after
    /// `log.segment.delete.delay.ms`. Who reads it goes on.
    ///
    /// Source: `LogManager.asyncDelete` in Kafka.
    ///
    /// # Errors
    ///
    /// `Unknown`, `Offline`; `NotLoaded`: a log that could not be loaded cannot be deleted while
    /// the broker runs. Where the rename fails, its disk goes offline.
    pub fn delete(&self, partition: &TopicPartition) -> Result<(), ManagerError> {
        let shared = &*self.shared;
        let _one_at_a_time = shared.changing.lock();
        shared.check_running()?;
        let hosted = shared.hosted(partition)?;
        let kept = Kept::off(&*shared.gate, partition);
        // A copy that cannot be renamed takes its own disk offline; the log goes all the same.
        drop(shared.drop_future(partition));
        shared.retire(partition, &hosted)?;
        shared.logs.remove(partition);
        shared.forget_cleaned(partition);
        kept.moved(None);
        shared.write_checkpoints(&hosted.dir)
    }
}

impl Shared {
    /// Ends the use of a log, renames its directory and queues it. To be taken out of its map
    /// after that: where the rename fails, its disk goes offline with all that lies there.
    pub(super) fn retire(
        &self,
        partition: &TopicPartition,
        hosted: &Hosted,
    ) -> Result<(), ManagerError> {
        hosted.log.abandon();
        hosted.dir.log_count.fetch_sub(1, Ordering::AcqRel);
        let name = PartitionDirName::new(partition.topic(), partition.partition());
        let gone = name.to_delete(self.unique());
        if let Err(source) = hosted.log.dir().rename(&gone.to_string()) {
            hosted.dir.fail(LogError::Segment { source });
            return Err(ManagerError::Offline { path: hosted.dir.path().to_path_buf() });
        }
        tracing::info!(dir = %hosted.log.dir().path().display(), "scheduled for deletion");
        self.queue_deletion(&hosted.dir, hosted.log.dir().path());
        Ok(())
    }

    /// Queues a directory that was renamed before, now or before the start.
    pub(super) fn queue_deletion(&self, dir: &Arc<DataDir>, path: PathBuf) {
        let delay = self.config.log_defaults().file_delete_delay_ms();
        let delay = i64::try_from(delay).unwrap_or(i64::MAX);
        let due = Timestamp::new(self.clock.now().get().saturating_add(delay));
        self.deletions.lock().push(Deletion { dir: Arc::clone(dir), path, due });
    }

    /// Removes the directories whose time has come; returns how many.
    pub(super) fn delete_due(&self, now: Timestamp) -> usize {
        let due: Vec<Deletion> = {
            let mut waiting = self.deletions.lock();
            let (due, rest) = waiting.drain(..).partition(|deletion| deletion.due <= now);
            *waiting = rest;
            due
        };
        let mut count = 0;
        for Deletion { dir, path, .. } in due.into_iter().filter(|it| it.dir.is_live()) {
            // Held until it is gone. One that has been given up is no longer ours to change.
            let Some(_lock) = dir.lock() else { continue };
            let _span = tracing::info_span!("delete_log", dir = %path.display()).entered();
            match fs::remove_dir_all(&path) {
                Ok(()) => count += 1,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => dir.fail(LogError::Directory { path, source }),
            }
        }
        count
    }

    /// A number that no other directory of this broker has in its name.
    pub(super) fn unique(&self) -> u128 {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.now().get().cast_unsigned();
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), count);
        (u128::from(now ^ random) << 64) | u128::from(random.rotate_left(17) ^ count)
    }
}
