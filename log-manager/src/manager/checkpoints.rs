//! What each directory writes down about its logs.

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_recovery::{CheckpointKind, OffsetCheckpoint, TopicPartition};
use dashmap::DashMap;

use super::data_dir::DataDir;
use super::{LogManager, ManagerError, Shared};
use crate::{Log, LogError};

impl LogManager {
    /// Writes the checkpoints of every directory in service: recovery points, log starts, high
    /// watermarks. A directory that cannot be written to goes offline. After a stop nothing is
    /// written: the directories may be somebody else's.
    pub fn write_checkpoints(&self) {
        for dir in self.shared.dirs.iter().filter(|dir| dir.is_live()) {
            // The reason is kept with the directory.
            drop(self.shared.write_checkpoints(dir));
        }
        self.shared.retire_failed_dirs();
    }
}

impl Shared {
    /// Writes all checkpoints of one directory.
    pub(super) fn write_checkpoints(&self, dir: &Arc<DataDir>) -> Result<(), ManagerError> {
        for kind in
            [CheckpointKind::RecoveryPoint, CheckpointKind::LogStart, CheckpointKind::HighWatermark]
        {
            self.write_checkpoint(dir, kind)?;
        }
        Ok(())
    }

    /// Writes one checkpoint of one directory. Where it fails, the directory goes offline.
    pub(super) fn write_checkpoint(
        &self,
        dir: &Arc<DataDir>,
        kind: CheckpointKind,
    ) -> Result<(), ManagerError> {
        let kept = match kind {
            CheckpointKind::RecoveryPoint => &dir.recovery_points,
            CheckpointKind::LogStart => &dir.log_starts,
            CheckpointKind::HighWatermark => &dir.high_watermarks,
            // The cleaner's own.
            _ => return Ok(()),
        };
        let path: PathBuf = dir.path().to_path_buf();
        match kept.write(self.pool.io(), dir, || self.offsets_of(dir, kind)) {
            Ok(true) => Ok(()),
            Ok(false) => self.check_running().and(Err(ManagerError::Offline { path })),
            Err(source) => {
                dir.fail(LogError::File { source });
                Err(ManagerError::Offline { path })
            }
        }
    }

    fn offsets_of(&self, dir: &Arc<DataDir>, kind: CheckpointKind) -> OffsetCheckpoint {
        // A copy on its way shares the key of its partition, so only one of the two can stand
        // there; the log itself is on another disk.
        let maps = [&self.futures, &self.logs];
        let entries = maps.into_iter().flat_map(DashMap::iter);
        let in_service = entries.filter(|entry| Arc::ptr_eq(&entry.dir, dir)).filter_map(|entry| {
            let offset = offset_of(&entry.log, kind)?;
            Some((TopicPartition::clone(entry.key()), offset))
        });
        self.offsets_of_unloaded(dir, kind).into_iter().chain(in_service).collect()
    }
}

/// What a checkpoint says of a log; nothing where the default says the same.
fn offset_of(log: &Log, kind: CheckpointKind) -> Option<Offset> {
    match kind {
        #[cfg(alluvium_mutant)]
        CheckpointKind::RecoveryPoint if alluvium_segment::mutant::is("early-recovery-point") => {
            Some(log.log_end_offset())
        }
        CheckpointKind::RecoveryPoint => Some(log.recovery_point()),
        CheckpointKind::HighWatermark => Some(log.high_watermark()),
        CheckpointKind::LogStart => {
            let start = log.log_start_to_keep();
            let first = log.segments().first().map(|(base, _)| *base);
            Some(start).filter(|start| Some(*start) > first)
        }
        _ => None,
    }
}
