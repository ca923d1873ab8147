//! Walks a buffer of entries: batches of magic 2, messages of magic 0 and 1.

use zerocopy::big_endian::{I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Batch, BatchHeader, CorruptKind, Corruption, Offset, Position};

/// The first 17 bytes of every entry, whatever its magic.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Prefix {
    offset: I64,       // 0: base offset (v2), offset of the last message (v0, v1)
    length: I32,       // 8: bytes after this field
    epoch_or_crc: U32, // 12: leader epoch (v2), CRC-32 (v0, v1)
    magic: i8,         // 16
}

impl Prefix {
    /// Bytes of the prefix.
    pub const LEN: usize = 17;

    /// Bytes before those that the length field counts.
    pub const OVERHEAD: usize = 12;

    /// The smallest length field of any entry: a message of magic 0 without key and value.
    pub const MIN_LENGTH: i32 = 14;

    /// Reads the prefix and checks the length field and the magic byte (0, 1 or 2).
    ///
    /// # Errors
    ///
    /// `Truncated` below 17 bytes, `BatchLength`, `Magic`.
    pub fn parse(bytes: &[u8], at: Position) -> Result<&Self, Corruption> {
        let (prefix, _) = Self::ref_from_prefix(bytes).map_err(|_short| {
            CorruptKind::Truncated { need: Self::LEN, have: bytes.len() }.at(at)
        })?;
        let min = if prefix.magic == 2 { BatchHeader::MIN_BATCH_LENGTH } else { Self::MIN_LENGTH };
        let found = prefix.length.get();
        if found < min {
            return Err(CorruptKind::BatchLength { found, min }.at(at.saturating_add_len(8)));
        }
        match prefix.magic {
            0..=2 => Ok(prefix),
            found => Err(CorruptKind::Magic { found }.at(at.saturating_add_len(16))),
        }
    }

    /// The first field: base offset of a batch, offset of a message.
    #[must_use]
    pub fn offset(&self) -> Offset {
        Offset::new(self.offset.get())
    }

    /// Bytes of the whole entry.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        u64::try_from(self.length.get()).unwrap_or(0).saturating_add(12)
    }

    /// 0, 1 or 2.
    #[must_use]
    pub const fn magic(&self) -> i8 {
        self.magic
    }
}

/// One entry of a log file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Entry<'a> {
    /// Magic 2.
    Batch(Batch<'a>),
    /// Magic 0 or 1.
    Legacy(LegacyEntry<'a>),
}

/// A message of magic 0 or 1, perhaps a compressed wrapper of more.
#[derive(Clone, Copy, Debug)]
pub struct LegacyEntry<'a> {
    prefix: &'a Prefix,
    bytes: &'a [u8],
    position: Position,
}

impl<'a> LegacyEntry<'a> {
    /// The 17 bytes at the start.
    #[must_use]
    pub const fn prefix(&self) -> &'a Prefix {
        self.prefix
    }

    /// The whole entry as stored.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The first byte of the entry in its file or buffer.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }
}

impl<'a> Entry<'a> {
    /// Reads the entry at the start of `bytes`, which is byte `at` of its file.
    ///
    /// # Errors
    ///
    /// As [`Prefix::parse`], and `Truncated` when the entry is longer than `bytes`.
    pub fn parse(bytes: &'a [u8], at: Position) -> Result<Self, Corruption> {
        let prefix = Prefix::parse(bytes, at)?;
        if prefix.magic() == 2 {
            return Batch::parse(bytes, at).map(Self::Batch);
        }
        let need = usize::try_from(prefix.size_bytes()).unwrap_or(usize::MAX);
        let have = bytes.len();
        let bytes = bytes.get(..need).ok_or(CorruptKind::Truncated { need, have }.at(at))?;
        Ok(Self::Legacy(LegacyEntry { prefix, bytes, position: at }))
    }

    /// The whole entry as stored.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Batch(batch) => batch.bytes(),
            Self::Legacy(entry) => entry.bytes(),
        }
    }
}

/// Iterates over the entries of a buffer. Yields whole entries, then at most one error: the
/// damage, or `Truncated` where the buffer ends inside an entry.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
    position: Position,
    done: bool,
}

impl<'a> Entries<'a> {
    /// Iterates over `bytes`, which begin at byte `at` of their file.
    #[must_use]
    pub const fn new(bytes: &'a [u8], at: Position) -> Self {
        Self { rest: bytes, position: at, done: false }
    }

    /// The byte after the last whole entry.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Corruption>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || self.rest.is_empty() {
            return None;
        }
        let entry = Entry::parse(self.rest, self.position);
        match &entry {
            Ok(entry) => {
                let len = entry.bytes().len();
                self.rest = self.rest.get(len..).unwrap_or_default();
                self.position = self.position.saturating_add_len(len);
            }
            Err(_) => self.done = true,
        }
        Some(entry)
    }
}
