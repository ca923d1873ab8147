//! A log directory to measure in: on the disk that the build uses, gone afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use alluvium_log_manager::{Log, LogOptions};
use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{ActiveSegment, Birth, DirLock, FilePool, Io, PartitionDir, SegmentConfig};
use anyhow::{Context, Result};

use crate::workspace;

/// More than any bench needs: closing files is not measured.
const MAX_OPEN_FILES: usize = 10_000;

/// How long a flush in the background may take.
const LET_GO: Duration = Duration::from_secs(30);

/// An empty log directory, locked.
#[derive(Debug)]
pub(super) struct LogDir {
    path: PathBuf,
    lock: DirLock,
    pool: Arc<FilePool>,
}

impl LogDir {
    /// Makes it, in place of what a run before has left.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(super) fn new(name: &str) -> Result<Self> {
        Self::with_io(name, Io::new())
    }

    /// The same, with system calls that are watched.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(super) fn with_io(name: &str, io: Io) -> Result<Self> {
        let path = workspace::scratch().join("bench").join(name);
        workspace::empty_dir(&path)?;
        let lock = DirLock::acquire(&path).context("cannot lock the log directory")?;
        Ok(Self { path, lock, pool: FilePool::with_io(MAX_OPEN_FILES, io) })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How a log here is opened: under our lock, with our files, and clean.
    pub(super) fn options(&self) -> LogOptions {
        Log::options().lock(self.lock.clone()).pool(Arc::clone(&self.pool)).clean(true)
    }

    /// A new log in a new partition.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(super) fn log(&self, partition: &str, options: LogOptions) -> Result<Log> {
        let path = self.path.join(partition);
        if path.exists() {
            self.wait_for(partition)?;
        }
        workspace::empty_dir(&path)?;
        Ok(options.open(path)?)
    }

    /// Waits until work in the background has let go of a log that was closed.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub(super) fn wait_for(&self, partition: &str) -> Result<()> {
        let deadline = Instant::now() + LET_GO;
        while let Err(error) = self.partition(partition) {
            if Instant::now() > deadline {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// A new segment 0 in a new partition.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(super) fn segment(&self, partition: &str, config: SegmentConfig) -> Result<ActiveSegment> {
        workspace::empty_dir(&self.path.join(partition))?;
        let dir = self.partition(partition)?;
        let birth = Birth::at(Timestamp::new(0));
        Ok(ActiveSegment::create(&dir, Offset::new(0), config, birth)?)
    }

    /// A partition that is there.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(super) fn partition(&self, partition: &str) -> Result<Arc<PartitionDir>> {
        let path = self.path.join(partition);
        PartitionDir::open(&path, &self.lock, &self.pool)
            .with_context(|| format!("cannot open {}", path.display()))
    }
}

impl Drop for LogDir {
    fn drop(&mut self) {
        // The next run empties it anyway.
        let _removed = fs::remove_dir_all(&self.path);
    }
}
