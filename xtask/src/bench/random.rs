//! Numbers that look random and are the same every time.

/// Xorshift of 64 bits.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// `seed` is not 0.
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(super) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next number below `bound`.
    pub(super) const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Puts the items in an order of which each is about as likely.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for (bound, last) in (2..).zip(1..items.len()) {
            let other = usize::try_from(self.below(bound)).expect("below a length");
            items.swap(last, other);
        }
    }

    /// Bytes that no codec shortens.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.next().to_be_bytes()[0];
        }
    }
}
