//! Logs that move to another disk of the broker.

use std::path::Path;
use std::sync::Arc;

use alluvium_record_format::Uuid;
use alluvium_recovery::{PartitionMetadata, TopicPartition, sync_directory};
use alluvium_segment::PartitionDirName;

use super::{Hosted, LogManager, ManagerError, Shared};
use crate::gate::Kept;
use crate::{Log, LogError};

impl LogManager {
    /// Makes an empty copy of a partition's log on another disk, or returns the one that is there.
    /// Append to it what the log holds, as a follower does, then let it take the place with
    /// [`promote_future`](Self::promote_future).
    ///
    /// The log is not cleaned while there is a copy of it, also not after a start that finds one:
    /// one that is not wanted any more is to go by [`delete_future`](Self::delete_future).
    ///
    /// Source: `ReplicaManager.alterReplicaLogDirs` in Kafka.
    ///
    /// # Errors
    ///
    /// `Unknown`, `Offline`, `NotLoaded`, `UnknownDir`; `SameDir` where the log lies there already;
    /// `InconsistentTopicId` where the copy that is there belongs to another topic of the same
    /// name; `File` where the topic's id cannot be read; `Log` where it cannot be made.
    pub fn create_future(
        &self,
        partition: &TopicPartition,
        dir: impl AsRef<Path>,
    ) -> Result<Log, ManagerError> {
        let shared = &*self.shared;
        let _one_at_a_time = shared.changing.lock();
        shared.check_running()?;
        let hosted = shared.hosted(partition)?;
        let topic_id = shared.topic_id(&hosted)?;
        if let Some(future) = shared.future(partition) {
            shared.check_topic_id(partition, &future.log.dir().path(), topic_id)?;
            return Ok(future.log);
        }
        let dir = shared.live_dir(dir.as_ref())?;
        if Arc::ptr_eq(&dir, &hosted.dir) {
            return Err(ManagerError::SameDir { path: dir.path().to_path_buf() });
        }
        let name = PartitionDirName::new(partition.topic(), partition.partition());
        let future = name.to_future(shared.unique());
        shared.make(&dir, partition, &future, topic_id, true)
    }

    /// Lets the copy on another disk take the place of a partition's log, which is deleted. The
    /// copy must hold all that the log holds. Where there is no log, as its directory was lost
    /// while the broker was down, the copy becomes the log.
    ///
    /// Where this fails the log stays as it was, and the copy too unless its disk has failed: it
    /// can be tried again. Where it is the old directory that cannot be renamed, its disk goes
    /// offline and the log has moved all the same.
    ///
    /// Source: `LogManager.replaceCurrentWithFutureLog` in Kafka.
    ///
    /// # Errors
    ///
    /// `Unknown` where there is no copy; `Offline`, also where the log may lie on a disk that is;
    /// `NotLoaded`; `InconsistentTopicId` where the
    /// copy belongs to another topic of the same name; `Log` where the copy cannot be made durable;
    /// `Directory` where it cannot be renamed.
    pub fn promote_future(&self, partition: &TopicPartition) -> Result<Log, ManagerError> {
        let shared = &*self.shared;
        let _one_at_a_time = shared.changing.lock();
        shared.check_running()?;
        let old = match shared.hosted(partition) {
            Ok(old) => Some(old),
            Err(ManagerError::Unknown { .. }) => {
                // It may be on a disk that could not be listed.
                if let Some(dir) = shared.dirs.iter().find(|dir| !dir.is_live()) {
                    return Err(ManagerError::Offline { path: dir.path().to_path_buf() });
                }
                None
            }
            Err(error) => return Err(error),
        };
        let Some(future) = shared.future(partition) else {
            return Err(ManagerError::Unknown { partition: partition.to_string() });
        };
        let kept = Kept::off(&*shared.gate, partition);
        if let Some(old) = &old {
            let path = future.log.dir().path();
            shared.check_topic_id(partition, &path, shared.topic_id(old)?)?;
        }
        shared.settle(partition, &future, old.as_ref())?;
        let log = future.log.clone();
        let hosted = Hosted { log: log.clone(), dir: Arc::clone(&future.dir), _kept_off: None };
        shared.logs.insert(partition.clone(), hosted);
        shared.futures.remove(partition);
        // The old disk may have failed meanwhile.
        shared.offline.remove_if(partition, |_, dir| !Arc::ptr_eq(dir, &future.dir));
        // How far a log was clean that is not there any more says nothing of the copy.
        kept.moved(old.as_ref().map(|_| log.log_end_offset()));
        if let Some(old) = old
            && shared.retire(partition, &old).is_ok()
        {
            // Where that fails its disk goes offline, with the reason.
            drop(shared.write_checkpoints(&old.dir));
        }
        Ok(log)
    }

