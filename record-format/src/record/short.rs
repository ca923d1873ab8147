//! The short way to the fields of a record: it takes what is common and gives no reasons.
//!
//! Where it gives up, [`Fields::read`] decides, so it may refuse what it likes, and must never
//! take what that refuses. With one exit for all that is uncommon, the state of the loop over
//! records stays in registers: `benches/records.rs`.

use super::decode::{Fields, Start};
use crate::varint::{unzigzag32, unzigzag64};
use crate::{CorruptKind, Headers};

/// What is read of each record.
pub(super) trait Part<'a> {
    /// Plain numbers that the short way finds.
    ///
    /// Apart from the item, because nested options between the two go through memory.
    type Found;
    /// What is read.
    type Item;

    /// Looks at the first record of `payload`; returns the bytes after it as well.
    fn find(payload: &'a [u8]) -> Option<(Self::Found, &'a [u8])>;

    /// Makes the item of what was found in `payload`.
    fn make(found: Self::Found, payload: &'a [u8]) -> Self::Item;

    /// Reads the first record of `payload` in any form that is allowed.
    fn read(payload: &'a [u8]) -> Result<(Self::Item, &'a [u8]), CorruptKind>;
}

/// All fields of a record, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole;

impl<'a> Part<'a> for Whole {
    type Found = (Layout, Headers<'a>);
    type Item = Fields<'a>;

    #[expect(clippy::inline_always, reason = "as a call it takes twice the time")]
    #[inline(always)]
    fn find(payload: &'a [u8]) -> Option<(Self::Found, &'a [u8])> {
        let layout = Layout::read(payload)?;
        let (headers, next) = layout.headers(payload)?;
        Some(((layout, headers), next))
    }

    #[expect(clippy::inline_always, reason = "as a call it takes twice the time")]
    #[inline(always)]
    fn make((layout, headers): Self::Found, payload: &'a [u8]) -> Fields<'a> {
        let value = field(payload, layout.value_at, layout.value_length);
        Fields { start: layout.start(payload), value, headers }
    }

    fn read(payload: &'a [u8]) -> Result<(Fields<'a>, &'a [u8]), CorruptKind> {
        Fields::read(payload)
    }
}

/// The fields up to the key and the bytes of the value. The headers are checked, not kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key;

impl<'a> Part<'a> for Key {
    type Found = Layout;
    type Item = KeyFields<'a>;

    #[expect(clippy::inline_always, reason = "as a call it takes twice the time")]
    #[inline(always)]
    fn find(payload: &'a [u8]) -> Option<(Layout, &'a [u8])> {
        let layout = Layout::read(payload)?;
        let (_headers, next) = layout.headers(payload)?;
        Some((layout, next))
    }

    #[expect(clippy::inline_always, reason = "as a call it takes twice the time")]
    #[inline(always)]
    fn make(layout: Layout, payload: &'a [u8]) -> KeyFields<'a> {
        let value_bytes = (layout.value_length & 1 == 0).then(|| index(size(layout.value_length)));
        (layout.start(payload), value_bytes)
    }

    fn read(payload: &'a [u8]) -> Result<(KeyFields<'a>, &'a [u8]), CorruptKind> {
        let (Fields { start, value, .. }, next) = Fields::read(payload)?;
        Ok(((start, value.map(<[u8]>::len)), next))
    }
}

/// A record's fields up to the key, and the bytes of its value.
type KeyFields<'a> = (Start<'a>, Option<usize>);

/// Where the fields of a record lie. Positions count from the record's first byte; deltas and
/// lengths are the raw values of their varints. No sum of them can overflow.
pub(super) struct Layout {
    fields_at: u32,
    timestamp_delta: u64,
    offset_at: u32,
    offset_delta: u32,
    key_length_at: u32,
    key_at: u32,
    key_length: u32,
    pub(super) value_at: u32,
    value_length: u32,
    pub(super) end: u32,
}

impl Layout {
    /// Reads all but the headers. Key and value may reach beyond the end.
    #[expect(clippy::inline_always, reason = "as a call it takes twice the time")]
    #[inline(always)]
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let head: &[u8; 16] = payload.first_chunk()?;
        let (body_bytes, body_at) = length(u32::from_le_bytes(*head.first_chunk()?))?;
        let end = body_at.wrapping_add(body_bytes);
        let fields_at = body_at.wrapping_add(1); // after the attributes
        let bits = u64::from_le_bytes(*head.get(index(fields_at)..)?.first_chunk()?);
        let mut word = Word { bits, at: fields_at };
        let timestamp_delta = if let Some(delta) = word.take3() {
            u64::from(delta)
        } else {
            let (delta, after) = long_varint(payload, word.at)?;
            word = after;
            delta
        };
        let offset_at = word.at;
        let offset_delta = word.take3()?;
        let key_length_at = word.at;
        let key_length = word.take2()?;
        let key_at = word.at;
        let value_length_at = key_at.wrapping_add(size(key_length));
        let second = *payload.get(index(value_length_at).wrapping_add(1))?;
        let first = *payload.get(index(value_length_at))?;
        let (value_length, length_bytes) = short_varint(first, second)?;
        let value_at = value_length_at.wrapping_add(length_bytes);
        Some(Self {
            fields_at,
            timestamp_delta,
            offset_at,
            offset_delta,
            key_length_at,
            key_at,
            key_length,
            value_at,
            value_length,
            end,
        })
    }

    /// Where four varints end: the record's length, the deltas of time and offset, and the key's
    /// length. The attributes lie between the first two.
    pub(super) const fn varint_ends(&self) -> [u32; 4] {
        let length_end = self.fields_at.wrapping_sub(1);
        [length_end, self.offset_at, self.key_length_at, self.key_at]
    }

    /// Where the value's length lies.
    pub(super) const fn value_length_at(&self) -> u32 {
        self.key_at.wrapping_add(size(self.key_length))
    }

    /// Where the value ends.
    pub(super) const fn value_end(&self) -> u32 {
        self.value_at.wrapping_add(size(self.value_length))
    }

    /// The fields up to the key, in the payload that this was read from.
    #[inline]
    fn start<'b>(&self, payload: &'b [u8]) -> Start<'b> {
        Start {
            timestamp_delta: unzigzag64(self.timestamp_delta),
            offset_delta: unzigzag32(self.offset_delta),
            key: field(payload, self.key_at, self.key_length),
        }
    }

    /// The headers, which must end where the record does, and the bytes after it.
    #[expect(clippy::inline_always, reason = "as a call it takes twice the time")]
    #[inline(always)]
    fn headers<'b>(&self, payload: &'b [u8]) -> Option<(Headers<'b>, &'b [u8])> {
        let (record, next) = payload.split_at_checked(index(self.end))?;
        let at = self.value_end();
        if at.wrapping_add(1) == self.end && record.last() == Some(&0) {
            return Some((Headers::default(), next));
        }
        Some((some_headers(record.get(index(at)..)?)?, next))
    }
}

