//! Records laid out like the one before: one comparison in place of reading their lengths.
//!
//! Clients often send records of one size, whose fields begin at the same bytes. Where the bytes
//! that say so are equal, the next record lies as far on as this one did, and the processor need
//! not read the length first to know where: `benches/records.rs`.

use core::array;

use super::Records;
use super::short::{Layout, index};
use crate::varint::{unzigzag32, unzigzag64};

/// What records have in common whose fields lie at the same bytes, and which have no headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Which bits of the first 16 bytes say where the fields lie, and what they are.
    mask: [u64; 2],
    head: [u64; 2],
    /// The length of the value, of one byte or two.
    value_length_at: usize,
    value_length_mask: u16,
    value_length: u16,
    timestamp_delta: Slot,
    offset_delta: Slot,
    /// Bytes of a record, at least 16.
    bytes: usize,
}

impl Shape {
    /// The shape of the first record of `payload`; `None` for one with headers, shorter than 16
    /// bytes, or with a field of an unusual size.
    pub(super) fn of(payload: &[u8]) -> Option<Self> {
        let layout = Layout::read(payload)?;
        let (record, _next) = payload.split_at_checked(index(layout.end))?;
        if layout.value_end().wrapping_add(1) != layout.end || record.last() != Some(&0) {
            return None;
        }
        let ends = layout.varint_ends();
        let mask = halves(array::from_fn(|at| mask_of_byte(at, ends)));
        let [low, high] = first_words(record)?;
        let value_length_at = index(layout.value_length_at());
        let wide = index(layout.value_at).wrapping_sub(value_length_at) == 2;
        let value_length_mask = if wide { u16::MAX } else { 0x00ff };
        let [length_end, timestamp_end, offset_end, _key_length_end] = ends;
        Some(Self {
            mask,
            head: [low & mask[0], high & mask[1]],
            value_length_at,
            value_length_mask,
            value_length: short_word(record, value_length_at)? & value_length_mask,
            timestamp_delta: Slot::new(length_end.wrapping_add(1), timestamp_end)?,
            offset_delta: Slot::new(timestamp_end, offset_end)?,
            bytes: record.len(),
        })
    }

    /// The deltas of time and offset of the first record of `payload`, if it has this shape, and
    /// the bytes after it.
    #[expect(clippy::inline_always, reason = "as a call it takes twice the time")]
    #[inline(always)]
    fn take<'a>(&self, payload: &'a [u8]) -> Option<(i64, i32, &'a [u8])> {
        let (record, next) = payload.split_at_checked(self.bytes)?;
        let [low, high] = first_words(record)?;
        let differs = (low & self.mask[0] ^ self.head[0]) | (high & self.mask[1] ^ self.head[1]);
        let value_length = short_word(record, self.value_length_at)? & self.value_length_mask;
        if differs != 0 || value_length != self.value_length || record.last() != Some(&0) {
            return None;
        }
        let timestamp_delta = unzigzag64(self.timestamp_delta.value(low).into());
        Some((timestamp_delta, unzigzag32(self.offset_delta.value(low)), next))
    }
}

impl Records<'_> {
    /// Passes over the records that come next as long as they have this shape and `each` takes
    /// their deltas of time and offset; returns how many. What it refuses is still to come.
    #[inline]
    pub(super) fn pass(&mut self, shape: &Shape, mut each: impl FnMut(i64, i32) -> bool) -> u32 {
        let (mut rest, mut left) = (self.rest, self.left);
        while let Some(fewer) = left.checked_sub(1)
            && let Some((timestamp_delta, offset_delta, next)) = shape.take(rest)
            && each(timestamp_delta, offset_delta)
        {
            rest = next;
            left = fewer;
        }
        let passed = self.left.wrapping_sub(left);
        self.rest = rest;
        self.left = left;
        passed
    }
}

/// When it is worth while to look at the shape of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shapes {
    last_bytes: usize,
    /// How many shapes may still fail. Where sizes vary, two records of one size mean nothing.
    patience: u32,
}

impl Shapes {
    pub(super) const fn new() -> Self {
        Self { last_bytes: 0, patience: 4 }
    }

    /// The shape of the first record of `payload`, before `rest`, if it is as long as the record
    /// before it.
    #[inline]
    pub(super) fn of_record(&mut self, payload: &[u8], rest: &[u8]) -> Option<Shape> {
        let bytes = payload.len().wrapping_sub(rest.len());
        let again = bytes == self.last_bytes && self.patience > 0;
        self.last_bytes = bytes;
        if again { self.look(payload) } else { None }
    }

    #[inline(never)]
    fn look(&mut self, payload: &[u8]) -> Option<Shape> {
        let shape = Shape::of(payload);
        if shape.is_none() {
            self.passed(0);
        }
        shape
    }

    /// How many records the last shape held for.
    pub(super) const fn passed(&mut self, records: u32) {
        if records < 8 {
            self.patience = self.patience.saturating_sub(1);
        }
    }
}

/// Where a varint of one to three bytes lies in the first eight of a record.
#[derive(Clone, Copy, Debug)]
struct Slot {
    shift: u32,
    mask: u64,
}

impl Slot {
    fn new(start: u32, end: u32) -> Option<Self> {
        let len = end.wrapping_sub(start);
        let mask = 0x7f_7f7f & !u64::MAX.wrapping_shl(len.wrapping_mul(8));
        (len <= 3 && end <= 8).then_some(Self { shift: start.wrapping_mul(8), mask })
    }

    /// The raw value, from the word that it lies in.
    #[inline]
    fn value(self, word: u64) -> u32 {
        let bits = word.wrapping_shr(self.shift) & self.mask;
        let value = bits & 0x7f | bits >> 1 & 0x3f80 | bits >> 2 & 0x1f_c000;
        u32::try_from(value).unwrap_or(u32::MAX)
    }
}

/// Which bits of this byte say where fields lie: all of the two lengths, and of the deltas
/// whether another byte follows. `ends` are those of the record's length, its two deltas, and the
/// length of its key.
fn mask_of_byte(at: usize, [length, timestamp, offset, key_length]: [u32; 4]) -> u8 {
    match u32::try_from(at).unwrap_or(u32::MAX) {
        at if at == length => 0, // attributes
        at if at < length || (at >= offset && at < key_length) => 0xff,
        at if at < timestamp.max(offset) => 0x80,
        _ => 0,
    }
}

#[inline]
fn first_words(record: &[u8]) -> Option<[u64; 2]> {
    Some(halves(*record.first_chunk()?))
}

#[inline]
fn halves(bytes: [u8; 16]) -> [u64; 2] {
    let mut halves = [[0; 8]; 2];
    halves.as_flattened_mut().copy_from_slice(&bytes);
    halves.map(u64::from_le_bytes)
}

#[inline]
fn short_word(record: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*record.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
