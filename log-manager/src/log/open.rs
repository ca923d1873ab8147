//! The start of a log's use.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use alluvium_recovery::{LoadConfig, LoadReport, LoadedLog, Progress, load, sync_directory};
use alluvium_segment::{ActiveSegment, Birth, DirLock, FilePool, PartitionDir};

use super::doomed::Doomed;
use super::{
    Commits, DirHealth, Effects, Jitter, Log, LogError, LogOptions, LogPosition, OPEN, SegmentList,
    Shared, Writer,
};
use crate::sync::{ArcSwap, ArcSwapOption, AtomicBool, AtomicI64, AtomicU8, Mutex};
use crate::{LogConfig, background};

impl Log {
    /// How a log is to be opened, with all choices.
    pub fn options() -> LogOptions {
        LogOptions::new()
    }

    /// Opens the log in a partition's directory, which is made if it is not there, and recovers
    /// it: how it was closed is not known. See [`Log::options`] for every other choice.
    ///
    /// # Errors
    ///
    /// As [`LogOptions::open`].
    pub fn open(dir: impl AsRef<Path>, config: LogConfig) -> Result<Self, LogError> {
        Self::options().config(config).open(dir)
    }
}

impl LogOptions {
    /// Opens the log in a partition's directory, which is made if it is not there, and brings
    /// the directory into order.
    ///
    /// The directory above is locked until the last handle of the log is dropped, unless the
    /// lock was given.
    ///
    /// # Errors
    ///
    /// `Lock` where somebody else uses the log directory; `Load` where the partition's directory
    /// cannot be read or mended. `Offline` where the
    /// [`OffsetKeeper`](crate::OffsetKeeper) fails.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Log, LogError> {
        self.open_with_progress(dir, &mut |_| ControlFlow::Continue(())).map(|(log, _)| log)
    }

    /// As [`open`](Self::open), tells how far it is, and what was found and mended. Where
    /// `progress` breaks off, nothing is lost: open again.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with_progress(
        self,
        dir: impl AsRef<Path>,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(Log, LoadReport), LogError> {
        let dir = dir.as_ref();
        let directory = |source| LogError::Directory { path: dir.to_path_buf(), source };
        let is_new = !dir.exists();
        fs::create_dir_all(dir).map_err(directory)?;
        let dir = fs::canonicalize(dir).map_err(directory)?;
        let lock = match &self.lock {
            Some(lock) => lock.clone(),
            None => DirLock::acquire(dir.parent().unwrap_or(&dir))
                .map_err(|source| LogError::Lock { source })?,
        };
        let pool = self.pool.clone().unwrap_or_else(FilePool::for_this_process);
        if is_new && let Some(parent) = dir.parent() {
            // No flush of the log makes the name of its own directory durable.
            sync_directory(pool.io(), parent).map_err(|source| LogError::File { source })?;
        }
        let partition = PartitionDir::open(&dir, &lock, &pool)?;
        let loaded = load(&partition, &self.load_config(), progress)
            .map_err(|source| LogError::Load { source })?;
        let log_dir = dir.parent().unwrap_or(&dir);
        let health = self.health.clone().unwrap_or_else(|| DirHealth::new(log_dir));
        self.keep_lower(&loaded, &health)?;
        self.start(&dir, health, partition, loaded)
    }

    /// What is appended next was never below a recovery point above it.
    fn keep_lower(&self, loaded: &LoadedLog, health: &DirHealth) -> Result<(), LogError> {
        if loaded.recovery_point < self.recovery_point
            && let Some(keeper) = &self.keeper
            && let Err(source) = keeper.lower(loaded.recovery_point)
        {
            health.fail(&Arc::new(LogError::File { source }));
            health.check()?;
        }
        Ok(())
    }

    fn load_config(&self) -> LoadConfig {
        LoadConfig::new(self.clock.now())
            .segment(self.config.segment())
            .producers(self.producers)
            .scan(self.scan)
            .clean_shutdown(self.clean)
            .recovery_point(self.recovery_point)
            .log_start_offset(self.log_start_offset)
    }

    fn start(
        self,
        dir: &Path,
        health: DirHealth,
        partition: Arc<PartitionDir>,
        loaded: LoadedLog,
    ) -> Result<(Log, LoadReport), LogError> {
        let now = self.clock.now();
        let mut jitter = Jitter::new(RandomState::new().hash_one(dir));
        let jitter_ms = self.config.roll_jitter_ms(jitter.next());
        let birth = Birth::at(now).roll_jitter_ms(i64::try_from(jitter_ms).unwrap_or(0));
        let segments = Arc::new(SegmentList::new(&loaded.segments));
        let last = Arc::clone(segments.active());
        let active = ActiveSegment::reopen(last, self.config.segment(), birth)?;
        let mut effects = Effects::default();
        if loaded.epochs.is_dirty() {
            effects.write_epochs();
        }
        let deleted = loaded.deleted.iter().map(|name| partition.file_path(*name)).collect();
        effects.delete(self.config.file_delete_delay_ms(), Vec::new(), deleted);
        let unsynced = loaded.unsynced.iter().map(|name| partition.file_path(*name)).collect();
        let shared = Arc::new(Shared {
            opened_as: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            renamed_to: OnceLock::new(),
            dir: partition,
            config: ArcSwap::from_pointee(self.config),
            clock: self.clock,
            background: self.background.unwrap_or_else(background::of_process),
            health,
            lifecycle: AtomicU8::new(OPEN),
            needs_recovery: AtomicBool::new(false),
            segments: ArcSwap::new(Arc::clone(&segments)),
            log_start: AtomicI64::new(loaded.log_start_offset.get()),
            log_start_limit: AtomicI64::new(i64::MAX),
            log_end: AtomicI64::new(loaded.log_end_offset.get()),
            high_watermark: ArcSwap::from_pointee(LogPosition::somewhere(loaded.log_start_offset)),
            first_unstable: ArcSwapOption::empty(),
            durability: self.durability,
            commits: Commits::new(loaded.recovery_point),
            flushed: AtomicI64::new(loaded.recovery_point.get()),
            recovery_point: AtomicI64::new(loaded.recovery_point.get()),
            keeper: self.keeper,
            last_flush_ms: AtomicI64::new(now.get()),
            epochs: ArcSwap::from_pointee(loaded.epochs.clone()),
            layout: Mutex::default(),
            writer: Mutex::new(Writer {
                active: Some(active),
                segments,
                producers: loaded.producers,
                snapshots: loaded.snapshots,
                unsynced_snapshots: Vec::new(),
                epochs: loaded.epochs,
                unindexed: Vec::new(),
                is_unstable_shown: false,
                located_unstable: None,
                jitter,
            }),
            flushing: Mutex::new(unsynced),
            doomed: Doomed::default(),
            in_flight: Arc::default(),
            notifier: Arc::default(),
        });
        let mut writer = shared.writer.lock();
        match self.high_watermark {
            Some(offset) => drop(writer.set_high_watermark(&shared, offset)),
            None => writer.publish_first_unstable(&shared),
        }
        drop(writer);
        effects.run(&shared);
        Ok((Log { shared }, loaded.report))
    }
}
