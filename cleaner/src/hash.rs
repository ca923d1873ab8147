//! The keyed hash of record keys, of 128 bits.

use std::fmt;

/// Hashes with a secret of its own, so that nobody can choose keys that collide.
///
/// Keys of up to 64 bytes are hashed by multiplication: the sum of their words and their length,
/// each times a secret number of 128 bits, of which the upper half is taken; twice, with secrets
/// of their own. That is strongly universal: any two keys agree in `b` bits of the hash with a
/// probability of `2^-b`. It takes a fifth of the time of `SipHash`, which longer keys get:
/// `SipHash-1-3` with the 128-bit output of its reference implementation.
///
/// Source: "Strongly universal string hashing is fast" by Lemire and Kaser (multilinear).
pub(crate) struct KeyHasher {
    k0: u64,
    k1: u64,
    start: Factors,
    length: Factors,
    words: [Factors; KeyHasher::SHORT_BYTES / 8],
    tail: Factors,
}

/// What a word is multiplied by, for each half of the hash.
#[derive(Clone, Copy)]
struct Factors(u128, u128);

impl KeyHasher {
    pub(crate) fn new(k0: u64, k1: u64) -> Self {
        let mut drawn = 0_u64;
        let mut number = || {
            drawn += 1;
            let (low, high) = sip::<2, 4>(k0, k1, &drawn.to_le_bytes());
            u128::from(high) << 64 | u128::from(low)
        };
        let mut factors = || Factors(number(), number());
        Self {
            k0,
            k1,
            start: factors(),
            length: factors(),
            words: std::array::from_fn(|_| factors()),
            tail: factors(),
        }
    }

    /// Begins the hash of a key that comes in pieces, and is longer than
    /// [`SHORT_BYTES`](Self::SHORT_BYTES).
    pub(crate) const fn begin(&self) -> LongHash {
        LongHash { state: State::new(self.k0, self.k1), tail: [0; 8], len: 0 }
    }

    /// The longest key that is hashed by multiplication.
    pub(crate) const SHORT_BYTES: usize = 64;

    /// Both halves of the hash of `key`.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> (u64, u64) {
        if key.len() > Self::SHORT_BYTES {
            return sip::<1, 3>(self.k0, self.k1, key);
        }
        let mut sum = self.start;
        sum.add(&self.length, key.len() as u64);
        let (words, tail) = key.as_chunks::<8>();
        for (word, factors) in words.iter().zip(&self.words) {
            sum.add(factors, u64::from_le_bytes(*word));
        }
        if !tail.is_empty() {
            sum.add(&self.tail, last_word(key));
        }
        let upper = |half: u128| u64::try_from(half >> 64).unwrap_or(0);
        (upper(sum.0), upper(sum.1))
    }
}

impl Factors {
    #[inline]
    fn add(&mut self, factors: &Self, word: u64) {
        self.0 = self.0.wrapping_add(factors.0.wrapping_mul(word.into()));
        self.1 = self.1.wrapping_add(factors.1.wrapping_mul(word.into()));
    }
}

/// The last eight bytes, or all of a shorter key. Keys of one length that differ in bytes behind
/// their whole words differ here.
#[inline]
fn last_word(key: &[u8]) -> u64 {
    if let Some(last) = key.last_chunk() {
        return u64::from_le_bytes(*last);
    }
    if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
        return u64::from(u32::from_le_bytes(*last)) << 32 | u64::from(u32::from_le_bytes(*first));
    }
    key.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The hash of a long key, as far as it has come.
#[derive(Clone, Copy)]
pub(crate) struct LongHash {
    state: State,
    /// The last bytes that are no whole word, and zeros.
    tail: [u8; 8],
    len: usize,
}

impl LongHash {
    /// Takes in the next piece of the key.
    pub(crate) fn update(&mut self, piece: &[u8]) {
        let held = self.len % 8;
        self.len = self.len.wrapping_add(piece.len());
        let (head, rest) = piece.split_at(piece.len().min((8 - held) % 8));
        self.tail[held..held + head.len()].copy_from_slice(head);
        if held > 0 {
            if held + head.len() < 8 {
                return;
            }
            self.word(self.tail);
        }
        let (words, tail) = rest.as_chunks::<8>();
        for word in words {
            self.word(*word);
        }
        self.tail = [0; 8];
        self.tail[..tail.len()].copy_from_slice(tail);
    }

    /// What [`KeyHasher::hash`] gives for the whole key.
    pub(crate) fn finish(self) -> (u64, u64) {
        self.state.end::<1, 3>(self.tail, self.len)
    }

    const fn word(&mut self, word: [u8; 8]) {
        self.state.word(u64::from_le_bytes(word), 1);
    }
}

