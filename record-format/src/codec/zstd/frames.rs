//! Walks the frame and block headers of a payload, without decompressing anything.

/// What the headers of whole frames say about their content.
#[derive(Clone, Copy, Default)]
pub(super) struct Frames {
    /// The most bytes that the blocks can inflate to.
    pub(super) bound: usize,
    /// What the frames that name their size come to.
    pub(super) named: u64,
    /// Whether each frame with content names its size.
    pub(super) all_named: bool,
}

/// Walks over `input`: `None` where it is not a row of whole frames, or asks for a window or
/// dictionary that a reader will not have.
pub(super) fn walk(input: &[u8]) -> Option<Frames> {
    let mut rest = input;
    let mut sum = Frames { all_named: true, ..Frames::default() };
    while !rest.is_empty() {
        let (magic, after) = rest.split_first_chunk()?;
        let magic = u32::from_le_bytes(*magic);
        rest = if magic & !0xf == SKIPPABLE_MAGIC {
            let (len, after) = after.split_first_chunk()?;
            after.get(usize::try_from(u32::from_le_bytes(*len)).ok()?..)?
        } else if magic == MAGIC {
            frame(after, &mut sum)?
        } else {
            return None;
        };
    }
    Some(sum)
}

/// One frame behind its magic: adds its content to `sum`, returns the bytes after it.
fn frame<'b>(bytes: &'b [u8], sum: &mut Frames) -> Option<&'b [u8]> {
    let (&descriptor, rest) = bytes.split_first()?;
    let single_segment = descriptor & 0x20 != 0;
    let (window, rest) = if single_segment {
        (None, rest)
    } else {
        let (&window, rest) = rest.split_first()?;
        (Some(window_len(window)?), rest)
    };
    let dictionary_len = match descriptor & 3 {
        3 => 4,
        len => usize::from(len),
    };
    let (dictionary, rest) = rest.split_at_checked(dictionary_len)?;
    let content_len_len = match (descriptor >> 6, single_segment) {
        (0, false) => 0,
        (0, true) => 1,
        (1, _) => 2,
        (2, _) => 4,
        _ => 8,
    };
    let (content_len, rest) = rest.split_at_checked(content_len_len)?;
    match content_len_of(content_len) {
        Some(len) => sum.named = sum.named.saturating_add(len),
        None => sum.all_named = false,
    }
    let window = window.or(content_len_of(content_len))?;
    let reserved = descriptor & 0x08 != 0;
    if reserved || window > MAX_WINDOW || dictionary.iter().any(|byte| *byte != 0) {
        return None;
    }
    let max_block = usize::try_from(window).ok()?.min(MAX_BLOCK);
    let (bound, rest) = blocks(rest, max_block)?;
    sum.bound = sum.bound.saturating_add(bound);
    let checksum_len = if descriptor & 0x04 == 0 { 0 } else { 4 };
    rest.get(checksum_len..)
}

/// The blocks of a frame: the bound on their content, and the bytes after them.
fn blocks(bytes: &[u8], max_block: usize) -> Option<(usize, &[u8])> {
    let mut rest = bytes;
    let mut bound = 0_usize;
    loop {
        let (&[b0, b1, b2], after) = rest.split_first_chunk()?;
        let word = u32::from_le_bytes([b0, b1, b2, 0]);
        let len = usize::try_from(word >> 3).ok()?;
        let (stored_len, content_len) = match (word >> 1) & 3 {
            0 => (len, len),
            1 => (1, len),
            2 if len > 0 => (len, max_block),
            _ => return None,
        };
        if len > max_block {
            return None;
        }
        bound = bound.saturating_add(content_len);
        rest = after.get(stored_len..)?;
        if word & 1 == 1 {
            return Some((bound, rest));
        }
    }
}

/// Bytes of the window that a descriptor asks for.
fn window_len(descriptor: u8) -> Option<u64> {
    let base = 1_u64.checked_shl(u32::from(descriptor >> 3).checked_add(10)?)?;
    base.checked_add((base >> 3).checked_mul(u64::from(descriptor & 7))?)
}

/// The content size field: little-endian, and 256 more than stored where it has two bytes.
fn content_len_of(field: &[u8]) -> Option<u64> {
    let raw = field.iter().rev().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    match field.len() {
        0 => None,
        2 => Some(raw.saturating_add(256)),
        _ => Some(raw),
    }
}

const MAGIC: u32 = 0xfd2f_b528;
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;

/// A window of 2^27, as in the reference library's default, and its one byte of grace.
const MAX_WINDOW: u64 = (1 << 27) + 1;
const MAX_BLOCK: usize = 128 << 10;
