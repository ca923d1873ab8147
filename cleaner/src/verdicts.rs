//! What the first walk found of each offset, so that the second need not look at keys again.

use alluvium_record_format::{BatchHeader, Offset};

/// Three bits for each offset of the dirty part, as far as their memory reaches: whether the
/// first walk took the record in, whether no later one has its key, whether it is a tombstone.
///
/// A record that the map was asked about stays in the second walk if it is the last of its key,
/// which is known here after the first. So batches that lose all records or none need not be
/// inflated, and no key is hashed twice.
///
/// What is not known for sure counts as unknown: offsets that do not rise, or lie outside their
/// batch, make all of it unknown.
#[derive(Debug)]
pub(crate) struct Verdicts {
    /// 64 offsets a word. The last of their keys stand apart: those are changed in no order.
    last: Vec<u64>,
    taken: Vec<Taken>,
    max_words: usize,
    base: Offset,
    /// Where the next record may lie: above the last one, up to the end of its batch.
    next: Offset,
    end: Offset,
    is_sound: bool,
}

/// The records among 64 offsets.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    seen: u64,
    tombstones: u64,
}

/// All that is known of 64 offsets.
#[derive(Clone, Copy, Debug)]
struct Word {
    taken: Taken,
    last: u64,
}

/// What is known of the records of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// How many stay.
    pub(crate) count: u64,
    /// A tombstone is among those that stay.
    pub(crate) has_tombstone: bool,
}

impl Verdicts {
    /// With so much memory, which is taken as it is used; with none if the system has no room.
    pub(crate) fn new(bytes: usize) -> Self {
        let max_words = bytes / (size_of::<u64>() + size_of::<Taken>());
        let (mut last, mut taken) = (Vec::new(), Vec::new());
        let has_room =
            last.try_reserve_exact(max_words).is_ok() && taken.try_reserve_exact(max_words).is_ok();
        let zero = Offset::new(0);
        Self {
            last,
            taken,
            max_words: if has_room { max_words } else { 0 },
            base: zero,
            next: zero,
            end: zero,
            is_sound: true,
        }
    }

    /// Forgets all. Nothing below `base` will be known.
    pub(crate) fn clear(&mut self, base: Offset) {
        self.last.clear();
        self.taken.clear();
        (self.base, self.next, self.is_sound) = (base, base, true);
    }

    /// The records that are noted next are of this batch.
    pub(crate) fn begin_batch(&mut self, header: &BatchHeader) {
        let (first, last) = (header.base_offset(), header.last_offset());
        self.is_sound &= first >= self.next || first < self.base;
        (self.next, self.end) = (self.next.max(first), last);
    }

    /// Takes in a record; `is_last` as of now.
    #[inline]
    pub(crate) fn note(&mut self, offset: Offset, is_last: bool, is_tombstone: bool) {
        self.is_sound &= (self.next..=self.end).contains(&offset);
        self.next = Offset::new(offset.get().saturating_add(1));
        let Some((index, bit)) = self.place(offset) else { return };
        if index >= self.taken.len() {
            if index >= self.max_words {
                return;
            }
            self.last.resize(index + 1, 0);
            self.taken.resize(index + 1, Taken::default());
        }
        self.last[index] |= if is_last { bit } else { 0 };
        let taken = &mut self.taken[index];
        taken.seen |= bit;
        taken.tombstones |= if is_tombstone { bit } else { 0 };
    }

    /// Later records have the keys of these.
    ///
    /// Some at a time are faster than each where it is found: then reads of memory overlap.
    pub(crate) fn replaced(&mut self, offsets: impl IntoIterator<Item = Offset>) {
        for offset in offsets {
            if let Some((index, bit)) = self.place(offset)
                && let Some(last) = self.last.get_mut(index)
            {
                *last &= !bit;
            }
        }
    }

    /// What is known of a batch that was taken in whole.
    pub(crate) fn of(&self, header: &BatchHeader, tombstones_stay: bool) -> Option<Known> {
        let (mut seen, mut count, mut tombstones) = (0_u64, 0_u64, 0_u64);
        for word in self.words_of(header)? {
            let stay = word.stay(tombstones_stay);
            seen += u64::from(word.taken.seen.count_ones());
            count += u64::from(stay.count_ones());
            tombstones |= stay & word.taken.tombstones;
        }
        let is_whole = u64::try_from(header.record_count()).is_ok_and(|records| records == seen);
        is_whole.then_some(Known { count, has_tombstone: tombstones != 0 })
    }

    /// Calls `visit` for each record of a batch that is known, in order, with whether it stays.
    pub(crate) fn each(
        &self,
        header: &BatchHeader,
        tombstones_stay: bool,
        mut visit: impl FnMut(bool),
    ) {
        for word in self.words_of(header).into_iter().flatten() {
            let stay = word.stay(tombstones_stay);
            let mut left = word.taken.seen;
            while left != 0 {
                let bit = left & left.wrapping_neg();
                visit(stay & bit != 0);
                left &= left - 1;
            }
        }
    }

    /// The words of a batch, without the bits that are not its own; `None` where they are not
    /// all to be had.
    fn words_of(&self, header: &BatchHeader) -> Option<impl Iterator<Item = Word> + '_> {
        let (first, first_bit) = self.place(header.base_offset())?;
        let (end, end_bit) = self.place(header.last_offset())?;
        let taken = self.taken.get(first..=end).filter(|_| self.is_sound)?;
        let last = self.last.get(first..=end)?;
        let len = taken.len();
        Some(taken.iter().zip(last).enumerate().map(move |(index, (taken, last))| {
            let from = if index == 0 { !(first_bit - 1) } else { !0 };
            let to = if index + 1 == len { end_bit | (end_bit - 1) } else { !0 };
            Word { taken: *taken, last: *last }.only(from & to)
        }))
    }

    #[inline]
    fn place(&self, offset: Offset) -> Option<(usize, u64)> {
        let relative = u64::try_from(offset.get().checked_sub(self.base.get())?).ok()?;
        Some((usize::try_from(relative / 64).ok()?, 1 << (relative % 64)))
    }
}

impl Word {
    const fn only(self, mask: u64) -> Self {
        let Taken { seen, tombstones } = self.taken;
        let taken = Taken { seen: seen & mask, tombstones: tombstones & mask };
        Self { taken, last: self.last & mask }
    }

    const fn stay(self, tombstones_stay: bool) -> u64 {
        if tombstones_stay { self.last } else { self.last & !self.taken.tombstones }
    }
}

#[cfg(test)]
mod tests;
