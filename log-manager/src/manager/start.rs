//! The start: directories are checked, locked and read, logs are loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use alluvium_record_format::Uuid;
use alluvium_recovery::{
    CleanShutdown, FileError, LoadReport, OffsetCheckpoint, ProducerStateConfig, TopicPartition,
    sync_directory,
};
use alluvium_segment::{DirLock, FilePool, Io, LockError};
use dashmap::DashMap;
use parking_lot::{Mutex, RwLock};

use super::data_dir::{DataDir, KeptOffsets};
use super::tasks::Schedule;
use super::{LogManager, ManagerError, ManagerOptions, Shared, identity};
use crate::{BrokerConfig, LogError, background};

/// What a start found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct StartReport {
    /// Each log directory, in the order of the settings.
    pub dirs: Vec<DirReport>,
}

/// What a start found in one log directory.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct DirReport {
    /// The directory.
    pub path: PathBuf,
    /// Its id in `meta.properties`, where it has one.
    pub id: Option<Uuid>,
    /// Whether it had been stopped properly: nothing was recovered.
    pub was_clean: bool,
    /// Why it is offline, if it is.
    pub failure: Option<String>,
    /// The logs that were loaded, with what was mended in each.
    pub loaded: Vec<(TopicPartition, LoadReport)>,
    /// The logs that could not be loaded although their disk is in service, with the reason. The
    /// other logs of the directory are in service. The directory is not marked clean at the next
    /// stop.
    pub not_loaded: Vec<(TopicPartition, Arc<LogError>)>,
    /// Names that are no partition's: left alone. Kafka refuses to start there.
    pub foreign: Vec<String>,
    /// The names of partitions that are not this broker's (`-stray`), those included that became
    /// so by this start: they stay until somebody removes them.
    pub stray: Vec<String>,
    /// Checkpoints that could not be read: the safe values were taken.
    pub bad_checkpoints: Vec<FileError>,
}

/// How far a start is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartProgress {
    /// So many logs are to be loaded from a directory.
    #[non_exhaustive]
    Found {
        /// The log directory.
        dir: PathBuf,
        /// Logs in it.
        logs: usize,
    },
    /// A log is loaded.
    #[non_exhaustive]
    Loaded {
        /// The log directory.
        dir: PathBuf,
        /// The name of the partition's directory.
        name: String,
    },
}

impl LogManager {
    /// How the logs are to be started, with all choices.
    pub fn options(config: BrokerConfig) -> ManagerOptions {
        ManagerOptions::new(config)
    }

    /// Starts the logs of a broker with these settings.
    ///
    /// # Errors
    ///
    /// As [`ManagerOptions::start`].
    pub fn start(config: BrokerConfig) -> Result<Self, ManagerError> {
        Self::options(config).start().map(|(manager, _)| manager)
    }
}

impl ManagerOptions {
    /// Takes the lock of every log directory, compares whose they are, loads all logs, several at
    /// a time, and recovers those of directories that were not stopped properly.
    ///
    /// A directory that fails is offline from then on, with the reason in the report; the others
    /// start. Where only a log's own files are in the way, only that log is out of service.
    ///
    /// Source: `LogManager.loadLogs` in Kafka.
    ///
    /// # Errors
    ///
    /// `Locked` where somebody else uses a directory; `SameDir`, `SamePartition`; `AllOffline`;
    /// `OtherBroker`, `DirsDiffer`, `Unformatted`, with which nothing has been changed.
    pub fn start(self) -> Result<(LogManager, StartReport), ManagerError> {
        let pool = self.pool.clone().unwrap_or_else(FilePool::for_this_process);
        let io = pool.io().clone();
        let mut dirs: Vec<Arc<DataDir>> = Vec::new();
        for path in self.config.log_dirs() {
            let dir = open_dir(&path, &io)?;
            if dirs.iter().any(|other| other.path() == dir.path()) {
                return Err(ManagerError::SameDir { path });
            }
            dirs.push(Arc::new(dir));
        }
        identity::check(&dirs, &io, self.identity.as_ref())?;
        dirs.iter().filter(|dir| dir.is_live()).for_each(|dir| take_marker(dir, &io));
        let mut report = StartReport { dirs: dirs.iter().map(|dir| dir_report(dir)).collect() };
        let producers = producer_config(&self.config);
        let now = self.clock.now();
        let manager = LogManager {
            shared: Arc::new(Shared {
                gate: self.gate,
                is_stray: self.is_stray,
                all_offline: Mutex::default(),
                schedule: Mutex::new(Schedule::new(&self.config, now)),
                config: self.config,
                clock: self.clock,
                background: self.background.unwrap_or_else(background::of_process),
                pool,
                producers,
                dirs,
                logs: DashMap::new(),
                futures: DashMap::new(),
                offline: DashMap::new(),
                unloaded: DashMap::new(),
                topics: RwLock::new(self.topics),
                deletions: Mutex::default(),
                changing: Mutex::default(),
                stopped: AtomicBool::new(false),
            }),
        };
        let shared = &manager.shared;
        shared.load_all(&mut report, self.on_progress.as_ref())?;
        shared.forget_cleaned_elsewhere();
        for (dir, told) in shared.dirs.iter().zip(&mut report.dirs) {
            told.failure = dir.failure();
        }
        shared.name_offline();
        shared.retire_failed_dirs();
        if !shared.dirs.iter().any(|dir| dir.is_live()) {
            return Err(ManagerError::AllOffline);
        }
        *shared.all_offline.lock() = self.when_all_offline;
        Ok((manager, report))
    }
}

