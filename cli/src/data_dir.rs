//! The log directory around a partition: its lock, its marker, its checkpoints. For the commands
//! that change something, or tell what a start of the broker would change.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_log_manager::{CheckpointKeeper, Clock, Log, LogConfig, LogOptions, SystemClock};
use alluvium_record_format::Offset;
use alluvium_recovery::{
    CheckpointKind, CleanShutdown, LoadConfig, MetaProperties, OffsetCheckpoint, Reason,
    TopicPartition, plan,
};
use alluvium_segment::{
    DirLock, FilePool, Io, LOCK_FILE, LockError, PartitionDir, PartitionDirName,
};
use rustix::process::{FlockType, fcntl_getlk};

use crate::console::Console;
use crate::error::CliError;
use crate::partition::{DirKind, Partition, is_loaded, kind_of};

/// A log directory.
#[derive(Debug)]
pub(crate) struct DataDir {
    pub(crate) path: PathBuf,
    /// Whether the last stop was a clean one.
    pub(crate) is_clean: bool,
    checkpoints: Vec<(CheckpointKind, OffsetCheckpoint)>,
    /// The high watermarks were there and cannot be read: each may lie anywhere in its log.
    has_unknown_watermarks: bool,
}

impl DataDir {
    /// Reads marker and checkpoints. A damaged checkpoint is named, and taken for empty.
    pub(crate) fn read(path: &Path, console: &mut Console) -> Result<Self, CliError> {
        let io = Io::new();
        let marker = CleanShutdown::read(&io, path).map_err(|source| CliError::File { source })?;
        let (mut checkpoints, mut has_unknown_watermarks) = (Vec::new(), false);
        for kind in CheckpointKind::ALL {
            match OffsetCheckpoint::read(&io, kind, path) {
                Ok(checkpoint) => checkpoints.push((kind, checkpoint)),
                Err(error) if error.is_not_found() => {}
                Err(error) if error.damage().is_some() => {
                    has_unknown_watermarks |= kind == CheckpointKind::HighWatermark;
                    console.shared_file_error(error)?;
                }
                Err(source) => return Err(CliError::File { source }),
            }
        }
        let (path, is_clean) = (path.to_path_buf(), marker.is_some());
        Ok(Self { path, is_clean, checkpoints, has_unknown_watermarks })
    }

    /// Takes the lock of the log directory of `dir`, as a broker does, and only then reads it: what
    /// was read before may be what a broker replaced on its way out. A dry run looks whether the
    /// lock is free, and takes none.
    pub(crate) fn locked(
        dir: &Path,
        is_dry_run: bool,
        console: &mut Console,
    ) -> Result<(Self, Option<DirLock>), CliError> {
        let path = log_dir_of(dir)?;
        let lock = if is_dry_run {
            if let Some(unknown) = refuse_if_in_use(&path)? {
                let what = format_args!("cannot tell whether a broker runs on it: {unknown}");
                console.note(&path, None, what)?;
            }
            None
        } else {
            Some(lock(&path)?)
        };
        Ok((Self::read(&path, console)?, lock))
    }

    /// What a checkpoint says of a partition.
    pub(crate) fn offset(&self, kind: CheckpointKind, key: &TopicPartition) -> Option<Offset> {
        let (_, checkpoint) = self.checkpoints.iter().find(|(other, _)| *other == kind)?;
        checkpoint.offset(key)
    }

    /// The high watermark of a partition: `None` where no file says it, so that no broker has run,
    /// and 0 where the file is damaged.
    pub(crate) fn high_watermark(&self, partition: &Partition) -> Option<Offset> {
        let noted =
            partition.key().and_then(|key| self.offset(CheckpointKind::HighWatermark, &key));
        noted.or_else(|| self.has_unknown_watermarks.then(Offset::default))
    }

    /// How a broker would open a partition of this directory.
    pub(crate) fn options(&self, partition: &Partition, config: LogConfig) -> LogOptions {
        let offset = |kind| partition.key().and_then(|key| self.offset(kind, &key));
        let zero = Offset::new(0);
        let options = match partition.key() {
            Some(partition) => {
                let kept = CheckpointKeeper::new(&self.path, partition);
                Log::options().offset_keeper(Arc::new(kept))
            }
            None => Log::options(),
        };
        options
            .config(config)
            .clean(self.is_clean)
            .recovery_point(offset(CheckpointKind::RecoveryPoint).unwrap_or(zero))
            .log_start_offset(offset(CheckpointKind::LogStart).unwrap_or(zero))
            .high_watermark(offset(CheckpointKind::HighWatermark).unwrap_or(zero))
            .pool(FilePool::for_this_process())
    }

    /// How a start of a broker would load a partition of this directory.
    pub(crate) fn load_config(&self, partition: &Partition, config: &LogConfig) -> LoadConfig {
        let offset =
            |kind| partition.key().and_then(|key| self.offset(kind, &key)).unwrap_or_default();
        LoadConfig::new(SystemClock::default().now())
            .segment(config.segment())
            .clean_shutdown(self.is_clean)
            .recovery_point(offset(CheckpointKind::RecoveryPoint))
            .log_start_offset(offset(CheckpointKind::LogStart))
    }

