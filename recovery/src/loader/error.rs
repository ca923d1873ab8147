//! Why a load failed.

use std::path::{Path, PathBuf};

use alluvium_segment::SegmentError;

use crate::FileError;

/// Why a log could not be loaded. What is damaged is mended, not reported so; these are failures
/// of the system, after which the directory is in doubt, or a wish of the caller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file could not be read or changed.
    #[error("cannot load the log in {}", dir.display())]
    #[non_exhaustive]
    File {
        /// The directory of the partition.
        dir: PathBuf,
        /// The cause.
        source: FileError,
    },
    /// A segment could not be opened or replaced.
    #[error("cannot load the log in {}", dir.display())]
    #[non_exhaustive]
    Segment {
        /// The directory of the partition.
        dir: PathBuf,
        /// The cause.
        source: SegmentError,
    },
    /// The progress callback has asked to stop. Nothing is lost: load again.
    #[error("the load of {} was interrupted", dir.display())]
    #[non_exhaustive]
    Interrupted {
        /// The directory of the partition.
        dir: PathBuf,
    },
    /// The directory is not as it was when the plan was made. Nothing was changed.
    #[error("{} has changed since the plan was made", dir.display())]
    #[non_exhaustive]
    Changed {
        /// The directory of the partition.
        dir: PathBuf,
    },
}

impl LoadError {
    pub(super) fn file(dir: &Path, source: FileError) -> Self {
        Self::File { dir: dir.to_path_buf(), source }
    }

    pub(super) fn segment(dir: &Path, source: SegmentError) -> Self {
        Self::Segment { dir: dir.to_path_buf(), source }
    }
}
