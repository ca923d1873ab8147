//! A bit for each record of a batch.

/// Bits in a row. A batch may count millions of records whose bytes nobody holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// Drops all bits, and what a rare large batch took.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.words.shrink_to(KEPT_WORDS);
        self.len = 0;
    }

    #[inline]
    pub(crate) fn push(&mut self, bit: bool) {
        let at = self.len % 64;
        if at == 0 {
            self.words.push(0);
        }
        if let Some(word) = self.words.last_mut() {
            *word |= u64::from(bit) << at;
        }
        self.len += 1;
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        let bits = self.words.iter().flat_map(|word| (0..64).map(move |at| word >> at & 1 != 0));
        bits.take(self.len)
    }
}

/// Words whose memory is kept: a million bits.
const KEPT_WORDS: usize = (1 << 20) / 64;

#[cfg(test)]
mod tests {
    use super::{Bits, KEPT_WORDS};

    #[test]
    fn what_is_pushed_comes_back_in_order() {
        let mut bits = Bits::default();
        for count in [0, 1, 63, 64, 65, 200] {
            bits.clear();
            let pushed: Vec<bool> = (0..count).map(|at| at % 3 == 0 || at % 7 == 1).collect();
            for bit in &pushed {
                bits.push(*bit);
            }
            assert_eq!(bits.iter().collect::<Vec<_>>(), pushed);
        }
    }

    #[test]
    fn the_memory_of_a_rare_large_batch_is_given_back() {
        let mut bits = Bits::default();
        (0..3 << 20).for_each(|at| bits.push(at % 2 == 0));
        assert!(bits.words.capacity() > KEPT_WORDS);
        bits.clear();
        assert!(bits.words.capacity() <= KEPT_WORDS, "{}", bits.words.capacity());
    }
}
