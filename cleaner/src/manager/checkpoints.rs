//! How far each log is clean: `cleaner-offset-checkpoint` of every log directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use alluvium_record_format::Offset;
use alluvium_recovery::{CheckpointKind, FileError, OffsetCheckpoint, TopicPartition};
use alluvium_segment::Io;
use parking_lot::Mutex;

/// The checkpoints of all log directories, in memory and on disk.
///
/// A file that could not be written is written again with the next change or by
/// [`write_stale`](Self::write_stale), which says why it fails.
///
/// Source: `LogCleanerManager.checkpoints` in Kafka.
#[derive(Debug)]
pub(super) struct Checkpoints {
    io: Io,
    dirs: Mutex<BTreeMap<PathBuf, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    offsets: OffsetCheckpoint,
    /// The file says something else.
    stale: bool,
}

impl Checkpoints {
    pub(super) fn new(io: Io) -> Self {
        Self { io, dirs: Mutex::default() }
    }

    /// Reads the file of a directory. One that cannot be read says nothing: then its logs are
    /// cleaned from their start.
    pub(super) fn read(&self, dir: &Path) -> Result<(), FileError> {
        let read = OffsetCheckpoint::read(&self.io, CheckpointKind::Cleaner, dir);
        let (offsets, result) = match read {
            Ok(offsets) => (offsets, Ok(())),
            Err(error) => (OffsetCheckpoint::new(), Err(error)),
        };
        self.dirs.lock().insert(dir.to_path_buf(), Entry { offsets, stale: false });
        result
    }

    /// Where the log in this directory is no longer clean. If it came from another directory, so
    /// does the offset.
    pub(super) fn offset(&self, dir: &Path, partition: &TopicPartition) -> Option<Offset> {
        let mut dirs = self.dirs.lock();
        if let Some(offset) = dirs.get(dir).and_then(|entry| entry.offsets.offset(partition)) {
            return Some(offset);
        }
        let came = dirs.values_mut().find_map(|entry| entry.remove(partition))?;
        dirs.entry(dir.to_path_buf()).or_default().insert(partition, came);
        Some(came)
    }

    /// Notes where a log is no longer clean, and writes the file, without the logs that do not
    /// `exist` in the directory.
    pub(super) fn set(
        &self,
        dir: &Path,
        partition: &TopicPartition,
        offset: Offset,
        exists: impl Fn(&TopicPartition) -> bool,
    ) -> Result<(), FileError> {
        let mut dirs = self.dirs.lock();
        let entry = dirs.entry(dir.to_path_buf()).or_default();
        entry.insert(partition, offset);
        let gone: Vec<_> =
            entry.offsets.iter().map(|(name, _)| name).filter(|name| !exists(name)).collect();
        for name in gone.into_iter().cloned().collect::<Vec<_>>() {
            entry.offsets.remove(&name);
        }
        entry.write(&self.io, dir)
    }

    /// Nothing of a log from here on is clean.
    ///
    /// Source: `LogCleanerManager.maybeTruncateCheckpoint` in Kafka.
    pub(super) fn lower(&self, partition: &TopicPartition, to: Offset) {
        self.change(|entry| match entry.offsets.offset(partition) {
            Some(offset) if offset > to => entry.insert(partition, to),
            _ => {}
        });
    }

    /// A log is gone.
    pub(super) fn forget(&self, partition: &TopicPartition) {
        self.change(|entry| {
            entry.remove(partition);
        });
    }

    /// Writes what is not on disk yet. The directories where that fails, and why.
    pub(super) fn write_stale(&self) -> Vec<(PathBuf, FileError)> {
        let mut dirs = self.dirs.lock();
        let stale = dirs.iter_mut().filter(|(_, entry)| entry.stale);
        stale
            .filter_map(|(dir, entry)| Some((dir.clone(), entry.write(&self.io, dir).err()?)))
            .collect()
    }

    /// Drops a directory that has failed.
    pub(super) fn drop_dir(&self, dir: &Path) {
        self.dirs.lock().remove(dir);
    }

    fn change(&self, change: impl Fn(&mut Entry)) {
        let mut dirs = self.dirs.lock();
        for (dir, entry) in dirs.iter_mut() {
            change(entry);
            if entry.stale
                && let Err(error) = entry.write(&self.io, dir)
            {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(dir = %dir.display(), error, "cleaner checkpoint not written");
            }
        }
    }
}

impl Entry {
    fn insert(&mut self, partition: &TopicPartition, offset: Offset) {
        let before = self.offsets.insert(partition.clone(), offset);
        self.stale |= before != Some(offset);
    }

    fn remove(&mut self, partition: &TopicPartition) -> Option<Offset> {
        let removed = self.offsets.remove(partition)?;
        self.stale = true;
        Some(removed)
    }

    fn write(&mut self, io: &Io, dir: &Path) -> Result<(), FileError> {
        self.offsets.write(io, CheckpointKind::Cleaner, dir)?;
        self.stale = false;
        Ok(())
    }
}
