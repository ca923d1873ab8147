//! Walks a buffer of entries: batches of magic 2, messages of magic 0 and 1.

mod prefix;
mod walker;

use crate::{Batch, Corruption, LegacyEntry, Offset, Position};

pub use prefix::Prefix;
pub use walker::Walker;

/// One entry of a log file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Entry<'a> {
    /// Magic 2.
    Batch(Batch<'a>),
    /// Magic 0 or 1.
    Legacy(LegacyEntry<'a>),
}

impl<'a> Entry<'a> {
    /// Reads the entry at the start of `bytes`, which is byte `at` of its file.
    ///
    /// # Errors
    ///
    /// As [`Prefix::parse`], and `Truncated` when the entry is longer than `bytes`.
    pub fn parse(bytes: &'a [u8], at: Position) -> Result<Self, Corruption> {
        if Prefix::parse(bytes, at)?.magic() == 2 {
            Batch::parse(bytes, at).map(Self::Batch)
        } else {
            LegacyEntry::parse(bytes, at).map(Self::Legacy)
        }
    }

    /// The whole entry as stored.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Batch(batch) => batch.bytes(),
            Self::Legacy(entry) => entry.bytes(),
        }
    }

    /// The first byte of the entry in its file or buffer.
    #[must_use]
    pub const fn position(&self) -> Position {
        match self {
            Self::Batch(batch) => batch.position(),
            Self::Legacy(entry) => entry.position(),
        }
    }

    /// The magic: 0, 1 or 2.
    #[must_use]
    pub const fn magic(&self) -> i8 {
        match self {
            Self::Batch(_) => 2,
            Self::Legacy(entry) => entry.magic(),
        }
    }

    /// The last offset of the entry.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        match self {
            Self::Batch(batch) => batch.header().last_offset(),
            Self::Legacy(entry) => entry.offset(),
        }
    }

    /// Compares the stored checksum with the bytes.
    ///
    /// # Errors
    ///
    /// `Crc` at the checksum.
    pub fn verify_crc(&self) -> Result<(), Corruption> {
        match self {
            Self::Batch(batch) => batch.verify_crc(),
            Self::Legacy(entry) => entry.verify_crc(),
        }
    }
}

/// Iterates over the entries of a buffer, by the rules of [`Walker`]. Yields whole entries, then
/// at most one error: the damage, or `Truncated` where the buffer ends inside an entry.
/// Checksums are left to the caller.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
    walker: Walker,
}

impl<'a> Entries<'a> {
    /// Iterates over `bytes`, which begin at byte `at` of their file.
    #[must_use]
    pub fn new(bytes: &'a [u8], at: Position) -> Self {
        Self { rest: bytes, walker: Walker::new(at, at.saturating_add_len(bytes.len())) }
    }

    /// The byte after the last whole entry.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.walker.position()
    }

    fn read(&mut self) -> Result<Option<Entry<'a>>, Corruption> {
        let at = self.walker.position();
        let Some(prefix) = self.walker.step(self.rest)? else { return Ok(None) };
        let entry = if prefix.magic() == 2 {
            Entry::Batch(Batch::parse(self.rest, at)?)
        } else {
            Entry::Legacy(LegacyEntry::parse(self.rest, at)?)
        };
        self.rest = self.rest.get(entry.bytes().len()..).unwrap_or_default();
        Ok(Some(entry))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Corruption>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.read().transpose();
        if !matches!(entry, Some(Ok(_))) {
            self.rest = &[];
        }
        entry
    }
}

impl core::iter::FusedIterator for Entries<'_> {}
