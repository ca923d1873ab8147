//! A read-only view over the bytes of a time index. Format: `docs/format/time-index.md`.

use alluvium_record_format::{CorruptKind, Corruption, Offset, Timestamp};

use crate::entry::TIME_ENTRY_LEN;
use crate::offset_index::{check_length, position_of};
use crate::{TimeEntry, search};

/// The entries that Kafka's search takes for warm: those of 8 KiB.
const WARM_ENTRIES: usize = 8192 / TIME_ENTRY_LEN;

/// A time index in memory, borrowed: for tools, which never map a file that they do not own.
///
/// Every whole slot counts as an entry, as in Kafka; zero padding of an index that was not
/// trimmed is found by [`padding_start`](Self::padding_start). Look-ups probe the same slots
/// as Kafka's, so that they give Kafka's answer on a damaged index too.
#[derive(Clone, Copy, Debug)]
pub struct TimeIndex<'a> {
    base: Offset,
    entries: &'a [[u8; TIME_ENTRY_LEN]],
    spare_bytes: usize,
}

impl<'a> TimeIndex<'a> {
    /// Bytes of one entry.
    pub const ENTRY_LEN: usize = TIME_ENTRY_LEN;

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

    /// The bytes behind the last whole entry, 0 to 11.
    #[must_use]
    pub const fn spare_bytes(&self) -> usize {
        self.spare_bytes
    }

    /// The entry in slot `index`, from 0.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<TimeEntry> {
        self.entries.get(index).map(|bytes| unpack(self.base, bytes))
    }

    /// The last entry: the largest timestamp of the segment, as far as the index knows.
    #[must_use]
    pub fn last_entry(&self) -> Option<TimeEntry> {
        self.entries.last().map(|bytes| unpack(self.base, bytes))
    }

    /// Iterates over the entries, padding included.
    #[must_use]
    pub fn iter(&self) -> TimeEntries<'a> {
        TimeEntries { base: self.base, entries: self.entries.iter() }
    }

    /// The first slot after slot 0 whose offset is the base offset: there begins the zero
    /// padding of an index that was not trimmed. Kafka's dump tool stops at it. Cost: O(n).
    #[must_use]
    pub fn padding_start(&self) -> Option<usize> {
        self.iter().skip(1).position(|entry| entry.offset == self.base)?.checked_add(1)
    }

    /// This view without padding.
    ///
    /// A slot 0 of zeros is padding where more padding follows. Alone it is an entry: a segment
    /// with one record of timestamp 0 has this index.
    #[must_use]
    pub fn without_padding(&self) -> Self {
        let count = match self.padding_start() {
            Some(1) if self.entries.first() == Some(&[0; TIME_ENTRY_LEN]) => 0,
            Some(start) => start,
            None => self.len(),
        };
        Self { entries: self.entries.get(..count).unwrap_or_default(), ..*self }
    }

    /// Returns the entry with the largest timestamp that is not above `target`.
    ///
    /// Every record with a later timestamp lies behind the entry's offset. `None` below the
    /// first entry: search from the start of the segment (Kafka answers timestamp -1 at the
    /// base offset). Binary search: O(log n), no allocation.
    ///
    /// Source: `TimeIndex.lookup` in Kafka; `docs/format/time-index.md#lookup`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use alluvium_record_format::{Offset, Timestamp};
    /// # use alluvium_sparse_index::TimeIndex;
    /// // One entry: timestamp 9, reached by the batch that ends with offset 102.
    /// let bytes = [0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2];
    /// let index = TimeIndex::new(Offset::new(100), &bytes);
    ///
    /// assert_eq!(index.lookup(Timestamp::new(50)).unwrap().offset, Offset::new(102));
    /// assert_eq!(index.lookup(Timestamp::new(8)), None);
    /// ```
    #[must_use]
    pub fn lookup(&self, target: Timestamp) -> Option<TimeEntry> {
        let slot = search::lower_bound(self.len(), WARM_ENTRIES, |slot| {
            self.entry(slot).map_or(target, |entry| entry.timestamp).cmp(&target)
        })?;
        self.entry(slot)
    }

    /// Kafka's check: whole entries alone, the last timestamp not below the first, the last
    /// offset not below the base. Says nothing about entries between, nor about the log.
    ///
    /// # Errors
    ///
    /// `IndexOrder` at the last entry, `IndexLength` at the spare bytes.
    pub fn sanity_check(&self) -> Result<(), Corruption> {
        let whole_bytes = self.entries.as_flattened().len();
        if let (Some(first), Some(last)) = (self.entry(0), self.last_entry()) {
            check_ends(self.base, first, last, whole_bytes)?;
        }
        check_length(whole_bytes, self.spare_bytes, TIME_ENTRY_LEN)
    }
}

impl<'a> IntoIterator for &TimeIndex<'a> {
    type Item = TimeEntry;
    type IntoIter = TimeEntries<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The last of `whole_bytes` of entries is neither earlier than the first nor below `base`.
pub(crate) fn check_ends(
    base: Offset,
    first: TimeEntry,
    last: TimeEntry,
    whole_bytes: usize,
) -> Result<(), Corruption> {
    let at = position_of(whole_bytes.saturating_sub(TIME_ENTRY_LEN));
    let order = |found, bound| {
        if found < bound { Err(CorruptKind::index_order(found, bound).at(at)) } else { Ok(()) }
    };
    order(last.timestamp.get(), first.timestamp.get())?;
    order(last.offset.get(), base.get())
}

/// Iterates over the entries of a [`TimeIndex`].
#[derive(Clone, Debug)]
pub struct TimeEntries<'a> {
    base: Offset,
    entries: core::slice::Iter<'a, [u8; TIME_ENTRY_LEN]>,
}

impl Iterator for TimeEntries<'_> {
    type Item = TimeEntry;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(|bytes| unpack(self.base, bytes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl ExactSizeIterator for TimeEntries<'_> {}

fn unpack(base: Offset, bytes: &[u8; TIME_ENTRY_LEN]) -> TimeEntry {
    let [h0, h1, h2, h3, l0, l1, l2, l3, r0, r1, r2, r3] = *bytes;
    let words = [[h0, h1, h2, h3], [l0, l1, l2, l3], [r0, r1, r2, r3]];
    TimeEntry::unpack(base, words.map(u32::from_be_bytes))
}
