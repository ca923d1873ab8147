//! A read-only view over the bytes of an offset index. Format: `docs/format/offset-index.md`.

use alluvium_record_format::{CorruptKind, Corruption, Offset, Position};

use crate::entry::OFFSET_ENTRY_LEN;
use crate::{OffsetEntry, OffsetNeighbours, search};

/// The entries that Kafka's search takes for warm: those of 8 KiB.
const WARM_ENTRIES: usize = 8192 / OFFSET_ENTRY_LEN;

/// An offset index in memory, borrowed: for tools, which never map a file that they do not own.
///
/// Every whole slot counts as an entry, as in Kafka; zero padding of an index that was not
/// trimmed is found by [`padding_start`](Self::padding_start). Look-ups probe the same slots
/// as Kafka's, so that they give Kafka's answer on a damaged index too.
#[derive(Clone, Copy, Debug)]
pub struct OffsetIndex<'a> {
    base: Offset,
    entries: &'a [[u8; OFFSET_ENTRY_LEN]],
    spare_bytes: usize,
}

impl<'a> OffsetIndex<'a> {
    /// Bytes of one entry.
    pub const ENTRY_LEN: usize = OFFSET_ENTRY_LEN;

    /// A view over the whole file of the segment with base offset `base`. Bytes behind the last
    /// whole entry are left out; see [`sanity_check`](Self::sanity_check).
    #[must_use]
    pub const fn new(base: Offset, bytes: &'a [u8]) -> Self {
        let (entries, spare) = bytes.as_chunks();
        Self { base, entries, spare_bytes: spare.len() }
    }

