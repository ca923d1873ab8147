//! A bit for each record of a batch.

/// Bits in a row. A batch may count millions of records whose bytes nobody holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    pub(crate) fn clear(&mut self) {
        self.words.clear();
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

#[cfg(test)]
mod tests {
    use super::Bits;

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
}
