//! Why a small file could not be read or written.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::Damage;

/// Why a checkpoint, snapshot or metadata file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The bytes arrived but break the format. A retry cannot help; rebuilding the file can.
    #[error("{} is corrupt", path.display())]
    #[non_exhaustive]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The damage.
        source: Damage,
    },
    /// The operating system failed. The bytes may be fine; the directory is in doubt.
    #[error("cannot {action} {}", path.display())]
    #[non_exhaustive]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: FileAction,
        /// The cause.
        source: io::Error,
    },
}

impl FileError {
    pub(crate) fn corrupt(path: &Path, source: Damage) -> Self {
        Self::Corrupt { path: path.to_path_buf(), source }
    }

    /// What the operating system, or who stands for it, said of a file.
    #[must_use]
    pub fn io(path: &Path, action: FileAction, source: io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), action, source }
    }

    /// The file or directory that the error is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Corrupt { path, .. } | Self::Io { path, .. } => path,
        }
    }

    /// The damage, where the bytes are at fault and not the operating system.
    #[must_use]
    pub const fn damage(&self) -> Option<&Damage> {
        match self {
            Self::Corrupt { source, .. } => Some(source),
            Self::Io { .. } => None,
        }
    }

    /// Whether the operating system says that there is no such file.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the operating system says that there is no room.
    #[must_use]
    pub fn is_storage_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }
}

/// What was asked of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileAction {
    /// Open or create a file.
    Open,
    /// Read a file.
    Read,
    /// Read the names in a directory.
    List,
    /// Write a file.
    Write,
    /// Shorten a file.
    Truncate,
    /// Make a file or directory durable.
    Sync,
    /// Give a file another name.
    Rename,
    /// Remove a file.
    Remove,
}

impl fmt::Display for FileAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::List => "list",
            Self::Write => "write",
            Self::Truncate => "truncate",
            Self::Sync => "sync",
            Self::Rename => "rename",
            Self::Remove => "remove",
        })
    }
}
