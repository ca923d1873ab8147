//! The high compressor for LZ4 blocks: it follows chains of earlier places with the same four
//! bytes, and takes a longer match one byte on where there is one.

use alloc::vec;
use alloc::vec::Vec;

/// Compresses blocks of at most 64 KiB.
pub(super) struct HighCompressor {
    /// The last place of each hash. Places that are not set are 0, and harmless: bytes are
    /// compared before a match is believed.
    heads: Vec<u16>,
    /// For each place, the one before it with the same hash.
    chain: Vec<u16>,
    /// The first place that is not in the tables.
    next: usize,
    attempts: u32,
}

/// A place that repeats an earlier one.
#[derive(Clone, Copy)]
struct Match {
    at: usize,
    from: usize,
    len: usize,
}

impl HighCompressor {
    /// One that looks at twice as many earlier places with each level, up to level 12.
    pub(super) fn new(level: i32) -> Self {
        let doublings = u32::try_from(level).unwrap_or(1).clamp(2, 12).saturating_sub(1);
        let attempts = 1_u32.checked_shl(doublings).unwrap_or(1);
        Self { heads: vec![0; 1 << HASH_BITS], chain: vec![0; BLOCK_LEN], next: 0, attempts }
    }

    /// Appends the compressed `block` to `out`.
    pub(super) fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) {
        self.heads.fill(0);
        self.next = 0;
        let mut anchor = 0;
        while let Some(found) = self.next_match(block, anchor) {
            let found = extend_back(block, found, anchor);
            let literals = block.get(anchor..found.at).unwrap_or_default();
            sequence(literals, Some(found), out);
            anchor = found.at.saturating_add(found.len);
        }
        sequence(block.get(anchor..).unwrap_or_default(), None, out);
    }

    /// The next match from `from` on.
    fn next_match(&mut self, block: &[u8], from: usize) -> Option<Match> {
        let last = block.len().checked_sub(MIN_LEFT_AT_MATCH)?;
        let mut best = (from..=last).find_map(|at| self.longest(block, at))?;
        while best.at < last {
            match self.longest(block, best.at.saturating_add(1)) {
                Some(longer) if longer.len > best.len => best = longer,
                _ => break,
            }
        }
        Some(best)
    }

    /// The longest match at `at` among the earlier places that are tried.
    fn longest(&mut self, block: &[u8], at: usize) -> Option<Match> {
        self.insert_before(block, at);
        let ahead = block.get(at..block.len().checked_sub(LAST_LITERALS)?)?;
        let mut best = Match { at, from: 0, len: MIN_MATCH.saturating_sub(1) };
        let mut from = usize::from(*self.heads.get(hash(ahead)?)?);
        for _ in 0..self.attempts {
            if from >= at {
                break;
            }
            let behind = block.get(from..)?;
            // A longer match also has the byte that ends the best one.
            if behind.get(best.len) == ahead.get(best.len) {
                let len = common_len(behind, ahead);
                if len > best.len {
                    best = Match { at, from, len };
                }
            }
            let before = usize::from(*self.chain.get(from)?);
            if before >= from || best.len == ahead.len() {
                break;
            }
            from = before;
        }
        (best.len >= MIN_MATCH).then_some(best)
    }

    /// Puts the places below `end` into the tables.
    fn insert_before(&mut self, block: &[u8], end: usize) {
        for at in self.next..end {
            let Some(hash) = block.get(at..).and_then(hash) else { break };
            let head = self.heads.get_mut(hash);
            let (Some(head), Some(link)) = (head, self.chain.get_mut(at)) else { break };
            *link = *head;
            *head = u16::try_from(at).unwrap_or(0);
        }
        self.next = self.next.max(end);
    }
}

/// The match with what is equal before it, down to `anchor`.
fn extend_back(block: &[u8], found: Match, anchor: usize) -> Match {
    let literals = block.get(anchor..found.at).unwrap_or_default();
    let behind = block.get(..found.from).unwrap_or_default();
    let equal = literals.iter().rev().zip(behind.iter().rev()).take_while(|(a, b)| a == b);
    let more = equal.count();
    Match {
        at: found.at.saturating_sub(more),
        from: found.from.saturating_sub(more),
        len: found.len.saturating_add(more),
    }
}

/// Bytes that both begin with.
fn common_len(behind: &[u8], ahead: &[u8]) -> usize {
    let mut len = 0_usize;
    let (behind_words, _) = behind.as_chunks::<8>();
    let (ahead_words, _) = ahead.as_chunks::<8>();
    for (a, b) in behind_words.iter().zip(ahead_words) {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            let equal = usize::try_from(differing.trailing_zeros() / 8).unwrap_or(0);
            return len.saturating_add(equal);
        }
        len = len.saturating_add(8);
    }
    let (behind, ahead) = (behind.get(len..), ahead.get(len..));
    let rest = behind.unwrap_or_default().iter().zip(ahead.unwrap_or_default());
    len.saturating_add(rest.take_while(|(a, b)| a == b).count())
}

/// Appends literals, and the match behind them.
fn sequence(literals: &[u8], found: Option<Match>, out: &mut Vec<u8>) {
    let match_len = found.map_or(0, |found| found.len.saturating_sub(MIN_MATCH));
    let nibble = |len: usize| u8::try_from(len).map_or(15, |len| len.min(15));
    out.push(nibble(literals.len()) << 4 | nibble(match_len));
    extra_len(literals.len(), out);
    out.extend_from_slice(literals);
    if let Some(found) = found {
        let distance = u16::try_from(found.at.saturating_sub(found.from)).unwrap_or(0);
        out.extend_from_slice(&distance.to_le_bytes());
        extra_len(match_len, out);
    }
}

/// What a length has beyond the 15 of its nibble: 255s and a byte below.
fn extra_len(len: usize, out: &mut Vec<u8>) {
    let Some(mut rest) = len.checked_sub(15) else { return };
    while let Some(less) = rest.checked_sub(255) {
        out.push(255);
        rest = less;
    }
    out.push(u8::try_from(rest).unwrap_or(0));
}

/// Of the first four bytes.
fn hash(bytes: &[u8]) -> Option<usize> {
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    usize::try_from(word.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)).ok()
}

const BLOCK_LEN: usize = 64 << 10;
const HASH_BITS: u32 = 15;
const MIN_MATCH: usize = 4;

/// A block ends with literals, and no match begins in its last twelve bytes.
const LAST_LITERALS: usize = 5;
const MIN_LEFT_AT_MATCH: usize = 12;
