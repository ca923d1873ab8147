//! What stops a command: the disk, the output, or the way it was called.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use alluvium_cleaner::CleanError;
use alluvium_log_manager::{ConfigError, LogError};
use alluvium_recovery::{Damage, FileError, LoadError, Step};
use alluvium_segment::{LockError, SegmentError};

/// Why a command cannot go on with a file, or at all. Damage is not an error here: commands
/// name it and go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CliError {
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A checkpoint, snapshot or metadata file is damaged or could not be read.
    #[error(transparent)]
    File { source: FileError },
    /// A partition could not be compacted.
    #[error(transparent)]
    Clean { source: CleanError },
    /// A replacement of segments was interrupted; a start finishes or undoes it.
    #[error("{} is left of an interrupted change: recover the partition first", path.display())]
    HalfDone { path: PathBuf },
    /// A start of the broker would drop records of the partition, which the command was not asked
    /// to do.
    #[error(
        "{}: a start would {}, because {}: run alluvium recover first",
        path.display(),
        step.change,
        step.reason
    )]
    Unrecovered { path: PathBuf, step: Box<Step> },
    /// A path that is nothing that Kafka writes.
    #[error("{} is no file, partition or log directory of Kafka", path.display())]
    NotKafka { path: PathBuf },
    /// The log directory is in use, or cannot be locked.
    #[error("{}", lock_advice(source))]
    Lock { source: LockError },
    /// Another process holds the lock of the log directory, which is not ours to take.
    #[error("stop the broker first: {} is held by somebody else", path.display())]
    InUse { path: PathBuf },
    /// A setting is unknown or out of bounds.
    #[error("cannot use the settings {whence}")]
    Config { whence: Whence, source: ConfigError },
    /// A properties file is no such file.
    #[error("{} is no properties file", path.display())]
    Properties { path: PathBuf, source: Damage },
    /// A partition could not be loaded.
    #[error(transparent)]
    Load { source: LoadError },
    /// A segment failed.
    #[error(transparent)]
    Segment { source: SegmentError },
    /// A log failed.
    #[error(transparent)]
    Log { source: LogError },
    /// Offsets are not negative.
    #[error("an offset is not below 0")]
    NegativeOffset,
    /// Nobody said what a topic keeps, and its own settings are not known here.
    #[error(
        "{}: nothing says what the topic keeps, and Kafka's default may not be its setting: give \
         --set retention.ms=..., --set retention.bytes=... or --config, or make a --dry-run",
        path.display()
    )]
    NoRetention { path: PathBuf },
    /// The metadata log is damaged, and may have said more of topics than could be read.
    #[error(
        "{}: damaged, so that topics may have other settings than it tells: recover it first, or \
         make a --dry-run",
        path.display()
    )]
    DamagedSettings { path: PathBuf },
    /// The topic's own settings do not ask for compaction.
    #[error(
        "{}: its topic is not compacted, and records without a key would be lost: give --set \
         cleanup.policy=compact to compact it all the same",
        path.display()
    )]
    NotCompacted { path: PathBuf },
    /// A name that is no command's.
    #[error("there is no command {name}")]
    NoSuchCommand { name: String },
    /// A directory, pipe or device under the name of a file of a segment.
    #[error(
        "{} is {}, not a regular file",
        path.display(),
        if *is_dir { "a directory" } else { "a pipe, socket or device" }
    )]
    NotAFile { path: PathBuf, is_dir: bool },
    /// A directory that should be that of a partition.
    #[error("{} is no partition directory", path.display())]
    NotAPartition { path: PathBuf },
    /// An option of another form of output.
    #[error("{option} does not go with this --format; see alluvium help dump")]
    Misplaced { option: &'static str },
    /// Standard output is gone or full.
    #[error("cannot write to standard output")]
    Output { source: io::Error },
}

/// Where settings come from.
#[derive(Clone, Debug)]
pub(crate) enum Whence {
    CommandLine,
    File(PathBuf),
    /// What the metadata log says of the broker.
    Broker,
    /// What it says of a topic.
    Topic(String),
}

impl fmt::Display for Whence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("of the command line"),
            Self::File(path) => write!(f, "in {}", path.display()),
            Self::Broker => f.write_str("of the broker in the metadata log"),
            Self::Topic(topic) => write!(f, "of topic {topic} in the metadata log"),
        }
    }
}

impl Whence {
    /// Adds where settings come from, for `map_err`.
    pub(crate) fn refused(self) -> impl FnOnce(ConfigError) -> CliError {
        move |source| CliError::Config { whence: self, source }
    }
}

impl CliError {
    /// Adds what was tried on which path, for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }

    /// Whether there is no file of that name.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the reader of our output has gone: the end, but no fault.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output { source } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// What to do where a lock cannot be had.
fn lock_advice(error: &LockError) -> &'static str {
    match error {
        LockError::Held { .. } => "stop the broker first",
        _ => "the log directory cannot be locked",
    }
}
