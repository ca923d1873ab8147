//! A read-only view over the bytes of a transaction index.
//! Format: `docs/format/transaction-index.md`.

use alluvium_record_format::{CorruptKind, Corruption, Offset, Position};

use crate::AbortedTxn;
use crate::entry::{StoredTxn, TXN_ENTRY_LEN};
use crate::offset_index::position_of;

/// A transaction index in memory, borrowed.
///
/// A tail shorter than an entry, as a torn write leaves it, is left out:
/// [`spare_bytes`](Self::spare_bytes) tells.
#[derive(Clone, Copy, Debug)]
pub struct TransactionIndex<'a> {
    base: Offset,
    entries: &'a [[u8; TXN_ENTRY_LEN]],
    spare_bytes: usize,
}

impl<'a> TransactionIndex<'a> {
    /// Bytes of one entry.
    pub const ENTRY_LEN: usize = TXN_ENTRY_LEN;

    /// A view over the whole file of the segment with base offset `base`.
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

    /// Number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The bytes behind the last whole entry, 0 to 33.
    #[must_use]
    pub const fn spare_bytes(&self) -> usize {
        self.spare_bytes
    }

    /// The entry in slot `index`, from 0; `None` behind the last.
    ///
    /// # Errors
    ///
    /// `IndexVersion` where the entry is not of version 0.
    pub fn entry(&self, index: usize) -> Result<Option<AbortedTxn>, Corruption> {
        let Some(bytes) = self.entries.get(index) else { return Ok(None) };
        let at = position_of(index.saturating_mul(TXN_ENTRY_LEN));
        parse(bytes, at).map(Some)
    }

    /// The last entry.
    ///
    /// # Errors
    ///
    /// `IndexVersion` where it is not of version 0.
    pub fn last_entry(&self) -> Result<Option<AbortedTxn>, Corruption> {
        self.len().checked_sub(1).map_or(Ok(None), |last| self.entry(last))
    }

    /// Iterates over the entries. Ends after the first error.
    #[must_use]
    pub const fn iter(&self) -> AbortedTxns<'a> {
        AbortedTxns { entries: self.entries, position: Position::new(0) }
    }

    /// Collects the aborted transactions that touch the offsets `fetch_offset..upper_bound`.
    ///
    /// The list holds more than is needed: a reader drops what a listed producer wrote from the
    /// first offset until its ABORT marker. Where [`CollectedTxns::is_complete`] is false, go on
    /// with the index of the next segment. Cost: O(n).
    ///
    /// Source: `TransactionIndex.collectAbortedTxns` in Kafka;
    /// `docs/format/transaction-index.md#collect`.
    ///
    /// # Errors
    ///
    /// `IndexVersion` where an entry that is looked at is not of version 0.
    pub fn collect(
        &self,
        fetch_offset: Offset,
        upper_bound: Offset,
    ) -> Result<CollectedTxns, Corruption> {
        let mut collected = CollectedTxns { txns: Vec::new(), is_complete: false };
        for txn in self {
            if collected.add(txn?, fetch_offset, upper_bound) {
                break;
            }
        }
        Ok(collected)
    }

    /// Kafka's check, which it runs whenever it opens a segment: no entry ends below the base
    /// offset. Cost: O(n).
    ///
    /// # Errors
    ///
    /// `IndexOrder` or `IndexVersion` at the first bad entry.
    pub fn sanity_check(&self) -> Result<(), Corruption> {
        for (index, txn) in self.iter().enumerate() {
            let found = txn?.last_offset;
            if found < self.base {
                let at = position_of(index.saturating_mul(TXN_ENTRY_LEN));
                return Err(CorruptKind::index_order(found.get(), self.base.get()).at(at));
            }
        }
        Ok(())
    }
}

impl<'a> IntoIterator for &TransactionIndex<'a> {
    type Item = Result<AbortedTxn, Corruption>;
    type IntoIter = AbortedTxns<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterates over the entries of a [`TransactionIndex`]. Ends after the first error.
#[derive(Clone, Debug)]
pub struct AbortedTxns<'a> {
    entries: &'a [[u8; TXN_ENTRY_LEN]],
    position: Position,
}

impl Iterator for AbortedTxns<'_> {
    type Item = Result<AbortedTxn, Corruption>;

    fn next(&mut self) -> Option<Self::Item> {
        let (first, rest) = self.entries.split_first()?;
        let txn = parse(first, self.position);
        self.entries = if txn.is_ok() { rest } else { &[] };
        self.position = self.position.saturating_add_len(TXN_ENTRY_LEN);
        Some(txn)
    }
}

/// What a transaction index knows of a range of offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectedTxns {
    /// The transactions, in the order of their markers.
    pub txns: Vec<AbortedTxn>,
    /// Whether no later segment can hold more of the range.
    pub is_complete: bool,
}

impl CollectedTxns {
    /// Takes `txn` in where it touches the range. Returns whether the search ends with it.
    pub(crate) fn add(
        &mut self,
        txn: AbortedTxn,
        fetch_offset: Offset,
        upper_bound: Offset,
    ) -> bool {
        if txn.last_offset >= fetch_offset && txn.first_offset < upper_bound {
            self.txns.push(txn);
        }
        self.is_complete = txn.last_stable_offset >= upper_bound;
        self.is_complete
    }
}

fn parse(bytes: &[u8; TXN_ENTRY_LEN], at: Position) -> Result<AbortedTxn, Corruption> {
    let stored: &StoredTxn = zerocopy::transmute_ref!(bytes);
    match stored.version() {
        0 => Ok(stored.txn()),
        found => Err(CorruptKind::index_version(found).at(at)),
    }
}
