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
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    dirs: BTreeMap<PathBuf, Entry>,
    /// What happened to logs before the file of their directory was read: the offset they were
    /// cut to, `None` where they went.
    early: BTreeMap<TopicPartition, Option<Offset>>,
    /// Whether every file was read that there is.
    is_complete: bool,
}

#[derive(Debug, Default)]
struct Entry {
    offsets: OffsetCheckpoint,
    /// The file says something else.
    stale: bool,
}

impl Checkpoints {
    pub(super) fn new(io: Io) -> Self {
        Self { io, known: Mutex::default() }
    }

    /// Reads the file of a directory, unless it was read before. One that cannot be read says
    /// nothing: then its logs are cleaned from their start. Logs that were cut or deleted since
    /// the start of their manager are lower in it, or not there.
    pub(super) fn read(&self, dir: &Path) -> Result<(), FileError> {
        let mut known = self.known.lock();
        if known.dirs.contains_key(dir) {
            return Ok(());
        }
        let read = OffsetCheckpoint::read(&self.io, CheckpointKind::Cleaner, dir);
        let (offsets, result) = match read {
            Ok(offsets) => (offsets, Ok(())),
            Err(error) => (OffsetCheckpoint::new(), Err(error)),
        };
        let mut entry = Entry { offsets, stale: false };
        for (partition, to) in &known.early {
            entry.lower(partition, *to);
        }
        known.dirs.insert(dir.to_path_buf(), entry);
        result
    }

    /// All files were read that there are.
    pub(super) fn complete(&self) {
        let mut known = self.known.lock();
        known.is_complete = true;
        known.early.clear();
    }

    /// Where the log in this directory is no longer clean. If it came from another directory, so
    /// does the offset.
    pub(super) fn offset(&self, dir: &Path, partition: &TopicPartition) -> Option<Offset> {
        let dirs = &mut self.known.lock().dirs;
        if let Some(offset) = dirs.get(dir).and_then(|entry| entry.offsets.offset(partition)) {
            return Some(offset);
        }
        let came = dirs.values_mut().find_map(|entry| entry.remove(partition))?;
        dirs.entry(dir.to_path_buf()).or_default().insert(partition, came);
        Some(came)
    }

    /// Notes where a log is no longer clean, and writes the file, without the logs whose `home` is
    /// not this directory. Those that have another take their offset along.
    pub(super) fn set(
        &self,
        dir: &Path,
        partition: &TopicPartition,
        offset: Offset,
        home: impl Fn(&TopicPartition) -> Option<PathBuf>,
    ) -> Result<(), FileError> {
        let dirs = &mut self.known.lock().dirs;
        let entry = dirs.entry(dir.to_path_buf()).or_default();
        entry.insert(partition, offset);
        let names = entry.offsets.iter().map(|(name, _)| (name.clone(), home(name)));
        let others: Vec<_> = names.filter(|(_, home)| home.as_deref() != Some(dir)).collect();
        for (name, home) in others {
            let offset = dirs.get_mut(dir).and_then(|entry| entry.remove(&name));
            if let (Some(home), Some(offset)) = (home, offset) {
                let entry = dirs.entry(home).or_default();
                if entry.offsets.offset(&name).is_none() {
                    entry.insert(&name, offset);
                }
            }
        }
        // Those that moved are in a file before they are out of the other. One that cannot be
        // written stays stale: its directory is told of in the next round.
        for (path, entry) in dirs.iter_mut().filter(|(path, entry)| entry.stale && *path != dir) {
            drop(entry.write_or_warn(&self.io, path));
        }
        dirs.entry(dir.to_path_buf()).or_default().write(&self.io, dir)
    }

    /// Nothing of a log from here on is clean. Fails where a file may say otherwise.
    ///
    /// Source: `LogCleanerManager.maybeTruncateCheckpoint` in Kafka.
    pub(super) fn lower(&self, partition: &TopicPartition, to: Offset) -> Result<(), FileError> {
        self.change(partition, Some(to))
    }

    /// A log is gone.
    pub(super) fn forget(&self, partition: &TopicPartition) {
        // A file that is not written is written again with the next change.
        drop(self.change(partition, None));
    }

    /// Writes what is not on disk yet. The directories where that fails, and why.
    pub(super) fn write_stale(&self) -> Vec<(PathBuf, FileError)> {
        let dirs = &mut self.known.lock().dirs;
        let stale = dirs.iter_mut().filter(|(_, entry)| entry.stale);
        stale
            .filter_map(|(dir, entry)| Some((dir.clone(), entry.write(&self.io, dir).err()?)))
            .collect()
    }

    /// Drops a directory that has failed.
    pub(super) fn drop_dir(&self, dir: &Path) {
        self.known.lock().dirs.remove(dir);
    }

