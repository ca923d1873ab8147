//! Why a cleaning failed.

use std::path::PathBuf;

use alluvium_log_manager::{LogError, ManagerError};
use alluvium_record_format::{BuildError, Corruption, Position};
use alluvium_segment::SegmentError;
use alluvium_sparse_index::IndexError;

/// Why a cleaning failed. Groups of segments that were replaced before stay replaced, all others
/// are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanError {
    /// A log that is to be cleaned breaks the format. A retry cannot help.
    #[error("cannot clean {}, which is corrupt", path.display())]
    #[non_exhaustive]
    Corrupt {
        /// The log file.
        path: PathBuf,
        /// What is wrong, and at which byte.
        source: Corruption,
    },
    /// A batch cannot be built again with the records that are left of it.
    #[error("cannot rewrite the batch at byte {position} of {}", path.display())]
    #[non_exhaustive]
    Rebuild {
        /// The log file that the batch is from.
        path: PathBuf,
        /// Where the batch begins.
        position: Position,
        /// What the builder refused.
        source: BuildError,
    },
    /// A segment could not be read, written or replaced.
    #[error("a segment cannot be cleaned")]
    #[non_exhaustive]
    Segment {
        /// What failed, with its path.
        source: SegmentError,
    },
    /// The offset map takes no key at all: give it more memory.
    #[error("the offset map has no room for a single key")]
    MapTooSmall,
    /// The system has no room for an offset map of the size that was asked for.
    #[error("the system has not enough memory for the offset map")]
    OutOfMemory,
    /// A log in service refused what was asked of it.
    #[error(transparent)]
    #[non_exhaustive]
    Log {
        /// Why.
        source: LogError,
    },
    /// How far the log is clean could not be written down, as the log went meanwhile.
    #[error(transparent)]
    #[non_exhaustive]
    Checkpoint {
        /// What became of the log.
        source: ManagerError,
    },
    /// The cleaning of this log hit a fault of this library. The panic's message was printed.
    #[error("the cleaning panicked")]
    Panicked,
    /// The host asked for an end. Nothing is wrong with the log.
    #[error("the cleaning was stopped")]
    Stopped,
}

impl CleanError {
    /// Whether bytes are wrong, as opposed to the operating system.
    #[must_use]
    pub const fn is_corruption(&self) -> bool {
        match self {
            Self::Corrupt { .. } | Self::Rebuild { .. } => true,
            Self::Segment { source } => source.is_corruption(),
            _ => false,
        }
    }

    /// Whether the cleaning only came at a bad time: nothing is wrong with the log or its disk.
    #[must_use]
    pub const fn is_stop(&self) -> bool {
        matches!(
            self,
            Self::Stopped
                | Self::Checkpoint { .. }
                | Self::Segment { source: SegmentError::Gone { .. } }
                | Self::Log { source: LogError::Closed { .. } | LogError::SegmentsChanged { .. } }
        )
    }

    /// Whether the operating system failed, as opposed to the bytes.
    pub(crate) const fn is_disk(error: &SegmentError) -> bool {
        matches!(
            error,
            SegmentError::Io { .. }
                | SegmentError::CutFailed { .. }
                | SegmentError::InDoubt { .. }
                | SegmentError::Index {
                    source: IndexError::Io { .. } | IndexError::DiskFull { .. },
                    ..
                }
        )
    }

    /// The failure of a segment, for `map_err`: what a [`CleanHost`](crate::CleanHost) needs.
    #[must_use]
    pub const fn segment(source: SegmentError) -> Self {
        Self::Segment { source }
    }
}
