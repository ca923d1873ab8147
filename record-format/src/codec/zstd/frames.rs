//! Walks the frame and block headers of a payload, without decompressing anything.

/// What the headers of a frame and of its blocks say about its content.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// The most bytes that the blocks can inflate to.
    pub(super) bound: usize,
    /// The size of the content, where the frame names it.
    pub(super) named: Option<u64>,
    /// The most bytes of one block.
    pub(super) max_block: usize,
    /// Bytes before the first block, the magic included.
    pub(super) header_len: usize,
}

/// The frames of a payload, each with its bytes, skippable ones left out. Ends behind an `Err`.
pub(super) struct Frames<'b> {
    rest: &'b [u8],
}

/// What is there is no whole frame, or asks for a window or dictionary that a reader will not
/// have.
pub(super) struct NoFrame;

impl<'b> Frames<'b> {
    pub(super) const fn of(input: &'b [u8]) -> Self {
        Self { rest: input }
    }
}

impl<'b> Iterator for Frames<'b> {
    type Item = Result<(&'b [u8], Frame), NoFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let whole = self.rest;
            let (frame, after) = first(whole).unzip();
            self.rest = after.unwrap_or_default();
            let len = whole.len().saturating_sub(self.rest.len());
            match frame {
                Some(Some(frame)) => return whole.get(..len).map(|bytes| Ok((bytes, frame))),
                Some(None) => {}
                None => return Some(Err(NoFrame)),
            }
        }
        None
    }
}

/// The first frame of `input`, `None` for a skippable one, and the bytes after it.
fn first(input: &[u8]) -> Option<(Option<Frame>, &[u8])> {
    let (magic, after) = input.split_first_chunk()?;
    let magic = u32::from_le_bytes(*magic);
    if magic & !0xf == SKIPPABLE_MAGIC {
        let (len, after) = after.split_first_chunk()?;
        return Some((None, after.get(usize::try_from(u32::from_le_bytes(*len)).ok()?..)?));
    }
    let (frame, after) = if magic == MAGIC { frame(after)? } else { return None };
    Some((Some(frame), after))
}

/// The frame behind its magic, and the bytes after it.
fn frame(bytes: &[u8]) -> Option<(Frame, &[u8])> {
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
    let named = content_len_of(content_len);
    let window = window.or(named)?;
    let reserved = descriptor & 0x08 != 0;
    if reserved || window > MAX_WINDOW || dictionary.iter().any(|byte| *byte != 0) {
        return None;
    }
    let max_block = usize::try_from(window).ok()?.min(MAX_BLOCK);
    let header_len = bytes.len().checked_sub(rest.len())?.checked_add(size_of_val(&MAGIC))?;
    let (bound, rest) = blocks(rest, max_block)?;
    let checksum_len = if descriptor & 0x04 == 0 { 0 } else { 4 };
    Some((Frame { bound, named, max_block, header_len }, rest.get(checksum_len..)?))
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
