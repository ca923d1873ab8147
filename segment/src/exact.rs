//! Which entries of an offset index are exact, as far as somebody has seen: a read that needs no
//! more than these leaves the log alone.
//!
//! An entry is exact when one batch begins at its position, has the offsets after the entry
//! before it up to its own, and ends where the next entry points. The three entries then say all
//! that the header would. Kafka writes such entries for batches that are larger than
//! `index.interval.bytes`.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

#[cfg(all(test, loom))]
use loom::sync::atomic::AtomicU64;
#[cfg(not(all(test, loom)))]
use std::sync::atomic::AtomicU64;

use alluvium_record_format::Offset;
use alluvium_sparse_index::OffsetNeighbours;

use crate::headers::BatchAt;

/// What reads have learned of each entry of one open index, in two bits an entry.
///
/// A word is of 32 entries: a bit for each, and as many bits for the generation in which they were
/// learned: what another generation has learned does not count. An index is changed only at its
/// end as long as the generation stays, so a bit stays right, and words need no order among each
/// other. Takes nothing until a read learns something, then 24 bytes for every 8,192 entries that
/// the index has room for, or part of them, and a word for every 32 of those of which one was
/// read: a thirtieth of that room, and 32 bytes for the smallest.
#[derive(Debug, Default)]
pub(crate) struct ExactEntries {
    blocks: OnceLock<Box<[OnceLock<Box<Block>>]>>,
}

type Block = [AtomicU64];

impl ExactEntries {
    /// Whether the entry in `slot` was found to be exact in this generation.
    pub(crate) fn contains(&self, slot: usize, generation: u32) -> bool {
        let block = self.blocks.get().and_then(|blocks| blocks.get(slot / BLOCK_ENTRIES)?.get());
        let Some(block) = block else { return false };
        let (word, bit) = place(slot);
        let Some(word) = block.get(word) else { return false };
        let found = word.load(Ordering::Relaxed);
        found >> u32::BITS == u64::from(generation) && found & bit != 0
    }

    /// Remembers that the entry in `slot` is exact, of an index with room for `capacity`. What
    /// two threads learn at once may be learned by one alone.
    pub(crate) fn insert(&self, slot: usize, generation: u32, capacity: usize) {
        let make_all = || (0..capacity.div_ceil(BLOCK_ENTRIES)).map(|_| OnceLock::new()).collect();
        let blocks = self.blocks.get_or_init(make_all);
        let Some(block) = blocks.get(slot / BLOCK_ENTRIES) else { return };
        let make = || {
            let before = slot / BLOCK_ENTRIES * BLOCK_ENTRIES;
            let entries = capacity.max(slot + 1).saturating_sub(before).min(BLOCK_ENTRIES);
            (0..entries.div_ceil(WORD_ENTRIES)).map(|_| AtomicU64::new(0)).collect()
        };
        let (word, bit) = place(slot);
        let Some(word) = block.get_or_init(make).get(word) else { return };
        let found = word.load(Ordering::Relaxed);
        let tag = u64::from(generation) << u32::BITS;
        let kept = if found >> u32::BITS == u64::from(generation) { found } else { tag };
        // Another thread that came between wins.
        let _won = word.compare_exchange(found, kept | bit, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Whether the entry `near.next` is exact, now that a search for `target` found `batch`.
pub(crate) fn is_exact(near: &OffsetNeighbours, target: Offset, batch: &BatchAt) -> bool {
    let (Some(floor), Some(next), Some(after)) = (near.floor, near.next, near.after) else {
        return false;
    };
    // A search for the offset of the entry begins at the entry and does not see what lies before.
    let is_first = target < next.offset || batch.base_offset == batch.last_offset;
    is_first
        && batch.magic == 2
        && batch.position == next.position
        && batch.end() == after.position
        && floor.offset.checked_add(1) == Some(batch.base_offset)
        && batch.last_offset == next.offset
}

/// The word of an entry in its block, and its bit.
const fn place(slot: usize) -> (usize, u64) {
    let slot = slot % BLOCK_ENTRIES;
    (slot / WORD_ENTRIES, 1 << (slot % WORD_ENTRIES))
}

const WORD_ENTRIES: usize = 32;

const BLOCK_ENTRIES: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_remembered_in_its_generation_alone() {
        let exact = ExactEntries::default();
        assert!(!exact.contains(7, 0));
        exact.insert(7, 0, 10);
        assert!(exact.contains(7, 0));
        assert!(!exact.contains(6, 0) && !exact.contains(7 + 32, 0));
        assert!(!exact.contains(7, 2));
        exact.insert(8, 2, 10);
        assert!(exact.contains(8, 2));
        assert!(!exact.contains(7, 2) && !exact.contains(7, 0));
    }

    #[test]
    fn a_slot_that_the_index_had_no_room_for_is_not_remembered() {
        let exact = ExactEntries::default();
        exact.insert(1, 0, 100);
        exact.insert(BLOCK_ENTRIES, 0, 100);
        assert!(!exact.contains(BLOCK_ENTRIES, 0));
        exact.insert(128, 0, 100);
        assert!(!exact.contains(128, 0));
        exact.insert(99, 0, 100);
        assert!(exact.contains(99, 0) && exact.contains(1, 0));
    }

    #[test]
    fn an_index_takes_two_bits_for_each_entry_that_it_has_room_for() {
        let words = |capacity: usize| {
            let exact = ExactEntries::default();
            exact.insert(capacity - 1, 0, capacity);
            assert!(exact.contains(capacity - 1, 0));
            let blocks = exact.blocks.get().unwrap();
            blocks.iter().filter_map(OnceLock::get).map(|block| block.len()).sum::<usize>()
        };
        assert_eq!((words(3), words(32), words(33)), (1, 1, 2));
        assert_eq!((words(BLOCK_ENTRIES), words(BLOCK_ENTRIES + 3)), (256, 1));
    }

    /// The room of an index may have grown since, and shrinks when it is sealed.
    #[test]
    fn room_that_changes_harms_nothing() {
        let exact = ExactEntries::default();
        exact.insert(2, 0, 3);
        exact.insert(9000, 0, 10_000);
        exact.insert(50, 0, 10_000);
        exact.insert(1, 0, 2);
        assert!(exact.contains(1, 0) && exact.contains(2, 0));
        let grown = ExactEntries::default();
        grown.insert(32, 0, 32);
        assert!(grown.contains(32, 0));
        assert!(!exact.contains(50, 0) && !exact.contains(9000, 0));
    }
}