#[derive(Clone, Copy)]
struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    const fn new(k0: u64, k1: u64) -> Self {
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    /// Both halves of the hash of `len` bytes, of which `tail` is no whole word.
    #[inline]
    fn end<const WORD: usize, const END: usize>(mut self, tail: [u8; 8], len: usize) -> (u64, u64) {
        let [low, ..] = len.to_le_bytes();
        let [rest @ .., _] = tail;
        let mut last = [0; 8];
        last[..7].copy_from_slice(&rest);
        last[7] = low;
        self.word(u64::from_le_bytes(last), WORD);
        self.v2 ^= 0xee;
        self.rounds(END);
        let first = self.output();
        self.v1 ^= 0xdd;
        self.rounds(END);
        (first, self.output())
    }

    const fn rounds(&mut self, count: usize) {
        let mut done = 0;
        while done < count {
            self.v0 = self.v0.wrapping_add(self.v1);
            self.v2 = self.v2.wrapping_add(self.v3);
            self.v1 = self.v1.rotate_left(13) ^ self.v0;
            self.v3 = self.v3.rotate_left(16) ^ self.v2;
            self.v0 = self.v0.rotate_left(32);
            self.v2 = self.v2.wrapping_add(self.v1);
            self.v0 = self.v0.wrapping_add(self.v3);
            self.v1 = self.v1.rotate_left(17) ^ self.v2;
            self.v3 = self.v3.rotate_left(21) ^ self.v0;
            self.v2 = self.v2.rotate_left(32);
            done += 1;
        }
    }

    const fn word(&mut self, word: u64, rounds: usize) {
        self.v3 ^= word;
        self.rounds(rounds);
        self.v0 ^= word;
    }

    const fn output(&self) -> u64 {
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

#[inline]
fn sip<const WORD: usize, const END: usize>(k0: u64, k1: u64, key: &[u8]) -> (u64, u64) {
    let mut state = State::new(k0, k1);
    let (words, tail) = key.as_chunks::<8>();
    for word in words {
        state.word(u64::from_le_bytes(*word), WORD);
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    state.end::<WORD, END>(last, key.len())
}

impl fmt::Debug for LongHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LongHash").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{KeyHasher, sip};

    /// From the reference implementation of SipHash-2-4 with 128 bits, key 00 01 .. 0f.
    #[test]
    fn the_rounds_are_those_of_the_reference_vectors() {
        let k0 = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]);
        let k1 = u64::from_le_bytes([8, 9, 10, 11, 12, 13, 14, 15]);
        let bytes = |input: &[u8]| {
            let (first, second) = sip::<2, 4>(k0, k1, input);
            [first.to_le_bytes(), second.to_le_bytes()].concat()
        };
        let empty = [
            0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55,
            0x02, 0x93,
        ];
        assert_eq!(bytes(&[]), empty);
        let one = [
            0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22,
            0xfc, 0x45,
        ];
        assert_eq!(bytes(&[0]), one);
    }

    #[test]
    fn keys_of_any_length_that_differ_in_one_bit_or_by_a_zero_differ_in_both_halves() {
        let hasher = KeyHasher::new(7, 9);
        let (mut first, mut second, mut count) = (HashSet::new(), HashSet::new(), 0);
        for len in 0..KeyHasher::SHORT_BYTES + 9 {
            for bit in 0..=8 * len {
                let mut key = vec![0; len];
                if bit < 8 * len {
                    key[bit / 8] = 1 << (bit % 8);
                }
                let hash = hasher.hash(&key);
                first.insert(hash.0);
                second.insert(hash.1);
                count += 1;
            }
        }
        assert_eq!((first.len(), second.len()), (count, count));
    }

    #[test]
    fn a_key_in_pieces_has_the_hash_of_the_whole() {
        let hasher = KeyHasher::new(7, 9);
        let key: Vec<u8> = (0..200).collect();
        let hash = |pieces: [&[u8]; 3]| {
            let mut hash = hasher.begin();
            for piece in pieces {
                hash.update(piece);
            }
            hash.finish()
        };
        for len in [65, 66, 71, 72, 73, 100, 200] {
            let cuts = (0..=len).flat_map(|to| (0..=to).step_by(3).map(move |from| (from, to)));
            for (from, to) in cuts {
                let pieces = [&key[..from], &key[from..to], &key[to..len]];
                assert_eq!(hash(pieces), hasher.hash(&key[..len]), "{from} {to} {len}");
            }
        }
    }

    #[test]
    fn another_secret_gives_other_hashes() {
        let [one, other] = [KeyHasher::new(1, 2), KeyHasher::new(1, 3)];
        for len in [0, 1, 12, 64, 65] {
            let key = vec![b'k'; len];
            assert_ne!(one.hash(&key).0, other.hash(&key).0);
            assert_ne!(one.hash(&key).1, other.hash(&key).1);
        }
    }
}
