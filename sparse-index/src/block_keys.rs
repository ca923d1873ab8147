//! The first offset of every block of a large index, close at hand.
//!
//! A binary search in a large mapped file waits for memory at nearly every probe: its pages lie
//! scattered, and most of its lines are in no cache. With the first offset of each block in an
//! array of a 64th of the size, a look-up goes to one block alone, and reads that with probes
//! that do not wait for one another.

use core::sync::atomic::{AtomicU64, Ordering};
use std::ops::Range;
use std::sync::OnceLock;

use zerocopy::FromZeros;

use crate::map::View;

/// Entries of a block: 512 bytes, eight cache lines.
const BLOCK_ENTRIES: usize = 1 << BLOCK_SHIFT;

const BLOCK_SHIFT: u32 = 6;

/// The keys of blocks that look-ups have met so far. Takes no memory before the first of them.
///
/// A slot holds the relative offset of the first entry of a block, and in the high half how
/// often entries had been taken back when it was read. A slot of another time counts as empty,
/// so that the writer need not know of all this.
#[derive(Debug)]
pub(crate) struct BlockKeys {
    slots: OnceLock<Box<[AtomicU64]>>,
    blocks: usize,
}

impl BlockKeys {
    /// Keys for an index of at most `max_entries`.
    pub(crate) const fn new(max_entries: usize) -> Self {
        Self { slots: OnceLock::new(), blocks: max_entries.div_ceil(BLOCK_ENTRIES) }
    }

    /// The block with the last of the entries whose relative offset is not above `target`; the
    /// first block where there is none.
    pub(crate) fn find(&self, view: &View<'_>, target: i64) -> Range<usize> {
        let entries = view.words64().len();
        let slots = self.slots.get_or_init(|| zeros(self.blocks));
        let mut rest = slots.get(..entries.div_ceil(BLOCK_ENTRIES)).unwrap_or_default();
        let mut block = 0_usize;
        while rest.len() > 1 {
            let (left, right) = rest.split_at(rest.len() / 2);
            let middle = block.saturating_add(left.len());
            let is_right =
                right.first().is_some_and(|slot| first_key(view, slot, middle) <= target);
            (block, rest) = if is_right { (middle, right) } else { (block, left) };
        }
        let start = block << BLOCK_SHIFT;
        start..start.saturating_add(BLOCK_ENTRIES).min(entries)
    }
}

/// How many of the words of one block are not above `target`: `is_not_above` holds for those in
/// front. Looks at each eighth word first, then at the eight behind: no probe waits for another.
pub(crate) fn count_in_block(
    block: &[AtomicU64],
    is_not_above: impl Fn(&AtomicU64) -> bool,
) -> usize {
    let (lines, rest) = block.as_chunks::<8>();
    let full = lines.iter().filter(|[.., last]| is_not_above(last)).count();
    let line = lines.get(full).map_or(rest, <[_; 8]>::as_slice);
    let in_line = line.iter().filter(|word| is_not_above(word)).count();
    full.saturating_mul(8).saturating_add(in_line)
}

/// The relative offset of the first entry of block `block`, whose slot is `slot`.
fn first_key(view: &View<'_>, slot: &AtomicU64, block: usize) -> i64 {
    let (times_taken_back, key) = halves(slot.load(Ordering::Relaxed));
    if times_taken_back == view.times_taken_back() && key != 0 {
        return i64::from(key.cast_signed());
    }
    read_key(view, slot, block)
}

#[cold]
fn read_key(view: &View<'_>, slot: &AtomicU64, block: usize) -> i64 {
    let Some(word) = view.words64().get(block << BLOCK_SHIFT) else { return i64::MAX };
    let (key, _position) = halves(u64::from_be(word.load(Ordering::Relaxed)));
    // Else the word may be of a later time than the view.
    if view.is_unchanged() {
        let high = u64::from(view.times_taken_back()) << u32::BITS;
        slot.store(high | u64::from(key), Ordering::Relaxed);
    }
    i64::from(key.cast_signed())
}

const fn halves(word: u64) -> (u32, u32) {
    let [h0, h1, h2, h3, l0, l1, l2, l3] = word.to_be_bytes();
    (u32::from_be_bytes([h0, h1, h2, h3]), u32::from_be_bytes([l0, l1, l2, l3]))
}

/// Memory that the system hands out page by page, as it is used.
fn zeros(len: usize) -> Box<[AtomicU64]> {
    <[AtomicU64]>::new_box_zeroed_with_elems(len).unwrap_or_default()
}
