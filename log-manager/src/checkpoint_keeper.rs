//! One log in the checkpoints of its log directory.

use std::path::{Path, PathBuf};

use alluvium_record_format::Offset;
use alluvium_recovery::{CheckpointKind, FileError, OffsetCheckpoint, TopicPartition};
use alluvium_segment::Io;
use parking_lot::Mutex;

use crate::OffsetKeeper;

/// The recovery point and the start of one log, in the checkpoints of its log directory: for who
/// opens it without a [`LogManager`](crate::LogManager), which keeps its logs itself.
///
/// Each change reads a checkpoint, and writes it anew with one line changed. Keepers of one process
/// wait for each other; whoever else writes the checkpoints must not do so meanwhile. One that is
/// damaged is left as it is: it says nothing, so that the next open recovers from the first segment
/// on.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use alluvium_log_manager::{CheckpointKeeper, Log, LogConfig};
/// use alluvium_recovery::TopicPartition;
/// use alluvium_segment::DirLock;
///
/// let dir = tempfile::tempdir()?;
/// let keeper = CheckpointKeeper::new(dir.path(), TopicPartition::new("orders", 0));
/// let log = Log::options()
///     .config(LogConfig::default())
///     .lock(DirLock::acquire(dir.path())?)
///     .offset_keeper(Arc::new(keeper))
///     .open(dir.path().join("orders-0"))?;
/// log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckpointKeeper {
    dir: PathBuf,
    partition: TopicPartition,
}

impl CheckpointKeeper {
    /// Keeps the offsets of `partition` in the log directory `dir`.
    #[must_use]
    pub fn new(dir: impl AsRef<Path>, partition: TopicPartition) -> Self {
        Self { dir: dir.as_ref().to_path_buf(), partition }
    }

    /// What a checkpoint says; nothing where it is damaged.
    fn read(&self, kind: CheckpointKind) -> Result<Option<OffsetCheckpoint>, FileError> {
        match OffsetCheckpoint::read(&Io::new(), kind, &self.dir) {
            Err(error) if error.damage().is_some() => Ok(None),
            read => read.map(Some),
        }
    }

    fn lower_in(&self, kind: CheckpointKind, offset: Offset) -> Result<(), FileError> {
        let _writing = WRITING.lock();
        let Some(checkpoint) = self.read(kind)? else { return Ok(()) };
        if checkpoint.offset(&self.partition).is_none_or(|kept| kept <= offset) {
            return Ok(());
        }
        self.write(kind, checkpoint, offset)
    }

    fn write(
        &self,
        kind: CheckpointKind,
        mut checkpoint: OffsetCheckpoint,
        offset: Offset,
    ) -> Result<(), FileError> {
        checkpoint.insert(self.partition.clone(), offset);
        checkpoint.write(&Io::new(), kind, &self.dir)
    }
}

impl OffsetKeeper for CheckpointKeeper {
    fn lower(&self, offset: Offset) -> Result<(), FileError> {
        self.lower_in(CheckpointKind::RecoveryPoint, offset)
    }

    fn lower_log_start(&self, offset: Offset) -> Result<(), FileError> {
        self.lower_in(CheckpointKind::LogStart, offset)
    }

    fn keep_log_start(&self, offset: Offset) -> Result<bool, FileError> {
        let _writing = WRITING.lock();
        let kind = CheckpointKind::LogStart;
        let Some(checkpoint) = self.read(kind)? else { return Ok(false) };
        if checkpoint.offset(&self.partition) == Some(offset) {
            return Ok(true);
        }
        match self.write(kind, checkpoint, offset) {
            // What is to make room must not need any.
            Err(error) if error.is_storage_full() => Ok(false),
            written => written.map(|()| true),
        }
    }
}

/// Held from reading a checkpoint until it is written, so that no line of another log is lost.
static WRITING: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const START: &str = "log-start-offset-checkpoint";
    const POINT: &str = "recovery-point-offset-checkpoint";

    fn keeper(dir: &Path) -> CheckpointKeeper {
        CheckpointKeeper::new(dir, TopicPartition::new("t", 0))
    }

    #[test]
    fn a_log_start_is_kept_as_it_is_now_whatever_was_kept_before() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, path) = (keeper(dir.path()), dir.path().join(START));
        for before in [None, Some(7), Some(8), Some(900)] {
            let other = "u 3 5";
            let entries = before.map_or_else(
                || format!("0\n1\n{other}\n"),
                |before| format!("0\n2\nt 0 {before}\n{other}\n"),
            );
            fs::write(&path, entries).unwrap();
            assert!(kept.keep_log_start(Offset::new(8)).unwrap());
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("0\n2\nt 0 8\n{other}\n"));
        }
        fs::remove_file(&path).unwrap();
        assert!(kept.keep_log_start(Offset::new(8)).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "0\n1\nt 0 8\n");
    }

    #[test]
    fn a_log_start_is_not_kept_over_a_damaged_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(START);
        fs::write(&path, "0\n2\nt 0 4\n").unwrap();
        assert!(!keeper(dir.path()).keep_log_start(Offset::new(8)).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "0\n2\nt 0 4\n");
    }

    #[test]
    fn what_is_kept_goes_down_to_a_cut_and_never_up() {
        let dir = tempfile::tempdir().unwrap();
        let kept = keeper(dir.path());
        let (lower, start) = (CheckpointKeeper::lower, CheckpointKeeper::lower_log_start);
        let other = "0\n1\nt 0 2\n";
        for (name, beside, lower) in
            [(POINT, START, lower as fn(&_, _) -> _), (START, POINT, start)]
        {
            fs::write(dir.path().join(name), "0\n1\nt 0 8\n").unwrap();
            fs::write(dir.path().join(beside), other).unwrap();
            for (cut, expected) in [(9, 8), (8, 8), (3, 3), (5, 3), (1, 1)] {
                lower(&kept, Offset::new(cut)).unwrap();
                let text = fs::read_to_string(dir.path().join(name)).unwrap();
                assert_eq!(text, format!("0\n1\nt 0 {expected}\n"), "{name} at {cut}");
            }
            assert_eq!(fs::read_to_string(dir.path().join(beside)).unwrap(), other);
        }
    }

    /// Each line is there in the end, whoever wrote in between.
    #[test]
    fn keepers_of_one_directory_lose_no_line_of_each_other() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for number in 0..4 {
                let kept = CheckpointKeeper::new(dir.path(), TopicPartition::new("t", number));
                let keep = move |offset| kept.keep_log_start(Offset::new(offset)).unwrap();
                scope.spawn(move || assert!((1..=20).all(keep)));
            }
        });
        let text = fs::read_to_string(dir.path().join(START)).unwrap();
        assert_eq!(text.lines().filter(|line| line.ends_with(" 20")).count(), 4, "{text}");
    }
}