fn producer_config(config: &BrokerConfig) -> ProducerStateConfig {
    let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    ProducerStateConfig::new()
        .producer_id_expiration_ms(ms(config.producer_id_expiration_ms()))
        .max_transaction_timeout_ms(ms(config.transaction_max_timeout_ms()))
        .transaction_verification(config.transaction_verification())
}

/// Makes a directory if it is not there, and locks it.
fn open_dir(path: &Path, io: &Io) -> Result<DataDir, ManagerError> {
    let path = match ready(path, io) {
        Ok(path) => path,
        Err(source) => {
            let dir = DataDir::new(path.to_path_buf(), None);
            let path = path.to_path_buf();
            dir.fail(LogError::Directory { path, source });
            return Ok(dir);
        }
    };
    match DirLock::acquire_with(&path, io) {
        Ok(lock) => Ok(DataDir::new(path, Some(lock))),
        Err(source @ LockError::Held { .. }) => Err(ManagerError::Locked { source }),
        Err(source) => {
            let dir = DataDir::new(path, None);
            dir.fail(LogError::Lock { source });
            Ok(dir)
        }
    }
}

/// Takes the marker of a clean stop away: a crash from here on is an unclean stop.
fn take_marker(dir: &DataDir, io: &Io) {
    match CleanShutdown::remove(io, dir.path()) {
        Ok(was_clean) => dir.set_was_clean(was_clean),
        Err(source) => dir.fail(LogError::File { source }),
    }
}

fn dir_report(dir: &DataDir) -> DirReport {
    DirReport {
        path: dir.path().to_path_buf(),
        id: dir.id(),
        was_clean: dir.was_clean(),
        ..DirReport::default()
    }
}

fn ready(path: &Path, io: &Io) -> std::io::Result<PathBuf> {
    if !path.exists() {
        fs::create_dir_all(path)?;
        if let Some(parent) = path.parent().filter(|parent| parent.is_dir()) {
            sync_directory(io, parent).map_err(std::io::Error::other)?;
        }
    }
    // Readable and a directory, or an error now and not in the middle.
    drop(fs::read_dir(path)?);
    fs::canonicalize(path)
}

/// The checkpoints of one directory.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    pub(super) recovery_points: OffsetCheckpoint,
    pub(super) log_starts: OffsetCheckpoint,
    pub(super) high_watermarks: OffsetCheckpoint,
}

impl Checkpoints {
    /// Reads what is there. A file that cannot be read says nothing: then an unclean start recovers
    /// everything, a clean one takes the log end for the recovery point as ever, logs start at
    /// their first segment, and are cleaned from there.
    pub(super) fn read(io: &Io, dir: &DataDir, bad: &mut Vec<FileError>) -> Self {
        let mut read = |kept: &KeptOffsets| match kept.read(io, dir.path()) {
            Ok(offsets) => offsets,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "checkpoint not used");
                bad.push(error);
                OffsetCheckpoint::default()
            }
        };
        // Asked where it is kept: no log needs it to be loaded.
        drop(read(&dir.cleaned));
        Self {
            recovery_points: read(&dir.recovery_points),
            log_starts: read(&dir.log_starts),
            high_watermarks: read(&dir.high_watermarks),
        }
    }
}
