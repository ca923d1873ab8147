//! Why a cleaning failed.

use std::path::PathBuf;

use alluvium_record_format::{BuildError, Corruption};
use alluvium_segment::SegmentError;

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
    #[error("cannot rewrite a batch of {}", path.display())]
    #[non_exhaustive]
    Rebuild {
        /// The log file that the batch is from.
        path: PathBuf,
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
            Self::MapTooSmall | Self::Stopped => false,
        }
    }

    /// The failure of a segment, for `map_err`: what a [`CleanHost`](crate::CleanHost) needs.
    #[must_use]
    pub const fn segment(source: SegmentError) -> Self {
        Self::Segment { source }
    }
}
