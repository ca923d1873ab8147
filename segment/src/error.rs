//! Why an operation on a segment failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use alluvium_record_format::{Corruption, Offset, Position};
use alluvium_sparse_index::IndexError;

/// Why an operation on a segment failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The bytes arrived but break the format. A retry cannot help.
    #[error("{} is corrupt", path.display())]
    #[non_exhaustive]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong, and at which byte.
        source: Corruption,
    },
    /// The operating system failed. The bytes may be fine.
    #[error("cannot {op} {} at byte {position}", path.display())]
    #[non_exhaustive]
    Io {
        /// What was tried.
        op: IoOp,
        /// The file or directory.
        path: PathBuf,
        /// The first byte that the call was about, 0 for a whole file.
        position: Position,
        /// What the operating system said.
        source: io::Error,
    },
    /// An index could not be read or changed.
    #[error(transparent)]
    #[non_exhaustive]
    Index {
        /// What the index said, with its path.
        source: IndexError,
    },
    /// The file is not there: somebody deleted or replaced the segment. Look it up again.
    #[error("{} is gone", path.display())]
    #[non_exhaustive]
    Gone {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// The file is longer than a segment can be.
    #[error("{} has {found} bytes, above the limit of {max}", path.display())]
    #[non_exhaustive]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length, or the length that an append would give it.
        found: u64,
        /// The largest length.
        max: u64,
    },
    /// An offset does not fit into the segment: roll before an append, split a found one.
    #[error("offset {offset} does not fit into the segment with base offset {base}")]
    #[non_exhaustive]
    OffsetOverflow {
        /// The base offset of the segment.
        base: Offset,
        /// The offset that is outside `base..=base + i32::MAX`.
        offset: Offset,
    },
    /// The batches of an append do not lie after those in the segment. Nothing was written.
    #[error("a batch ends at offset {found}, after one that ends at {last}")]
    #[non_exhaustive]
    OutOfOrder {
        /// The last offset before.
        last: Offset,
        /// The last offset of the batch that was refused.
        found: Offset,
    },
    /// A write failed, and cutting the file back to its old length failed too. The file ends in
    /// torn bytes; its directory must go offline.
    #[error("cannot cut {} back to {position} bytes after a failed write", path.display())]
    #[non_exhaustive]
    CutFailed {
        /// The file.
        path: PathBuf,
        /// The length that it should have.
        position: Position,
        /// Why the write failed.
        write: io::Error,
        /// Why the cut failed.
        source: io::Error,
    },
    /// An earlier write or sync failed in a way that leaves the file in doubt. Nothing was tried;
    /// reopen the segment.
    #[error("{} is in doubt after an earlier failure", path.display())]
    #[non_exhaustive]
    InDoubt {
        /// The file.
        path: PathBuf,
    },
    /// Somebody in this process has it already: open a directory once, write to a segment from
    /// one place.
    #[error("{} is in use", path.display())]
    #[non_exhaustive]
    Busy {
        /// The directory or file.
        path: PathBuf,
    },
    /// The directory was opened without its lock.
    #[error("{} is open for reading alone", path.display())]
    #[non_exhaustive]
    ReadOnly {
        /// The directory.
        path: PathBuf,
    },
    /// The lock is that of another log directory.
    #[error("{} does not lie in {}, whose lock was given", path.display(), lock_dir.display())]
    #[non_exhaustive]
    OutsideLock {
        /// The directory.
        path: PathBuf,
        /// The log directory that is locked.
        lock_dir: PathBuf,
    },
    /// The new name of a directory is not a single file name.
    #[error("{name:?} cannot be the name of a directory")]
    #[non_exhaustive]
    InvalidName {
        /// The name.
        name: String,
    },
}

/// A step that the operating system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoOp {
    /// Opening an existing file.
    Open,
    /// Making a file.
    Create,
    /// Reading its length or times.
    Stat,
    /// Reading bytes.
    Read,
    /// Writing bytes.
    Write,
    /// Cutting or extending.
    SetLen,
    /// Making bytes or names durable.
    Sync,
    /// Renaming.
    Rename,
    /// Removing.
    Remove,
    /// Setting the modification time.
    SetTime,
    /// Asking which pages are in memory.
    PageCache,
}

impl fmt::Display for IoOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Read => "read",
            Self::Write => "write",
            Self::SetLen => "set the length of",
            Self::Sync => "sync",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::SetTime => "set the times of",
            Self::PageCache => "ask for the cached pages of",
        })
    }
}

impl SegmentError {
    /// Whether the bytes are wrong, as opposed to the operating system: what recovery cuts.
    #[must_use]
    pub const fn is_corruption(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Index { source: IndexError::Corrupt { .. } })
    }

    pub(crate) fn io(op: IoOp, path: impl Into<PathBuf>, at: u32, source: io::Error) -> Self {
        Self::Io { op, path: path.into(), position: Position::new(at), source }
    }

    /// The failure of a whole-file step; a missing file is [`SegmentError::Gone`].
    pub(crate) fn file(op: IoOp, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound {
            return Self::Gone { path: path.into() };
        }
        Self::io(op, path, 0, source)
    }

    pub(crate) fn corrupt(path: impl Into<PathBuf>, source: Corruption) -> Self {
        Self::Corrupt { path: path.into(), source }
    }

    pub(crate) const fn index(source: IndexError) -> Self {
        Self::Index { source }
    }
}