    /// Lowers the offset of a log, or removes it for `None`, in every directory. Those that were
    /// not read yet follow when they are. Fails where the file of a directory that speaks of the
    /// log cannot be written.
    fn change(&self, partition: &TopicPartition, to: Option<Offset>) -> Result<(), FileError> {
        let Known { dirs, early, is_complete } = &mut *self.known.lock();
        if !*is_complete {
            let lowest = early.get(partition).map_or(to, |before| to.min(*before));
            early.insert(partition.clone(), lowest);
        }
        let mut result = Ok(());
        for (dir, entry) in dirs.iter_mut() {
            let speaks_of_it = entry.offsets.offset(partition).is_some();
            entry.lower(partition, to);
            if entry.stale
                && let Err(error) = entry.write_or_warn(&self.io, dir)
                && speaks_of_it
            {
                result = Err(error);
            }
        }
        result
    }
}

impl Entry {
    fn insert(&mut self, partition: &TopicPartition, offset: Offset) {
        let before = self.offsets.insert(partition.clone(), offset);
        self.stale |= before != Some(offset);
    }

    /// Nothing of a log from `to` on is clean; the log is gone for `None`.
    fn lower(&mut self, partition: &TopicPartition, to: Option<Offset>) {
        match (self.offsets.offset(partition), to) {
            (Some(offset), Some(to)) if offset > to => self.insert(partition, to),
            (Some(_), None) => drop(self.remove(partition)),
            _ => {}
        }
    }

    fn remove(&mut self, partition: &TopicPartition) -> Option<Offset> {
        let removed = self.offsets.remove(partition)?;
        self.stale = true;
        Some(removed)
    }

    fn write_or_warn(&mut self, io: &Io, dir: &Path) -> Result<(), FileError> {
        self.write(io, dir).inspect_err(|error| {
            let error: &dyn std::error::Error = error;
            tracing::warn!(dir = %dir.display(), error, "cleaner checkpoint not written");
        })
    }

    fn write(&mut self, io: &Io, dir: &Path) -> Result<(), FileError> {
        self.offsets.write(io, CheckpointKind::Cleaner, dir)?;
        self.stale = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(number: i32) -> TopicPartition {
        TopicPartition::new("t", number)
    }

    fn file(dir: &Path) -> Vec<(i32, i64)> {
        let read = OffsetCheckpoint::read(&Io::new(), CheckpointKind::Cleaner, dir).unwrap();
        read.iter().map(|(name, offset)| (name.partition(), offset.get())).collect()
    }

    fn write(dir: &Path, offsets: &[(i32, i64)]) {
        let entries = offsets.iter().map(|(number, to)| (t(*number), Offset::new(*to)));
        let checkpoint: OffsetCheckpoint = entries.collect();
        checkpoint.write(&Io::new(), CheckpointKind::Cleaner, dir).unwrap();
    }

    /// A directory whose file has these logs clean.
    fn dir_with(offsets: &[(i32, i64)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), offsets);
        dir
    }

    /// A log manager runs before its cleaner is made.
    #[test]
    fn what_was_cut_before_the_file_was_read_is_lower_in_it() {
        let dir = dir_with(&[(0, 100), (1, 100), (2, 100), (3, 10)]);
        let checkpoints = Checkpoints::new(Io::new());
        checkpoints.lower(&t(0), Offset::new(50)).unwrap();
        checkpoints.lower(&t(0), Offset::new(70)).unwrap();
        checkpoints.forget(&t(1));
        let other = dir_with(&[]);
        checkpoints.read(other.path()).unwrap();
        checkpoints.lower(&t(1), Offset::new(90)).unwrap();
        checkpoints.lower(&t(3), Offset::new(90)).unwrap();
        checkpoints.read(dir.path()).unwrap();
        let offset = |number| checkpoints.offset(dir.path(), &t(number)).map(Offset::get);
        assert_eq!([0, 1, 2, 3].map(offset), [Some(50), None, Some(100), Some(10)]);
        assert!(checkpoints.write_stale().is_empty());
        assert_eq!(file(dir.path()), [(0, 50), (2, 100), (3, 10)]);
    }

    #[test]
    fn a_file_is_read_once() {
        let dir = dir_with(&[(0, 100)]);
        let checkpoints = Checkpoints::new(Io::new());
        checkpoints.read(dir.path()).unwrap();
        checkpoints.lower(&t(0), Offset::new(50)).unwrap();
        write(dir.path(), &[(0, 100)]);
        checkpoints.read(dir.path()).unwrap();
        assert_eq!(checkpoints.offset(dir.path(), &t(0)), Some(Offset::new(50)));
    }

    #[test]
    fn a_log_that_moved_takes_its_offset_along_before_it_is_looked_at() {
        let (old, new) = (dir_with(&[(0, 30), (1, 10), (2, 20)]), dir_with(&[]));
        let checkpoints = Checkpoints::new(Io::new());
        checkpoints.read(old.path()).unwrap();
        checkpoints.read(new.path()).unwrap();
        let home = |name: &TopicPartition| match name.partition() {
            0 => Some(new.path().to_path_buf()),
            1 => Some(old.path().to_path_buf()),
            _ => None,
        };
        checkpoints.set(old.path(), &t(1), Offset::new(11), home).unwrap();
        assert_eq!((file(old.path()), file(new.path())), (vec![(1, 11)], vec![(0, 30)]));
    }
}