    /// The base offset of the segment.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base
    }

    /// Number of entries, padding included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The bytes behind the last whole entry, 0 to 7.
    #[must_use]
    pub const fn spare_bytes(&self) -> usize {
        self.spare_bytes
    }

    /// The entry in slot `index`, from 0.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<OffsetEntry> {
        self.entries.get(index).map(|bytes| self.unpack(*bytes))
    }

    /// The last entry.
    #[must_use]
    pub fn last_entry(&self) -> Option<OffsetEntry> {
        self.entries.last().map(|bytes| self.unpack(*bytes))
    }

    /// The offset of the last entry, or the base offset of an empty index.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.last_entry().map_or(self.base, |entry| entry.offset)
    }

    /// Iterates over the entries, padding included.
    #[must_use]
    pub fn iter(&self) -> OffsetEntries<'a> {
        OffsetEntries { base: self.base, entries: self.entries.iter() }
    }

    /// The first slot after slot 0 whose offset is the base offset: there begins the zero
    /// padding of an index that was not trimmed. Kafka's dump tool stops at it. Cost: O(n).
    #[must_use]
    pub fn padding_start(&self) -> Option<usize> {
        self.iter().skip(1).position(|entry| entry.offset == self.base)?.checked_add(1)
    }

    /// This view without padding.
    ///
    /// Slot 0 is padding too when it is all zeros: the first batch of a segment never gets an
    /// entry, so no writer stores offset 0 at byte 0.
    #[must_use]
    pub fn without_padding(&self) -> Self {
        let count = match self.padding_start() {
            _ if self.entries.first().is_some_and(|bytes| *bytes == [0; OFFSET_ENTRY_LEN]) => 0,
            Some(start) => start,
            None => self.len(),
        };
        Self { entries: self.entries.get(..count).unwrap_or_default(), ..*self }
    }

    /// Returns the entry with the largest offset that is not above `target`.
    ///
    /// The record itself lies at or after the entry's [`Position`], so scan the `.log` file
    /// from there. Below the first entry, the answer is the segment's base offset at byte 0.
    /// Binary search: O(log n), no allocation.
    ///
    /// Source: `OffsetIndex.lookup` in Kafka; `docs/format/offset-index.md#lookup`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use alluvium_record_format::{Offset, Position};
    /// # use alluvium_sparse_index::OffsetIndex;
    /// // Two entries: offset 110 at byte 4096, offset 125 at byte 8192.
    /// let bytes = [0, 0, 0, 10, 0, 0, 16, 0, 0, 0, 0, 25, 0, 0, 32, 0];
    /// let index = OffsetIndex::new(Offset::new(100), &bytes);
    ///
    /// assert_eq!(index.lookup(Offset::new(124)).position, Position::new(4096));
    /// assert_eq!(index.lookup(Offset::new(109)).position, Position::new(0));
    /// ```
    #[must_use]
    pub fn lookup(&self, target: Offset) -> OffsetEntry {
        search::lower_bound(self.len(), WARM_ENTRIES, |slot| {
            self.entry(slot).map_or(self.base, |entry| entry.offset).cmp(&target)
        })
        .and_then(|slot| self.entry(slot))
        .unwrap_or(OffsetEntry::new(self.base, Position::new(0)))
    }

    /// Returns the entry at or below `target`, if there is one, and the entry after it, in an
    /// index whose offsets rise: the batch that holds `target` begins between the two, or at the
    /// second. Cost: as [`lookup`](Self::lookup).
    #[must_use]
    pub fn lookup_pair(&self, target: Offset) -> (Option<OffsetEntry>, Option<OffsetEntry>) {
        let near = self.lookup_near(target);
        (near.floor, near.next)
    }

    /// As [`lookup_pair`](Self::lookup_pair), with the slot and one entry more.
    #[must_use]
    pub fn lookup_near(&self, target: Offset) -> OffsetNeighbours {
        let above = self.entries.partition_point(|bytes| self.unpack(*bytes).offset <= target);
        OffsetNeighbours::at(above, |slot| self.entry(slot))
    }

    /// Returns the offset of the first entry that begins `size_bytes` or more after
    /// `position`: an upper bound of the offsets that a read of that slice returns.
    ///
    /// `None` where no entry lies so far on. As in Kafka, the sum is one of 32 bits, and where it
    /// wraps below 0 the answer is the first entry; and where the first entry begins exactly
    /// there, the answer is the second.
    ///
    /// Source: `OffsetIndex.fetchUpperBoundOffset` in Kafka;
    /// `docs/format/offset-index.md#upper-bound`.
    #[must_use]
    pub fn upper_bound_offset(&self, position: Position, size_bytes: u32) -> Option<Offset> {
        let target = signed(Position::new(position.get().wrapping_add(size_bytes)));
        search::upper_bound(self.len(), WARM_ENTRIES, |slot| {
            self.entry(slot).map_or(0, |entry| signed(entry.position)).cmp(&target)
        })
        .and_then(|slot| self.entry(slot))
        .map(|entry| entry.offset)
    }

    /// Kafka's check: whole entries alone, and the last one not below the base offset. Says
    /// nothing about entries before the last, nor about the log.
    ///
    /// # Errors
    ///
    /// `IndexOrder` at the last entry, `IndexLength` at the spare bytes.
    pub fn sanity_check(&self) -> Result<(), Corruption> {
        let whole_bytes = self.entries.as_flattened().len();
        if let Some(last) = self.last_entry().filter(|last| last.offset < self.base) {
            let kind = CorruptKind::index_order(last.offset.get(), self.base.get());
            return Err(kind.at(position_of(whole_bytes.saturating_sub(OFFSET_ENTRY_LEN))));
        }
        check_length(whole_bytes, self.spare_bytes, OFFSET_ENTRY_LEN)
    }

    const fn unpack(&self, bytes: [u8; OFFSET_ENTRY_LEN]) -> OffsetEntry {
        OffsetEntry::unpack(self.base, u64::from_be_bytes(bytes))
    }
}

impl<'a> IntoIterator for &OffsetIndex<'a> {
    type Item = OffsetEntry;
    type IntoIter = OffsetEntries<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterates over the entries of an [`OffsetIndex`].
#[derive(Clone, Debug)]
pub struct OffsetEntries<'a> {
    base: Offset,
    entries: core::slice::Iter<'a, [u8; OFFSET_ENTRY_LEN]>,
}

impl Iterator for OffsetEntries<'_> {
    type Item = OffsetEntry;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.entries.next()?;
        Some(OffsetEntry::unpack(self.base, u64::from_be_bytes(*bytes)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl ExactSizeIterator for OffsetEntries<'_> {}

/// A stored position as Kafka reads it: with a sign.
pub(crate) const fn signed(position: Position) -> i32 {
    i32::from_be_bytes(position.get().to_be_bytes())
}

/// Refuses bytes behind the last whole entry.
pub(crate) fn check_length(
    whole_bytes: usize,
    spare_bytes: usize,
    entry_bytes: usize,
) -> Result<(), Corruption> {
    if spare_bytes == 0 {
        return Ok(());
    }
    let found = u64::try_from(whole_bytes.saturating_add(spare_bytes)).unwrap_or(u64::MAX);
    Err(CorruptKind::index_length(found, entry_bytes).at(position_of(whole_bytes)))
}

/// A length as a position: for errors.
pub(crate) fn position_of(len: usize) -> Position {
    Position::saturating_from_len(len)
}
