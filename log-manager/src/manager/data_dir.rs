//! One log directory: its lock, its health, its marker.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use alluvium_record_format::{Offset, Uuid};
use alluvium_recovery::{CheckpointKind, FileAction, FileError, OffsetCheckpoint, TopicPartition};
use alluvium_segment::{DirLock, Io};
use parking_lot::Mutex;

use crate::{DirHealth, LogError, RecoveryPointKeeper};

/// One log directory.
#[derive(Debug)]
pub(super) struct DataDir {
    health: DirHealth,
    /// `None` once it has been given up.
    lock: Mutex<Option<DirLock>>,
    /// Whether it held the marker of a clean stop when it was opened.
    was_clean: OnceLock<bool>,
    /// Its id in `meta.properties`.
    id: OnceLock<Uuid>,
    /// Logs in it, copies on their way included.
    pub(super) log_count: AtomicUsize,
    retired: AtomicBool,
    /// The names of the partitions that the start has set aside.
    strays: Mutex<Vec<String>>,
    /// What a truncation lowers before it cuts.
    pub(super) recovery_points: Kept,
    /// What a long retention raises before it drops anything, and a truncation lowers.
    pub(super) log_starts: Kept,
    pub(super) high_watermarks: Kept,
}

/// What one checkpoint says, as it was read or written last. Held while it is put together and
/// written: all writes pass through one temporary name, the last one must be the newest, and no
/// older offset is written over one that a log has asked to keep.
#[derive(Debug)]
pub(super) struct Kept {
    kind: CheckpointKind,
    /// `None` once the logs are closed: from then on nothing is written.
    offsets: Mutex<Option<OffsetCheckpoint>>,
}

impl DataDir {
    pub(super) fn new(path: PathBuf, lock: Option<DirLock>) -> Self {
        Self {
            health: DirHealth::new(path),
            lock: Mutex::new(lock),
            was_clean: OnceLock::new(),
            id: OnceLock::new(),
            log_count: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
            strays: Mutex::default(),
            recovery_points: Kept::new(CheckpointKind::RecoveryPoint),
            log_starts: Kept::new(CheckpointKind::LogStart),
            high_watermarks: Kept::new(CheckpointKind::HighWatermark),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.health.dir()
    }

    pub(super) const fn health(&self) -> &DirHealth {
        &self.health
    }

    pub(super) fn was_clean(&self) -> bool {
        self.was_clean.get().copied().unwrap_or(false)
    }

    pub(super) fn set_was_clean(&self, was_clean: bool) {
        self.was_clean.get_or_init(|| was_clean);
    }

    pub(super) fn id(&self) -> Option<Uuid> {
        self.id.get().copied()
    }

    pub(super) fn set_id(&self, id: Uuid) {
        self.id.get_or_init(|| id);
    }

    pub(super) fn is_live(&self) -> bool {
        self.health.failure().is_none()
    }

    /// What had failed, with all causes.
    pub(super) fn failure(&self) -> Option<String> {
        let reason = self.health.failure()?;
        let mut text = reason.to_string();
        let mut cause = std::error::Error::source(&**reason);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        Some(text)
    }

    /// Takes the directory offline.
    pub(super) fn fail(&self, reason: LogError) {
        self.health.fail(&Arc::new(reason));
    }

    /// The lock, for a log to be opened under it.
    pub(super) fn lock(&self) -> Option<DirLock> {
        self.lock.lock().clone()
    }

    /// Gives the lock up: it falls with the last log that holds it.
    pub(super) fn unlock(&self) {
        drop(self.lock.lock().take());
    }

    /// No checkpoint is written from now on, as the directory may soon be somebody else's. Waits
    /// for one that is being written.
    pub(super) fn seal(&self) {
        for kept in self.checkpoints() {
            *kept.offsets.lock() = None;
        }
    }

    /// Makes durable that the checkpoints say nothing of a partition. Writes those alone that do.
    pub(super) fn forget(&self, io: &Io, partition: &TopicPartition) -> Result<(), FileError> {
        self.checkpoints().into_iter().try_for_each(|kept| kept.forget(io, self.path(), partition))
    }

    const fn checkpoints(&self) -> [&Kept; 3] {
        [&self.recovery_points, &self.log_starts, &self.high_watermarks]
    }

    /// Whether the caller is the first to clear up after the failure.
    pub(super) fn retire(&self) -> bool {
        !self.retired.swap(true, Ordering::AcqRel)
    }

    pub(super) fn add_stray(&self, name: String) {
        self.strays.lock().push(name);
    }

    pub(super) fn take_strays(&self) -> Vec<String> {
        std::mem::take(&mut *self.strays.lock())
    }

    pub(super) fn log_count(&self) -> usize {
        self.log_count.load(Ordering::Acquire)
    }
}

impl Kept {
    fn new(kind: CheckpointKind) -> Self {
        Self { kind, offsets: Mutex::new(Some(OffsetCheckpoint::new())) }
    }