    /// Refuses a partition of which a start would drop records, as opening it would do so in
    /// passing. Scans what a start scans, and changes nothing.
    pub(crate) fn refuse_unrecovered(
        &self,
        partition: &Partition,
        config: &LogConfig,
    ) -> Result<(), CliError> {
        let dir = PartitionDir::read_only(&partition.path, &FilePool::for_this_process());
        let load = self.load_config(partition, config);
        let found = plan(&dir, &load, &mut |_| ControlFlow::Continue(()));
        let planned = found.map_err(|source| CliError::Load { source })?;
        match planned.report().steps.iter().find(|step| drops_records(&step.reason)) {
            Some(step) => {
                let (path, step) = (partition.path.clone(), Box::new(step.clone()));
                Err(CliError::Unrecovered { path, step })
            }
            None => Ok(()),
        }
    }

    /// Runs work that a crash may leave half done: a start after it must not take the directory for
    /// one that was closed properly. The marker goes before the work begins, and is put back when
    /// all of it is done and durable; after a failure it stays away. That nobody reads the output
    /// any more is no failure of the work, and ends the command only behind it.
    pub(crate) fn unmarked<T>(
        &mut self,
        console: &mut Console,
        work: impl FnOnce(&mut Self, &mut Console) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let (io, file) = (Io::new(), |source| CliError::File { source });
        let marker = CleanShutdown::read(&io, &self.path).map_err(file)?;
        CleanShutdown::remove(&io, &self.path).map_err(file)?;
        console.hold_errors();
        let done = work(self, console)?;
        if let Some(marker) = marker {
            marker.write(&io, &self.path).map_err(file)?;
        }
        Ok(done)
    }

    /// Sets what a checkpoint says of a partition.
    pub(crate) fn set(
        &mut self,
        kind: CheckpointKind,
        key: &TopicPartition,
        offset: Offset,
    ) -> Result<(), CliError> {
        let Some(mut checkpoint) = self.as_it_is(kind)? else { return Ok(()) };
        checkpoint.insert(key.clone(), offset);
        self.write(kind, checkpoint)
    }

    /// A checkpoint, read anew, as logs keep lines in it on their own; `None` where it is damaged.
    fn as_it_is(&self, kind: CheckpointKind) -> Result<Option<OffsetCheckpoint>, CliError> {
        match OffsetCheckpoint::read(&Io::new(), kind, &self.path) {
            Err(error) if error.damage().is_some() => Ok(None),
            read => read.map(Some).map_err(|source| CliError::File { source }),
        }
    }

    fn write(
        &mut self,
        kind: CheckpointKind,
        checkpoint: OffsetCheckpoint,
    ) -> Result<(), CliError> {
        let written = checkpoint.write(&Io::new(), kind, &self.path);
        self.checkpoints.retain(|(other, _)| *other != kind);
        self.checkpoints.push((kind, checkpoint));
        written.map_err(|source| CliError::File { source })
    }

    /// Sets what a checkpoint says of a partition, in a new file where it is damaged.
    pub(crate) fn note(
        &mut self,
        kind: CheckpointKind,
        key: &TopicPartition,
        offset: Offset,
    ) -> Result<(), CliError> {
        let mut checkpoint = self.as_it_is(kind)?.unwrap_or_default();
        checkpoint.insert(key.clone(), offset);
        self.write(kind, checkpoint)
    }

    /// Lowers what the checkpoints say of a partition to its new end, and raises its start.
    pub(crate) fn move_checkpoints(
        &mut self,
        key: &TopicPartition,
        log_start: Offset,
        log_end: Offset,
    ) -> Result<(), CliError> {
        for kind in CheckpointKind::ALL {
            let Some(mut checkpoint) = self.as_it_is(kind)? else { continue };
            let Some(offset) = checkpoint.offset(key) else { continue };
            let moved = match kind {
                CheckpointKind::LogStart => offset.max(log_start).min(log_end),
                _ => offset.min(log_end),
            };
            if moved != offset {
                checkpoint.insert(key.clone(), moved);
                self.write(kind, checkpoint)?;
            }
        }
        Ok(())
    }
}

/// Takes the lock of a log directory, as a broker does.
pub(crate) fn lock(log_dir: &Path) -> Result<DirLock, CliError> {
    DirLock::acquire(log_dir).map_err(|source| CliError::Lock { source })
}

/// Refuses a log directory that somebody uses, without making a lock file. Returns why that could
/// not be told, where it could not.
pub(crate) fn refuse_if_in_use(log_dir: &Path) -> Result<Option<LockError>, CliError> {
    if !is_there(log_dir, LOCK_FILE) {
        return Ok(None);
    }
    match hold(log_dir) {
        Ok(_) => Ok(None),
        Err(CliError::Lock { source: unknown @ LockError::Io { .. } }) => Ok(Some(unknown)),
        Err(error) => Err(error),
    }
}