    /// Gives up the copy of a log on another disk: its files go after
    /// `log.segment.delete.delay.ms`, and the log may be cleaned again. Returns whether there was
    /// one.
    ///
    /// Source: `LogManager.asyncDelete` with `isFuture` in Kafka.
    ///
    /// # Errors
    ///
    /// `Offline` where its directory cannot be renamed: then its disk goes offline.
    pub fn delete_future(&self, partition: &TopicPartition) -> Result<bool, ManagerError> {
        let shared = &*self.shared;
        let _one_at_a_time = shared.changing.lock();
        shared.check_running()?;
        shared.drop_future(partition)
    }
}

impl Shared {
    /// The copy of a log on another disk, if it is in service.
    fn future(&self, partition: &TopicPartition) -> Option<Hosted> {
        self.retire_failed_dirs();
        self.futures.get(partition).map(|future| future.clone())
    }

    /// The id of its topic, in the directory of a log.
    fn topic_id(&self, hosted: &Hosted) -> Result<Option<Uuid>, ManagerError> {
        let metadata = PartitionMetadata::read(self.pool.io(), &hosted.log.dir().path());
        let metadata = metadata.map_err(|source| ManagerError::File { source })?;
        Ok(metadata.map(|metadata| metadata.topic_id))
    }

    /// Makes a copy durable under the name of the log, with its checkpoints. It stays a copy as
    /// long as that is not done: a log that goes before could be lost in a crash.
    fn settle(
        &self,
        partition: &TopicPartition,
        future: &Hosted,
        old: Option<&Hosted>,
    ) -> Result<(), ManagerError> {
        let failed = |source| ManagerError::Log { partition: partition.to_string(), source };
        // What was durable in the old place must be so in the new one.
        future.log.flush(true).map_err(failed)?;
        if let Some(old) = old {
            future.log.update_high_watermark(old.log.high_watermark()).map_err(failed)?;
        }
        // The rename is the last step that may fail alone: two directories of one name would keep
        // the next start from the log.
        self.write_checkpoints(&future.dir)?;
        let old_dir = old.map(|old| &old.dir);
        // How far a log was clean that is not there any more says nothing of the copy.
        let said = old_dir.and_then(|dir| dir.cleaned.offset(partition));
        let bounded = said.map(|offset| offset.min(future.log.log_end_offset()));
        let carried = self.carry_cleaned(partition, old_dir, &future.dir, bounded);
        let name = PartitionDirName::new(partition.topic(), partition.partition());
        let renamed = carried.and_then(|()| {
            let renamed = future.log.take_name(name.to_string());
            renamed.map_err(|source| ManagerError::Directory { source })
        });
        if let Err(error) = renamed {
            if let Some(dir) = old_dir {
                drop(self.carry_cleaned(partition, Some(&future.dir), dir, said));
            }
            return Err(error);
        }
        if let Err(source) = sync_directory(self.pool.io(), future.dir.path()) {
            future.dir.fail(LogError::File { source });
            return Err(ManagerError::Offline { path: future.dir.path().to_path_buf() });
        }
        Ok(())
    }

    /// Takes the copy of a log out of service, durably: what came back after a crash would be
    /// taken for the copy of a later log. Returns whether there was one.
    pub(super) fn drop_future(&self, partition: &TopicPartition) -> Result<bool, ManagerError> {
        let Some(future) = self.future(partition) else { return Ok(false) };
        self.retire(partition, &future)?;
        self.futures.remove(partition);
        self.write_checkpoints(&future.dir)?;
        Ok(true)
    }
}