    /// What the checkpoint said when the directory was opened.
    pub(super) fn set(&self, offsets: OffsetCheckpoint) {
        *self.offsets.lock() = Some(offsets);
    }

    /// Writes the offsets that `collect` finds, no log's wish beside it. Returns whether it did:
    /// not once the logs are closed, nor where the disk has failed.
    pub(super) fn write(
        &self,
        io: &Io,
        dir: &DataDir,
        collect: impl FnOnce() -> OffsetCheckpoint,
    ) -> Result<bool, FileError> {
        let mut kept = self.offsets.lock();
        let Some(written) = &mut *kept else { return Ok(false) };
        // Nobody else gets the directory meanwhile.
        let _lock = dir.lock();
        let offsets = collect();
        if !dir.is_live() {
            // Its logs go out of service: some may be missing.
            return Ok(false);
        }
        offsets.write(io, self.kind, dir.path())?;
        *written = offsets;
        Ok(true)
    }

    /// Whether the checkpoint says this of a partition.
    pub(super) fn keeps(&self, partition: &TopicPartition, offset: Offset) -> bool {
        let kept = self.offsets.lock();
        kept.as_ref().and_then(|written| written.offset(partition)) == Some(offset)
    }

    /// Writes the checkpoint without this partition, unless it says nothing of it.
    fn forget(&self, io: &Io, dir: &Path, partition: &TopicPartition) -> Result<(), FileError> {
        let mut kept = self.offsets.lock();
        let Some(written) = &mut *kept else { return Err(self.closed(dir)) };
        if written.offset(partition).is_none() {
            return Ok(());
        }
        let mut changed = written.clone();
        changed.remove(partition);
        changed.write(io, self.kind, dir)?;
        *written = changed;
        Ok(())
    }

    /// Writes another offset for one partition, unless what it says of it does already.
    fn change(
        &self,
        of: &KeptInCheckpoint,
        offset: Offset,
        does: impl FnOnce(Option<Offset>) -> bool,
    ) -> Result<(), FileError> {
        let mut kept = self.offsets.lock();
        let Some(written) = &mut *kept else { return Err(self.closed(of.dir.path())) };
        if does(written.offset(&of.partition)) {
            return Ok(());
        }
        let mut changed = written.clone();
        changed.insert(of.partition.clone(), offset);
        changed.write(&of.io, self.kind, of.dir.path())?;
        *written = changed;
        Ok(())
    }

    fn closed(&self, dir: &Path) -> FileError {
        FileError::io(&self.kind.path(dir), FileAction::Write, std::io::Error::other(Closed))
    }
}

/// The logs of the directory are closed.
#[derive(Debug, thiserror::Error)]
#[error("the logs are closed")]
struct Closed;

/// The recovery point and the start of one log, in the checkpoints of its directory.
#[derive(Debug)]
pub(super) struct KeptInCheckpoint {
    pub(super) dir: Arc<DataDir>,
    pub(super) partition: TopicPartition,
    pub(super) io: Io,
}

impl RecoveryPointKeeper for KeptInCheckpoint {
    fn lower(&self, offset: Offset) -> Result<(), FileError> {
        let does = |kept: Option<Offset>| kept.is_none_or(|kept| kept <= offset);
        self.dir.recovery_points.change(self, offset, does)
    }

    fn keep_log_start(&self, offset: Offset) -> Result<bool, FileError> {
        // A higher one is that of the log now: one that goes back is lowered here first.
        let does = |kept: Option<Offset>| kept.is_some_and(|kept| kept >= offset);
        match self.dir.log_starts.change(self, offset, does) {
            // What is to make room must not need any.
            Err(error) if error.is_storage_full() => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn lower_log_start(&self, offset: Offset) -> Result<(), FileError> {
        let does = |kept: Option<Offset>| kept.is_none_or(|kept| kept <= offset);
        self.dir.log_starts.change(self, offset, does)
    }
}
