//! Why the bytes of a small file are not what they should be.

use std::fmt;

use alluvium_record_format::Position;

/// Bytes that break the format of a checkpoint, snapshot or metadata file, and where.
///
/// Holds no path: [`FileError`](crate::FileError) adds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    position: Position,
    line: Option<u32>,
    kind: DamageKind,
}

impl Damage {
    pub(crate) const fn at_byte(position: Position, kind: DamageKind) -> Self {
        Self { position, line: None, kind }
    }

    pub(crate) const fn at_line(line: u32, position: Position, kind: DamageKind) -> Self {
        Self { position, line: Some(line), kind }
    }

    /// The first byte of the damage; in a text file, of its line.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The line of the damage in a text file, counted from 1.
    #[must_use]
    pub const fn line(&self) -> Option<u32> {
        self.line
    }

    /// What is wrong.
    #[must_use]
    pub const fn kind(&self) -> DamageKind {
        self.kind
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}, ")?;
        }
        write!(f, "byte {}: {}", self.position, self.kind)
    }
}

impl std::error::Error for Damage {}

/// What is wrong with the bytes, with the value found and the one expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file ends before its content does.
    #[error("the file ends early: {need} bytes needed, {have} there")]
    #[non_exhaustive]
    Truncated {
        /// Bytes that the content takes.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// Bytes follow where the content should end.
    #[error("{found} bytes after the last entry")]
    #[non_exhaustive]
    TrailingBytes {
        /// Bytes that follow.
        found: u64,
    },
    /// The file is larger than any sound file of its kind.
    #[error("the file has {found} bytes, at most {max} are read")]
    #[non_exhaustive]
    TooLarge {
        /// Bytes of the file.
        found: u64,
        /// The largest size that is read.
        max: u64,
    },
    /// The version is not one that this crate reads.
    #[error("version {found} is unknown")]
    #[non_exhaustive]
    Version {
        /// The version as stored.
        found: i64,
    },
    /// The checksum does not match the bytes.
    #[error("stored checksum {stored:#010x}, computed {computed:#010x}")]
    #[non_exhaustive]
    Crc {
        /// The checksum as stored.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The text is not UTF-8.
    #[error("the text is not UTF-8")]
    NotUtf8,
    /// A field that should be a number is none, or does not fit its type.
    #[error("{field} is not a number of its range")]
    #[non_exhaustive]
    Number {
        /// The name of the field.
        field: &'static str,
    },
    /// A line has more or fewer fields than its entry.
    #[error("{found} fields where {need} are needed")]
    #[non_exhaustive]
    FieldCount {
        /// Fields of the line.
        found: usize,
        /// Fields of an entry.
        need: usize,
    },
    /// The count at the top of a file is not the count of its entries.
    #[error("{stated} entries stated, {found} found")]
    #[non_exhaustive]
    EntryCount {
        /// The count at the top.
        stated: i64,
        /// Entries that follow.
        found: usize,
    },
    /// A field that must be there is not.
    #[error("{field} is missing")]
    #[non_exhaustive]
    Missing {
        /// The name of the field.
        field: &'static str,
    },
    /// An id is not 16 bytes in URL-safe base64, or is one of the reserved ids.
    #[error("{field} is not a usable id")]
    #[non_exhaustive]
    Id {
        /// The name of the field.
        field: &'static str,
    },
    /// An escape of a properties file is cut or not hexadecimal.
    #[error("an escape without its four hexadecimal digits")]
    Escape,
}

impl DamageKind {
    /// This damage at a byte of a binary file.
    pub(crate) const fn at(self, position: Position) -> Damage {
        Damage::at_byte(position, self)
    }
}
