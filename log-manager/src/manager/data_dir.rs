//! One log directory: its lock, its health, its marker.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use alluvium_record_format::{Offset, Uuid};
use alluvium_recovery::{CheckpointKind, FileAction, FileError, OffsetCheckpoint, TopicPartition};
use alluvium_segment::{DirLock, Io};
use parking_lot::Mutex;

use crate::{DirHealth, LogError, OffsetKeeper};

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
    pub(super) recovery_points: KeptOffsets,
    /// What a long retention raises before it drops anything, and a truncation lowers.
    pub(super) log_starts: KeptOffsets,
    pub(super) high_watermarks: KeptOffsets,
    /// What cleaners raise, and a truncation lowers before it cuts.
    pub(super) cleaned: KeptOffsets,
}

/// What one checkpoint says, as it was read or written last. Held while it is put together and
/// written: all writes pass through one temporary name, the last one must be the newest, and no
/// older offset is written over one that a log has asked to keep.
#[derive(Debug)]
pub(super) struct KeptOffsets {
    kind: CheckpointKind,
    /// `None` once the logs are closed: from then on nothing is written.
    written: Mutex<Option<Written>>,
}

/// What a checkpoint says.
#[derive(Debug, Default)]
struct Written {
    offsets: OffsetCheckpoint,
    /// The file could not be read: it may say anything, and does so after the next start.
    is_in_doubt: bool,
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
            recovery_points: KeptOffsets::new(CheckpointKind::RecoveryPoint),
            log_starts: KeptOffsets::new(CheckpointKind::LogStart),
            high_watermarks: KeptOffsets::new(CheckpointKind::HighWatermark),
            cleaned: KeptOffsets::new(CheckpointKind::Cleaner),
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
            *kept.written.lock() = None;
        }
    }

    /// Makes durable that the checkpoints say nothing of a partition. Writes those alone that do.
    pub(super) fn forget(&self, io: &Io, partition: &TopicPartition) -> Result<(), FileError> {
        self.checkpoints().into_iter().try_for_each(|kept| kept.forget(io, self.path(), partition))
    }

    const fn checkpoints(&self) -> [&KeptOffsets; 4] {
        [&self.recovery_points, &self.log_starts, &self.high_watermarks, &self.cleaned]
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

impl KeptOffsets {
    fn new(kind: CheckpointKind) -> Self {
        Self { kind, written: Mutex::new(Some(Written::default())) }
    }

    /// Reads what the checkpoint says when the directory is opened. One that cannot be read says
    /// nothing.
    pub(super) fn read(&self, io: &Io, dir: &Path) -> Result<OffsetCheckpoint, FileError> {
        let read = OffsetCheckpoint::read(io, self.kind, dir);
        let offsets = read.as_ref().map_or_else(|_| OffsetCheckpoint::new(), Clone::clone);
        *self.written.lock() = Some(Written { offsets, is_in_doubt: read.is_err() });
        read
    }

    /// Writes the offsets that `collect` finds, no log's wish beside it. Returns whether it did:
    /// not once the logs are closed, nor where the disk has failed.
    pub(super) fn write(
        &self,
        io: &Io,
        dir: &DataDir,
        collect: impl FnOnce() -> OffsetCheckpoint,
    ) -> Result<bool, FileError> {
        let mut kept = self.written.lock();
        let Some(written) = &mut *kept else { return Ok(false) };
        // Nobody else gets the directory meanwhile.
        let _lock = dir.lock();
        let offsets = collect();
        if !dir.is_live() {
            // Its logs go out of service: some may be missing.
            return Ok(false);
        }
        written.write(io, self.kind, dir.path(), offsets)?;
        Ok(true)
    }

    /// What the checkpoint says of a partition; nothing once the logs are closed.
    pub(super) fn offset(&self, partition: &TopicPartition) -> Option<Offset> {
        let kept = self.written.lock();
        kept.as_ref().and_then(|written| written.offsets.offset(partition))
    }

    /// Whether the checkpoint says this of a partition.
    pub(super) fn keeps(&self, partition: &TopicPartition, offset: Offset) -> bool {
        self.offset(partition) == Some(offset)
    }

    /// Writes another offset for one partition, and drops the others that are not `there`. Nothing
    /// where the checkpoint says so already.
    pub(super) fn note(
        &self,
        io: &Io,
        dir: &DataDir,
        (partition, offset): (&TopicPartition, Offset),
        is_there: impl Fn(&TopicPartition) -> bool,
    ) -> Result<(), FileError> {
        let mut kept = self.written.lock();
        let Some(written) = &mut *kept else { return Err(self.closed(dir.path())) };
        if written.offsets.offset(partition) == Some(offset) {
            return Ok(());
        }
        let _lock = dir.lock();
        let others = written.offsets.iter().filter(|(name, _)| is_there(name));
        let mut offsets: OffsetCheckpoint =
            others.map(|(name, offset)| (name.clone(), offset)).collect();
        offsets.insert(partition.clone(), offset);
        if !dir.is_live() {
            return Err(self.closed(dir.path()));
        }
        written.write(io, self.kind, dir.path(), offsets)
    }

    /// Writes the checkpoint without the partitions that do not `stay`, if it has any.
    pub(super) fn retain(
        &self,
        io: &Io,
        dir: &Path,
        stays: impl Fn(&TopicPartition) -> bool,
    ) -> Result<(), FileError> {
        let mut kept = self.written.lock();
        let Some(written) = &mut *kept else { return Err(self.closed(dir)) };
        if written.offsets.iter().all(|(name, _)| stays(name)) {
            return Ok(());
        }
        let staying = written.offsets.iter().filter(|(name, _)| stays(name));
        let offsets = staying.map(|(name, offset)| (name.clone(), offset)).collect();
        written.write(io, self.kind, dir, offsets)
    }

    /// Lowers the offset of a partition, unless it is lower or there is none.
    pub(super) fn lower(
        &self,
        io: &Io,
        dir: &Path,
        partition: &TopicPartition,
        to: Offset,
    ) -> Result<(), FileError> {
        self.change(io, dir, partition, |said| said.map(|said| said.min(to)))
    }

    /// Writes the checkpoint without this partition, unless it says nothing of it.
    pub(super) fn forget(
        &self,
        io: &Io,
        dir: &Path,
        partition: &TopicPartition,
    ) -> Result<(), FileError> {
        self.change(io, dir, partition, |_| None)
    }

    /// Writes what one partition's offset is to be, unless it is that.
    fn change(
        &self,
        io: &Io,
        dir: &Path,
        partition: &TopicPartition,
        wanted: impl FnOnce(Option<Offset>) -> Option<Offset>,
    ) -> Result<(), FileError> {
        let mut kept = self.written.lock();
        let Some(written) = &mut *kept else { return Err(self.closed(dir)) };
        let said = written.offsets.offset(partition);
        let wanted = wanted(said);
        if said == wanted && !written.is_in_doubt {
            return Ok(());
        }
        let mut changed = written.offsets.clone();
        match wanted {
            Some(offset) => changed.insert(partition.clone(), offset),
            None => changed.remove(partition),
        };
        written.write(io, self.kind, dir, changed)
    }

    fn closed(&self, dir: &Path) -> FileError {
        FileError::io(&self.kind.path(dir), FileAction::Write, std::io::Error::other(Closed))
    }
}

impl Written {
    fn write(
        &mut self,
        io: &Io,
        kind: CheckpointKind,
        dir: &Path,
        offsets: OffsetCheckpoint,
    ) -> Result<(), FileError> {
        offsets.write(io, kind, dir)?;
        *self = Self { offsets, is_in_doubt: false };
        Ok(())
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

impl KeptInCheckpoint {
    fn change(
        &self,
        kept: &KeptOffsets,
        wanted: impl FnOnce(Option<Offset>) -> Option<Offset>,
    ) -> Result<(), FileError> {
        kept.change(&self.io, self.dir.path(), &self.partition, wanted)
    }
}

impl OffsetKeeper for KeptInCheckpoint {
    fn lower(&self, offset: Offset) -> Result<(), FileError> {
        self.change(&self.dir.recovery_points, |kept| kept.map(|kept| kept.min(offset)))
    }

    fn keep_log_start(&self, offset: Offset) -> Result<bool, FileError> {
        // A higher one is that of the log now: one that goes back is lowered here first.
        let higher = |kept: Option<Offset>| kept.map_or(offset, |kept| kept.max(offset));
        match self.change(&self.dir.log_starts, |kept| Some(higher(kept))) {
            // What is to make room must not need any.
            Err(error) if error.is_storage_full() => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn lower_log_start(&self, offset: Offset) -> Result<(), FileError> {
        self.change(&self.dir.log_starts, |kept| kept.map(|kept| kept.min(offset)))
    }
}
