//! Why an operation on the logs of a broker failed.

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_recovery::{FileError, MetaConflict};
use alluvium_segment::{LockError, SegmentError};

use crate::{ErrorCode, LogError};

/// Why an operation on the logs of a broker failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// Somebody else uses a log directory.
    #[error(transparent)]
    #[non_exhaustive]
    Locked {
        /// Why.
        source: LockError,
    },
    /// Two of the log directories are the same.
    #[error("{} stands twice among the log directories", path.display())]
    #[non_exhaustive]
    SameDir {
        /// The directory.
        path: PathBuf,
    },
    /// A partition has logs in two directories.
    #[error("{partition} lies in {} and in {}", first.display(), second.display())]
    #[non_exhaustive]
    SamePartition {
        /// The partition.
        partition: String,
        /// A directory that holds it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// A log directory belongs to somebody else.
    #[error(
        "{} is not a directory of node {node_id} of cluster {cluster_id}: it may hold another \
         broker's data, or the wrong disk may be mounted there",
        path.display()
    )]
    #[non_exhaustive]
    OtherBroker {
        /// The directory.
        path: PathBuf,
        /// The cluster of this broker.
        cluster_id: String,
        /// Its node id.
        node_id: i32,
        /// What differs.
        source: MetaConflict,
    },
    /// Two log directories do not belong to one broker.
    #[error("{} and {} are not directories of one broker", first.display(), second.display())]
    #[non_exhaustive]
    DirsDiffer {
        /// One.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// What does not fit.
        source: MetaConflict,
    },
    /// A log directory does not say whose it is.
    #[error("no meta.properties in {}: is its disk mounted, was it formatted?", path.display())]
    #[non_exhaustive]
    Unformatted {
        /// The directory.
        path: PathBuf,
    },
    /// No log directory is in service.
    #[error("every log directory is offline")]
    AllOffline,
    /// The directory of the log, or one that may hold it, is offline.
    #[error("{} is offline", path.display())]
    #[non_exhaustive]
    Offline {
        /// The log directory.
        path: PathBuf,
    },
    /// The start could not load the log: something is wrong with its own files.
    #[error("{partition} could not be loaded")]
    #[non_exhaustive]
    NotLoaded {
        /// The partition.
        partition: String,
        /// Why.
        source: Arc<LogError>,
    },
    /// There is no such log.
    #[error("{partition} has no log here")]
    #[non_exhaustive]
    Unknown {
        /// The partition.
        partition: String,
    },
    /// There is no such log directory.
    #[error("{} is none of the log directories", path.display())]
    #[non_exhaustive]
    UnknownDir {
        /// The directory.
        path: PathBuf,
    },
    /// The log belongs to another topic of the same name.
    #[error("{partition} belongs to topic {found}, not to {expected}")]
    #[non_exhaustive]
    InconsistentTopicId {
        /// The partition.
        partition: String,
        /// The id in its directory.
        found: String,
        /// The id that was asked for.
        expected: String,
    },
    /// The logs are closed.
    #[error("the logs are closed")]
    Stopped,
    /// One log failed.
    #[error("the log of {partition} failed")]
    #[non_exhaustive]
    Log {
        /// The partition.
        partition: String,
        /// Why.
        source: LogError,
    },
    /// A file of a log directory failed.
    #[error(transparent)]
    #[non_exhaustive]
    File {
        /// Why.
        source: FileError,
    },
    /// A partition's directory could not be changed.
    #[error(transparent)]
    #[non_exhaustive]
    Directory {
        /// Why.
        source: SegmentError,
    },
}

impl ManagerError {
    /// Kafka's number for this error.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InconsistentTopicId { .. } => ErrorCode::InconsistentTopicId,
            Self::Log { source, .. } => source.code(),
            Self::Unknown { .. } | Self::UnknownDir { .. } | Self::SamePartition { .. } => {
                ErrorCode::UnknownServerError
            }
            _ => ErrorCode::KafkaStorageError,
        }
    }
}
