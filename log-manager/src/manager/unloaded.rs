//! Logs that could not be loaded on disks that can be trusted.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use alluvium_record_format::Offset;
use alluvium_recovery::{CheckpointKind, FileError, LoadError, OffsetCheckpoint, TopicPartition};
use alluvium_segment::SegmentError;
use alluvium_sparse_index::IndexError;

use super::data_dir::DataDir;
use super::loading::Job;
use super::start::Checkpoints;
use super::{Hosted, Shared};
use crate::LogError;

/// A log that could not be loaded.
#[derive(Debug)]
pub(super) struct Unloaded {
    dir: Arc<DataDir>,
    partition: TopicPartition,
    /// Whether it was on its way to this disk: the log itself lies on another one.
    is_future: bool,
    reason: Arc<LogError>,
    checkpointed: Checkpointed,
}

/// What the checkpoints said of a log. Written to them again, so that the next start that can load
/// the log finds it.
#[derive(Debug, Default)]
struct Checkpointed {
    recovery_point: Option<Offset>,
    log_start: Option<Offset>,
    high_watermark: Option<Offset>,
}

impl Checkpointed {
    fn offset(&self, kind: CheckpointKind) -> Option<Offset> {
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
        job: &Job,
        reason: LogError,
        dir: &Arc<DataDir>,
        checkpoints: &Checkpoints,
    ) -> Option<Arc<LogError>> {
        let Job { path, partition, is_future } = job;
        if !is_of_one_log(&reason) {
            // The disk cannot be trusted; other disks can.
            self.set_offline(job, dir);
            dir.fail(reason);
            return None;
        }
        tracing::error!(
            %partition,
            dir = %path.display(),
            error = &reason as &dyn std::error::Error,
            "Error while loading log"
        );
        let reason = Arc::new(reason);
        let said = |offsets: &OffsetCheckpoint| offsets.offset(partition);
        let unloaded = Unloaded {
            dir: Arc::clone(dir),
            partition: partition.clone(),
            is_future: *is_future,
            reason: Arc::clone(&reason),
            checkpointed: Checkpointed {
                recovery_point: said(&checkpoints.recovery_points),
                log_start: said(&checkpoints.log_starts),
                high_watermark: said(&checkpoints.high_watermarks),
            },
        };
        self.unloaded.insert(path.clone(), unloaded);
        let is_there = |hosted: &Hosted| Arc::ptr_eq(&hosted.dir, dir);
        if [&self.logs, &self.futures]
            .iter()
            .any(|map| map.get(partition).is_some_and(|hosted| is_there(&hosted)))
        {
            self.forget_checkpointed(partition, dir);
        }
        Some(reason)
    }

    /// The disk has a log of this partition in service: its checkpoints speak of that one.
    pub(super) fn forget_checkpointed(&self, partition: &TopicPartition, dir: &Arc<DataDir>) {
        for mut entry in self.unloaded.iter_mut() {
            if entry.partition == *partition && Arc::ptr_eq(&entry.dir, dir) {
                entry.checkpointed = Checkpointed::default();
            }
        }
    }

    /// Why the log of a partition could not be loaded; a copy on its way is not that.
    pub(super) fn why_unloaded(&self, partition: &TopicPartition) -> Option<Arc<LogError>> {
        let mut logs = self.unloaded.iter().filter(|entry| !entry.is_future);
        let found = logs.find(|entry| entry.partition == *partition)?;
        Some(Arc::clone(&found.reason))
    }

    /// Whether a log or a copy in this directory could not be loaded.
    pub(super) fn is_unloaded_in(&self, partition: &TopicPartition, dir: &Arc<DataDir>) -> bool {
        let mut there = self.unloaded.iter().filter(|entry| Arc::ptr_eq(&entry.dir, dir));
        there.any(|entry| entry.partition == *partition)
    }

    /// How many partitions' logs could not be loaded.
    pub(super) fn unloaded_count(&self) -> usize {
        self.unloaded.iter().filter(|entry| !entry.is_future).count()
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
        let said =
            |entry: &Unloaded| Some((entry.partition.clone(), entry.checkpointed.offset(kind)?));
        there.filter_map(|entry| said(&entry)).collect()
    }
}

/// Whether something about the log's own files keeps it from being loaded, such as a directory or a
/// link to nothing in the place of a file, or one that this process may not read.
fn is_of_one_log(error: &LogError) -> bool {
    match error {
        LogError::Load { source: LoadError::File { source, .. } } | LogError::File { source } => {
            is_of_file(source)
        }
        LogError::Load { source: LoadError::Segment { source, .. } }
        | LogError::Segment { source } => is_of_segment(source),
        LogError::Load { source: LoadError::Changed { .. } } => true,
        LogError::Directory { path, source } => is_of_path(path, source),
        _ => false,
    }
}

fn is_of_segment(error: &SegmentError) -> bool {
    match error {
        SegmentError::Io { path, source, .. } => is_of_path(path, source),
        SegmentError::Index { source, .. } => match source {
            IndexError::Io { path, source, .. } => is_of_path(path, source),
            IndexError::Corrupt { .. }
            | IndexError::Changed { .. }
            | IndexError::Replaced { .. }
            | IndexError::Refused { .. } => true,
            _ => false,
        },
        SegmentError::Corrupt { .. }
        | SegmentError::Gone { .. }
        | SegmentError::TooLarge { .. }
        | SegmentError::OffsetOverflow { .. }
        | SegmentError::OutOfOrder { .. } => true,
        _ => false,
    }
}

fn is_of_file(error: &FileError) -> bool {
    match error {
        FileError::Io { path, source, .. } => is_of_path(path, source),
        _ => true,
    }
}

/// Whether the file or directory is to blame, and not what it lies on.
fn is_of_path(path: &Path, error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    let kind = error.kind();
    matches!(kind, NotFound | PermissionDenied | IsADirectory | NotADirectory | FileTooLarge)
        || is_no_file(path)
}

/// Whether this is a pipe, a socket, a device, or a link that leads nowhere: each fails in its own
/// way, and not always when it is opened.
fn is_no_file(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => !found.is_file() && !found.is_dir(),
        Err(_) => fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()),
    }
}
