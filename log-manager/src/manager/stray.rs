//! Partitions that lie on a disk and are not this broker's.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use alluvium_recovery::{FileError, PartitionMetadata, TopicPartition};
use alluvium_segment::PartitionDirName;

use super::data_dir::DataDir;
use super::{LogManager, ManagerError, Shared};
use crate::gate::Kept;
use crate::{Log, LogError};

impl LogManager {
    /// Takes a log out of service that is not this broker's any more, and renames its directory
    /// (`-stray`). It stays on the disk, complete, until somebody removes it. Returns the name.
    ///
    /// Source: `LogManager.asyncDelete` with `isStray` in Kafka.
    ///
    /// # Errors
    ///
    /// `Unknown`; `NotLoaded`; `Offline`, also where the log cannot be closed or renamed.
    pub fn set_aside(&self, partition: &TopicPartition) -> Result<String, ManagerError> {
        let shared = &*self.shared;
        let _one_at_a_time = shared.changing.lock();
        shared.check_running()?;
        let hosted = shared.hosted(partition)?;
        let kept = Kept::off(&*shared.gate, partition);
        // A copy that cannot be renamed takes its own disk offline; the log goes all the same.
        drop(shared.drop_future(partition));
        let name = shared
            .set_aside(partition, &hosted.log, &hosted.dir)
            .ok_or_else(|| ManagerError::Offline { path: hosted.dir.path().to_path_buf() })?;
        hosted.dir.log_count.fetch_sub(1, Ordering::AcqRel);
        shared.logs.remove(partition);
        shared.forget_cleaned(partition);
        kept.moved(None);
        shared.write_checkpoints(&hosted.dir)?;
        Ok(name)
    }
}

impl Shared {
    /// Whether a partition's directory is not this broker's. Only where there is no file with the
    /// topic's id, the id is unknown: a log whose id cannot be read may well be ours.
    pub(super) fn is_stray(
        &self,
        partition: &TopicPartition,
        path: &Path,
    ) -> Result<bool, FileError> {
        let Some(is_stray) = &self.is_stray else { return Ok(false) };
        let metadata = PartitionMetadata::read(self.pool.io(), path)?;
        Ok(is_stray.ask(partition, metadata.map(|metadata| metadata.topic_id)))
    }

    /// Closes a log that is to go out of service, properly, and renames its directory; returns the
    /// name. Where that fails, its disk goes offline.
    pub(super) fn set_aside(
        &self,
        partition: &TopicPartition,
        log: &Log,
        dir: &Arc<DataDir>,
    ) -> Option<String> {
        let name = PartitionDirName::new(partition.topic(), partition.partition());
        let name = name.to_stray(self.unique()).to_string();
        let closed = log.close().and_then(|_closed| {
            log.dir().rename(&name).map_err(|source| LogError::Segment { source })
        });
        match closed {
            Ok(()) => {
                tracing::warn!(dir = %log.dir().path().display(), "marked stray and renamed");
                dir.add_stray(name.clone());
                Some(name)
            }
            Err(error) => {
                dir.fail(error);
                None
            }
        }
    }
}
