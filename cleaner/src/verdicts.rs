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
    words: Vec<Word>,
    max_words: usize,
    base: Offset,
    /// Where the next record may lie: above the last one, up to the end of its batch.
    next: Offset,
    end: Offset,
    is_sound: bool,
}

/// 64 offsets.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    seen: u64,
    last: u64,
    tombstones: u64,
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
    /// With so much memory, which is taken as it is used.
    pub(crate) fn new(bytes: usize) -> Self {
        let max_words = bytes / size_of::<Word>();
        let zero = Offset::new(0);
        Self {
            words: Vec::with_capacity(max_words),
            max_words,
            base: zero,
            next: zero,
            end: zero,
            is_sound: true,
        }
    }

    /// Forgets all. Nothing below `base` will be known.
    pub(crate) fn clear(&mut self, base: Offset) {
        self.words.clear();
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
        if index >= self.words.len() {
            if index >= self.max_words {
                return;
            }
            self.words.resize(index + 1, Word::default());
        }
        let word = &mut self.words[index];
        word.seen |= bit;
        word.last |= if is_last { bit } else { 0 };
        word.tombstones |= if is_tombstone { bit } else { 0 };
    }

    /// A later record has the key of this one.
    #[inline]
    pub(crate) fn replaced(&mut self, offset: Offset) {
        if let Some((index, bit)) = self.place(offset)
            && let Some(word) = self.words.get_mut(index)
        {
            word.last &= !bit;
        }
    }

    /// What is known of a batch that was taken in whole.
    pub(crate) fn of(&self, header: &BatchHeader, tombstones_stay: bool) -> Option<Known> {
        let (mut seen, mut count, mut tombstones) = (0_u64, 0_u64, 0_u64);
        for word in self.words_of(header)? {
            let stay = word.last & if tombstones_stay { !0 } else { !word.tombstones };
            seen += u64::from(word.seen.count_ones());
            count += u64::from(stay.count_ones());
            tombstones |= stay & word.tombstones;
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
            let stay = word.last & if tombstones_stay { !0 } else { !word.tombstones };
            let mut left = word.seen;
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
        let (last, last_bit) = self.place(header.last_offset())?;
        let words = self.words.get(first..=last).filter(|_| self.is_sound)?;
        let len = words.len();
        Some(words.iter().enumerate().map(move |(index, word)| {
            let from = if index == 0 { !(first_bit - 1) } else { !0 };
            let to = if index + 1 == len { last_bit | (last_bit - 1) } else { !0 };
            word.only(from & to)
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
        Self {
            seen: self.seen & mask,
            last: self.last & mask,
            tombstones: self.tombstones & mask,
        }
    }
}

#[cfg(test)]
mod tests;