/// Some bytes of a record in a register, eaten from the low end.
struct Word {
    bits: u64,
    /// The first byte that is not eaten yet.
    at: u32,
}

impl Word {
    /// A varint of one or two bytes.
    #[inline]
    fn take2(&mut self) -> Option<u32> {
        let bits = self.bits;
        if bits & 0x80 == 0 {
            return Some(self.eat(1, bits & 0x7f));
        }
        if bits & 0x8000 == 0 {
            return Some(self.eat(2, bits & 0x7f | bits >> 1 & 0x3f80));
        }
        None
    }

    /// A varint of one to three bytes.
    #[inline]
    fn take3(&mut self) -> Option<u32> {
        if let Some(value) = self.take2() {
            return Some(value);
        }
        let bits = self.bits;
        if bits & 0x80_0000 == 0 {
            return Some(self.eat(3, bits & 0x7f | bits >> 1 & 0x3f80 | bits >> 2 & 0x1f_c000));
        }
        None
    }

    #[inline]
    fn eat(&mut self, bytes: u32, value: u64) -> u32 {
        self.bits = self.bits.wrapping_shr(bytes.wrapping_mul(8));
        self.at = self.at.wrapping_add(bytes);
        u32::try_from(value).unwrap_or(u32::MAX)
    }
}

/// A varint of up to nine bytes at this byte, and the word after it.
#[cold]
#[inline(never)]
fn long_varint(payload: &[u8], at: u32) -> Option<(u64, Word)> {
    let mut value = 0;
    for (seven, byte) in (0_u32..9).zip(payload.get(index(at)..)?) {
        value |= u64::from(byte & 0x7f).wrapping_shl(seven.wrapping_mul(7));
        if *byte < 0x80 {
            let at = at.wrapping_add(seven).wrapping_add(1);
            let bits = u64::from_le_bytes(*payload.get(index(at)..)?.first_chunk()?);
            return Some((value, Word { bits, at }));
        }
    }
    None
}

/// The length of a record, not negative, from its first four bytes, and the bytes it takes.
#[inline]
const fn length(bits: u32) -> Option<(u32, u32)> {
    // The masks ask for a stop where the varint ends, for none before, and for a sign of 0.
    if bits & 0x8081 == 0x80 {
        Some((bits >> 1 & 0x3f | bits >> 2 & 0x1fc0, 2))
    } else if bits & 0x81 == 0 {
        Some((bits >> 1 & 0x3f, 1))
    } else if bits & 0x80_8081 == 0x8080 {
        Some((bits >> 1 & 0x3f | bits >> 2 & 0x1fc0 | bits >> 3 & 0xf_e000, 3))
    } else {
        None
    }
}

/// A varint of one or two bytes, and which.
#[inline]
fn short_varint(first: u8, second: u8) -> Option<(u32, u32)> {
    if first < 0x80 {
        Some((u32::from(first), 1))
    } else if second < 0x80 {
        Some((u32::from(first & 0x7f) | u32::from(second) << 7, 2))
    } else {
        None
    }
}

/// Bytes of a field with this length; none where it is negative.
#[inline]
const fn size(length: u32) -> u32 {
    if length & 1 == 0 { length >> 1 } else { 0 }
}

/// A field that was found to lie in the record; a negative length is null.
#[inline]
fn field(record: &[u8], at: u32, length: u32) -> Option<&[u8]> {
    if length & 1 != 0 {
        return None;
    }
    record.get(index(at)..index(at.wrapping_add(length >> 1)))
}

#[inline]
pub(super) fn index(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// Headers that fill `bytes`.
#[inline(never)]
fn some_headers(bytes: &[u8]) -> Option<Headers<'_>> {
    let (count, bytes) = header_length(bytes)?;
    if count & 1 != 0 {
        return None;
    }
    let count = index(count >> 1);
    let mut rest = bytes;
    for _ in 0..count {
        let (key_length, after) = header_length(rest)?;
        if key_length & 1 != 0 {
            return None;
        }
        let (value_length, after) = header_length(after.get(index(size(key_length))..)?)?;
        rest = after.get(index(size(value_length))..)?;
    }
    rest.is_empty().then_some(Headers { count, bytes })
}

#[inline]
fn header_length(bytes: &[u8]) -> Option<(u32, &[u8])> {
    match bytes {
        [a, rest @ ..] if *a < 0x80 => Some((u32::from(*a), rest)),
        [a, b, rest @ ..] => {
            let (length, _two) = short_varint(*a, *b)?;
            Some((length, rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
