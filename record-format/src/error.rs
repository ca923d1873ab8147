//! Why bytes could not be read as what they should be.

use crate::{Codec, Position};

/// Bytes that break the format, and where.
///
/// Holds no path: the layer that knows the file adds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {position}: {kind}")]
pub struct Corruption {
    position: Position,
    kind: CorruptKind,
}

impl Corruption {
    /// Damage of `kind` that begins at `position` of the file or buffer.
    #[must_use]
    pub const fn new(position: Position, kind: CorruptKind) -> Self {
        Self { position, kind }
    }

    /// The first byte of the damage. Inside a compressed batch it is the first byte of the
    /// compressed payload.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// What is wrong.
    #[must_use]
    pub const fn kind(&self) -> CorruptKind {
        self.kind
    }

    /// What a caller can do about it.
    #[must_use]
    pub const fn class(&self) -> CorruptClass {
        self.kind.class()
    }
}

/// The three kinds of damage that callers treat in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CorruptClass {
    /// Size, magic or checksum: the bytes are not what was written.
    Corrupt,
    /// The bytes arrived as written, and break the rules inside a batch.
    Invalid,
    /// The buffer or file ends first.
    Incomplete,
}

/// What is wrong with the bytes, with the value found and the bound it broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptKind {
    /// The buffer or file ends before the structure does.
    #[error("the data ends early: {need} bytes needed, {have} there")]
    #[non_exhaustive]
    Truncated {
        /// Bytes that the structure takes.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// The length field of a batch is below the smallest possible.
    #[error("batch length {found} is below the minimum of {min}")]
    #[non_exhaustive]
    BatchLength {
        /// The length as stored.
        found: i32,
        /// The smallest length that a batch of this magic can have.
        min: i32,
    },
    /// The batch is larger than the caller accepts.
    #[error("batch of {found} bytes is above the limit of {max}")]
    #[non_exhaustive]
    BatchTooLarge {
        /// Bytes of the whole batch.
        found: u64,
        /// The caller's limit in bytes.
        max: u64,
    },
    /// The magic byte names no known format, or changes inside a file.
    #[error("magic {found} is unknown here")]
    #[non_exhaustive]
    Magic {
        /// The magic byte as stored.
        found: i8,
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
    /// The attributes name a codec that does not exist.
    #[error("codec {id} is unknown")]
    #[non_exhaustive]
    UnknownCodec {
        /// The codec bits as stored, 5 to 7.
        id: u8,
    },
    /// This build leaves the codec out.
    #[error("codec {codec} is not compiled in")]
    #[non_exhaustive]
    CodecDisabled {
        /// The codec that a feature of this crate would bring.
        codec: Codec,
    },
    /// The compressed payload is not a valid stream of its codec.
    #[error("the payload is not a valid {codec} stream")]
    #[non_exhaustive]
    Compressed {
        /// The codec that the attributes name.
        codec: Codec,
    },
    /// Records were asked for without inflating the batch.
    #[error("the records are compressed with {codec}: inflate the batch first")]
    #[non_exhaustive]
    NotInflated {
        /// The codec that the attributes name.
        codec: Codec,
    },
    /// The decompressed payload is larger than the caller allows.
    #[error("the payload inflates to more than {limit} bytes")]
    #[non_exhaustive]
    OutputLimit {
        /// The caller's limit in bytes.
        limit: usize,
    },
    /// A record of a compressed batch is longer than the caller allows.
    #[error("a record of {length} bytes is above the limit of {max}")]
    #[non_exhaustive]
    RecordTooLarge {
        /// The length as stored.
        length: usize,
        /// The caller's limit in bytes.
        max: usize,
    },
    /// The record count is negative, or above what the payload can hold.
    #[error("record count {found} cannot be")]
    #[non_exhaustive]
    RecordCount {
        /// The count as stored.
        found: i32,
    },
    /// A varint is longer than its type allows or carries bits beyond it.
    #[error("a varint of more than {max_bits} bits")]
    #[non_exhaustive]
    Varint {
        /// 32 or 64.
        max_bits: u8,
    },
    /// A length inside a record is negative or points past the end of the record.
    #[error("length {found} inside a record, {have} bytes are left")]
    #[non_exhaustive]
    RecordLength {
        /// The length as stored.
        found: i64,
        /// Bytes that are left.
        have: usize,
    },
    /// A record ends inside one of its fields.
    #[error("a record that ends inside a field")]
    RecordCut,
    /// The fields of a record do not fill its length.
    #[error("a record of {length} bytes whose fields take {used}")]
    #[non_exhaustive]
    RecordSize {
        /// The length as stored.
        length: usize,
        /// Bytes that the fields take.
        used: usize,
    },
    /// Bytes are left over after the last record of a batch.
    #[error("{found} bytes are left after the last record")]
    #[non_exhaustive]
    TrailingBytes {
        /// Bytes left.
        found: usize,
    },
    /// A control record with a key or value that is too short or of a negative version.
    #[error("a control record with a bad key or value")]
    ControlRecord,
    /// A compressed wrapper of magic 0 or 1 that breaks its rules.
    #[error("a legacy message set with bad inner messages")]
    LegacyWrapper,
    /// The length of an index file is no multiple of its entry size, or above 2 GiB.
    #[error("an index of {found} bytes with entries of {entry_bytes} bytes")]
    #[non_exhaustive]
    IndexLength {
        /// Bytes of the file.
        found: u64,
        /// Bytes of one entry.
        entry_bytes: usize,
    },
    /// An index entry is below the one that it must follow.
    #[error("index entry {found} is below {bound}")]
    #[non_exhaustive]
    IndexOrder {
        /// The offset or timestamp as stored.
        found: i64,
        /// The least value that it can have here.
        bound: i64,
    },
    /// An entry of a transaction index has an unknown version.
    #[error("version {found} of a transaction index entry is unknown")]
    #[non_exhaustive]
    IndexVersion {
        /// The version as stored.
        found: i16,
    },
    /// An offset, timestamp or size outside its range.
    #[error("value {found} is out of range")]
    #[non_exhaustive]
    OutOfRange {
        /// The value as stored or computed.
        found: i64,
    },
}

impl CorruptKind {
    /// Which of the three classes this is.
    #[must_use]
    pub const fn class(self) -> CorruptClass {
        match self {
            Self::Truncated { .. } => CorruptClass::Incomplete,
            Self::BatchLength { .. }
            | Self::BatchTooLarge { .. }
            | Self::Magic { .. }
            | Self::Crc { .. }
            | Self::IndexLength { .. }
            | Self::IndexOrder { .. }
            | Self::IndexVersion { .. } => CorruptClass::Corrupt,
            _ => CorruptClass::Invalid,
        }
    }

    /// A structure of `need` bytes of which only `have` are there.
    #[must_use]
    pub const fn truncated(need: usize, have: usize) -> Self {
        Self::Truncated { need, have }
    }

    /// An index file of `found` bytes whose entries take `entry_bytes` each.
    #[must_use]
    pub const fn index_length(found: u64, entry_bytes: usize) -> Self {
        Self::IndexLength { found, entry_bytes }
    }

    /// An index entry of `found`, which may not be below `bound`.
    #[must_use]
    pub const fn index_order(found: i64, bound: i64) -> Self {
        Self::IndexOrder { found, bound }
    }

    /// A transaction index entry of the unknown version `found`.
    #[must_use]
    pub const fn index_version(found: i16) -> Self {
        Self::IndexVersion { found }
    }

    /// A checksum of `stored` over bytes whose checksum is `computed`.
    #[must_use]
    pub const fn crc(stored: u32, computed: u32) -> Self {
        Self::Crc { stored, computed }
    }

    /// A record count of `found`, which cannot be.
    #[must_use]
    pub const fn record_count(found: i32) -> Self {
        Self::RecordCount { found }
    }

    /// An offset, timestamp or size of `found`, outside its range.
    #[must_use]
    pub const fn out_of_range(found: i64) -> Self {
        Self::OutOfRange { found }
    }

    /// A batch of `found` bytes, of which at most `max` are taken.
    #[must_use]
    pub fn too_large(found: usize, max: usize) -> Self {
        let bytes = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
        Self::BatchTooLarge { found: bytes(found), max: bytes(max) }
    }

    /// A magic byte of `found`, where it cannot be.
    #[must_use]
    pub const fn magic(found: i8) -> Self {
        Self::Magic { found }
    }

    /// This damage at a byte.
    #[must_use]
    pub const fn at(self, position: Position) -> Corruption {
        Corruption::new(position, self)
    }
}
