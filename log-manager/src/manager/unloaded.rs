//! Logs that could not be loaded on disks that can be trusted.

use std::io;
use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_recovery::{CheckpointKind, FileError, LoadError, OffsetCheckpoint, TopicPartition};
use alluvium_segment::SegmentError;

use super::Shared;
use super::data_dir::DataDir;
use super::start::Checkpoints;
use crate::LogError;

/// A log that could not be loaded.
#[derive(Debug)]
pub(super) struct Unloaded {
    dir: Arc<DataDir>,
    pub(super) reason: Arc<LogError>,
    /// What the checkpoints said of it. They go on to, for the start that can load it.
    recovery_point: Option<Offset>,
    log_start: Option<Offset>,
    high_watermark: Option<Offset>,
}

impl Unloaded {
    fn checkpointed(&self, kind: CheckpointKind) -> Option<Offset> {
        match kind {
            CheckpointKind::RecoveryPoint => self.recovery_point,
            CheckpointKind::LogStart => self.log_start,
            CheckpointKind::HighWatermark => self.high_watermark,
            _ => None,
        }
    }
}

impl Shared {
    /// A load has failed: the log is out of service, and all of its disk where that is to blame.
    /// Returns the reason in the first case.
    pub(super) fn load_failed(
        &self,
        partition: &TopicPartition,
        reason: LogError,
        dir: &Arc<DataDir>,
        checkpoints: &Checkpoints,
    ) -> Option<Arc<LogError>> {
        if !is_of_one_log(&reason) {
            // The disk cannot be trusted; other disks can.
            self.offline.insert(partition.clone(), Arc::clone(dir));
            dir.fail(reason);
            return None;
        }
        tracing::error!(
            %partition,
            dir = %dir.path().display(),
            error = &reason as &dyn std::error::Error,
            "Error while loading log"
        );
        let reason = Arc::new(reason);
        let said = |offsets: &OffsetCheckpoint| offsets.offset(partition);
        let unloaded = Unloaded {
            dir: Arc::clone(dir),
            reason: Arc::clone(&reason),
            recovery_point: said(&checkpoints.recovery_points),
            log_start: said(&checkpoints.log_starts),
            high_watermark: said(&checkpoints.high_watermarks),
        };
        self.unloaded.insert(partition.clone(), unloaded);
        Some(reason)
    }

    /// Whether a log of this directory could not be loaded: then it may not have been recovered.
    pub(super) fn has_unloaded(&self, dir: &Arc<DataDir>) -> bool {
        self.unloaded.iter().any(|entry| Arc::ptr_eq(&entry.dir, dir))
    }

    /// What a checkpoint said of the logs of this directory that could not be loaded.
    pub(super) fn offsets_of_unloaded(
        &self,
        dir: &Arc<DataDir>,
        kind: CheckpointKind,
    ) -> Vec<(TopicPartition, Offset)> {
        let there = self.unloaded.iter().filter(|entry| Arc::ptr_eq(&entry.dir, dir));
        there.filter_map(|entry| Some((entry.key().clone(), entry.checkpointed(kind)?))).collect()
    }
}

/// Whether something about the log's own files keeps it from being loaded, such as a directory or a
/// link to nothing in the place of a file, or one that this process may not read.
fn is_of_one_log(error: &LogError) -> bool {
    let of_segment = |error: &SegmentError| match error {
        SegmentError::Io { source, .. } => is_of_one_file(source),
        SegmentError::Corrupt { .. }
        | SegmentError::Gone { .. }
        | SegmentError::TooLarge { .. }
        | SegmentError::OffsetOverflow { .. }
        | SegmentError::OutOfOrder { .. } => true,
        _ => false,
    };
    let of_file = |error: &FileError| match error {
        FileError::Io { source, .. } => is_of_one_file(source),
        _ => true,
    };
    match error {
        LogError::Load { source: LoadError::File { source, .. } } | LogError::File { source } => {
            of_file(source)
        }
        LogError::Load { source: LoadError::Segment { source, .. } }
        | LogError::Segment { source } => of_segment(source),
        LogError::Directory { source, .. } => is_of_one_file(source),
        _ => false,
    }
}

fn is_of_one_file(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    let kind = error.kind();
    matches!(kind, NotFound | PermissionDenied | IsADirectory | NotADirectory | FileTooLarge)
}
