//! The entries around a place in an offset index.

use crate::OffsetEntry;

/// What lies around an offset that was looked up, in an index whose offsets rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OffsetNeighbours {
    /// How many entries are not above the offset: the slot of [`next`](Self::next).
    pub slot: usize,
    /// The last entry that is not above the offset.
    pub floor: Option<OffsetEntry>,
    /// The entry after `floor`.
    pub next: Option<OffsetEntry>,
    /// The entry after `next`.
    pub after: Option<OffsetEntry>,
}

impl OffsetNeighbours {
    /// The neighbours where `slot` entries are not above the offset.
    pub(crate) fn at(slot: usize, entry: impl Fn(usize) -> Option<OffsetEntry>) -> Self {
        Self {
            slot,
            floor: slot.checked_sub(1).and_then(&entry),
            next: entry(slot),
            after: slot.checked_add(1).and_then(&entry),
        }
    }
}