/// Takes the lock of a log directory that is only read, so that nobody starts on it meanwhile.
/// `None` where it is none of a broker's, or this process may not write the lock file and nobody
/// holds it.
pub(crate) fn hold(log_dir: &Path) -> Result<Option<DirLock>, CliError> {
    if !is_there(log_dir, LOCK_FILE) && !is_there(log_dir, MetaProperties::FILE_NAME) {
        return Ok(None);
    }
    match DirLock::acquire(log_dir) {
        Ok(lock) => Ok(Some(lock)),
        Err(source @ LockError::Held { .. }) => Err(CliError::Lock { source }),
        // Who may not write the file may still ask who holds it.
        Err(source) => match is_held(&log_dir.join(LOCK_FILE)) {
            Ok(true) => Err(CliError::InUse { path: log_dir.join(LOCK_FILE) }),
            Ok(false) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(_) => Err(CliError::Lock { source }),
        },
    }
}

fn is_there(dir: &Path, name: &str) -> bool {
    fs::symlink_metadata(dir.join(name)).is_ok()
}

/// Whether another process holds the lock of a file.
fn is_held(path: &Path) -> io::Result<bool> {
    let held = fcntl_getlk(File::open(path)?, &FlockType::WriteLock.into())?;
    Ok(held.is_some())
}

/// Whether a start drops records for this reason.
pub(crate) const fn drops_records(reason: &Reason) -> bool {
    use Reason::{AfterCut, Damage, LogStartBeyondEnd, OutOfOrder};
    matches!(reason, Damage(_) | OutOfOrder { .. } | AfterCut(_) | LogStartBeyondEnd)
}

/// The partitions in `dir`, or the one that it is. Those that wait for deletion and strays, which a
/// start of the broker passes over, are left out; those that cannot be listed are named, and the
/// command exits with 2.
pub(crate) fn readable(dir: &Path, console: &mut Console) -> Result<Vec<Partition>, CliError> {
    let mut found = Vec::new();
    for path in partition_paths(dir)? {
        match Partition::read(&path) {
            Ok(partition) => found.push(partition),
            Err(error) => console.failure(&error)?,
        }
    }
    Ok(found)
}

/// As [`readable`], not listed yet.
pub(crate) fn partition_paths(dir: &Path) -> Result<Vec<PathBuf>, CliError> {
    match kind_of(dir)? {
        DirKind::Partition => Ok(vec![dir.to_path_buf()]),
        DirKind::Neither => Err(CliError::NotKafka { path: dir.to_path_buf() }),
        DirKind::LogDir => {
            let mut paths = Vec::new();
            for entry in fs::read_dir(dir).map_err(CliError::io("list", dir))? {
                let name = entry.map_err(CliError::io("list", dir))?.file_name();
                let path = dir.join(&name);
                let name = name.to_str().and_then(PartitionDirName::parse);
                if name.is_some_and(|name| is_loaded(&name)) && path.is_dir() {
                    paths.push(path);
                }
            }
            paths.sort();
            Ok(paths)
        }
    }
}

/// The log directory of `dir`, which is one or a partition in one.
pub(crate) fn data_dir(dir: &Path, console: &mut Console) -> Result<DataDir, CliError> {
    DataDir::read(&log_dir_of(dir)?, console)
}

/// As [`data_dir`], not read yet.
pub(crate) fn log_dir_of(dir: &Path) -> Result<PathBuf, CliError> {
    match kind_of(dir)? {
        DirKind::LogDir => Ok(dir.to_path_buf()),
        DirKind::Partition => {
            let absolute = fs::canonicalize(dir).map_err(CliError::io("open", dir))?;
            Ok(absolute.parent().unwrap_or(&absolute).to_path_buf())
        }
        DirKind::Neither => Err(CliError::NotKafka { path: dir.to_path_buf() }),
    }
}

#[cfg(test)]
mod tests {
    use alluvium_log_manager::OffsetKeeper;

    use super::*;

    /// The log of the one lowers its line before it is cut, and fails at the cut.
    #[test]
    fn a_line_that_a_log_has_kept_itself_outlives_the_work_on_another_partition() {
        let dir = tempfile::tempdir().unwrap();
        let (start, point) = ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint");
        for name in [start, point] {
            fs::write(dir.path().join(name), "0\n2\nt 0 8\nu 3 5\n").unwrap();
        }
        let mut data = DataDir::read(dir.path(), &mut Console::default()).unwrap();
        let kept = CheckpointKeeper::new(dir.path(), TopicPartition::new("t", 0));
        let other = TopicPartition::new("u", 3);
        kept.lower(Offset::new(3)).unwrap();
        kept.lower_log_start(Offset::new(2)).unwrap();
        data.set(CheckpointKind::RecoveryPoint, &other, Offset::new(7)).unwrap();
        data.move_checkpoints(&other, Offset::new(6), Offset::new(6)).unwrap();
        let noted = |name| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(noted(point), "0\n2\nt 0 3\nu 3 6\n");
        assert_eq!(noted(start), "0\n2\nt 0 2\nu 3 6\n");
    }
}
