//! Why an index could not be read or changed.

use std::io;
use std::path::{Path, PathBuf};

use alluvium_record_format::{Corruption, Offset, Position, Timestamp};

/// Why an index file could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The bytes arrived but break the format. A retry cannot help; a rebuild can.
    #[error("{} is corrupt", path.display())]
    #[non_exhaustive]
    Corrupt {
        /// The index file.
        path: PathBuf,
        /// What is wrong, and at which byte.
        source: Corruption,
    },
    /// The operating system failed. The bytes may be fine; a retry can help.
    #[error("cannot {action} {} at byte {position}", path.display())]
    #[non_exhaustive]
    Io {
        /// What was tried: `create`, `open`, `map`, `read`, `write`, `extend`, `resize`, `flush`.
        action: &'static str,
        /// The index file.
        path: PathBuf,
        /// The byte at which the operation began.
        position: Position,
        /// What the operating system said.
        source: io::Error,
    },
    /// The disk or quota is used up. Nothing was stored.
    #[error("no space to extend {} at byte {position}", path.display())]
    #[non_exhaustive]
    DiskFull {
        /// The index file.
        path: PathBuf,
        /// The byte from which blocks were asked for.
        position: Position,
        /// What the operating system said.
        source: io::Error,
    },
    /// Somebody changed the length of the file while it was open.
    #[error("{} has {found} bytes, {expected} were left there", path.display())]
    #[non_exhaustive]
    Changed {
        /// The index file.
        path: PathBuf,
        /// Bytes that the file had when this process last set or read its length.
        expected: u64,
        /// Bytes that it has now.
        found: u64,
    },
    /// Somebody put another file in its place while it was open.
    #[error("{} is not the file that was opened there", path.display())]
    #[non_exhaustive]
    Replaced {
        /// The index file.
        path: PathBuf,
    },
    /// The entry or length breaks a rule of the index. Nothing was changed.
    #[error("cannot change {}", path.display())]
    #[non_exhaustive]
    Refused {
        /// The index file.
        path: PathBuf,
        /// The rule.
        source: Refusal,
    },
}

/// The rule that an entry or a new length breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The index has no free slot (`IllegalArgumentException` in Kafka).
    #[error("the index is full with {entries} entries")]
    #[non_exhaustive]
    Full {
        /// Entries in the index.
        entries: usize,
    },
    /// The offset does not follow the last one (`InvalidOffsetException` in Kafka).
    #[error("offset {found} does not follow {last}")]
    #[non_exhaustive]
    OutOfOrder {
        /// The offset of the last entry.
        last: Offset,
        /// The offset of the new one.
        found: Offset,
    },
    /// The timestamp is below the last one (`IllegalStateException` in Kafka).
    #[error("timestamp {found} is below {last}")]
    #[non_exhaustive]
    TimestampOutOfOrder {
        /// The timestamp of the last entry.
        last: Timestamp,
        /// The timestamp of the new one.
        found: Timestamp,
    },
    /// The offset is below the base offset, or more than `i32::MAX` above it
    /// (`IndexOffsetOverflowException` in Kafka).
    #[error("offset {offset} does not fit an index of base offset {base}")]
    #[non_exhaustive]
    OffsetOverflow {
        /// The base offset of the segment.
        base: Offset,
        /// The offset of the new entry.
        offset: Offset,
    },
    /// The position is above `i32::MAX`, the largest that an entry can hold.
    #[error("position {position} is above 2 GiB")]
    #[non_exhaustive]
    PositionOverflow {
        /// The position of the new entry.
        position: Position,
    },
    /// The length is outside what the index was opened for.
    #[error("{bytes} bytes are outside {min} to {max}")]
    #[non_exhaustive]
    Length {
        /// The length asked for, in bytes.
        bytes: u64,
        /// The smallest length possible.
        min: u64,
        /// The largest length possible: what was set as maximum when the index was opened.
        max: u64,
    },
    /// The index was opened as that of a sealed segment: it can be read and trimmed alone.
    #[error("the index is open for reading")]
    Sealed,
}

impl IndexError {
    /// The rule that was broken, where that is the reason.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { source, .. } => Some(*source),
            _ => None,
        }
    }

    /// The index file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Corrupt { path, .. }
            | Self::Io { path, .. }
            | Self::DiskFull { path, .. }
            | Self::Changed { path, .. }
            | Self::Replaced { path, .. }
            | Self::Refused { path, .. } => path,
        }
    }

    pub(crate) fn corrupt(path: &Path, source: Corruption) -> Self {
        Self::Corrupt { path: path.to_path_buf(), source }
    }

    pub(crate) fn refused(path: &Path, source: Refusal) -> Self {
        Self::Refused { path: path.to_path_buf(), source }
    }

    /// An I/O error; one about space is told apart, as only the operator can help there.
    pub(crate) fn io(action: &'static str, path: &Path, at: u64, source: io::Error) -> Self {
        let position = Position::new(u32::try_from(at).unwrap_or(u32::MAX));
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path, position, source }
            }
            _ => Self::Io { action, path, position, source },
        }
    }
}
