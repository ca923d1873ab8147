//! ZigZag varints, with the strictness of `docs/format/record-batch.md#varints`.

use alloc::vec::Vec;

/// Why a varint could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VarintError {
    /// It goes on beyond the bytes or bits of its type.
    TooLong,
    /// The bytes end first.
    Ended,
}

/// Reads a 32-bit varint: the value and the bytes after it.
///
/// At most five bytes, padded forms included; the fifth holds four bits.
#[inline]
pub(crate) fn read_i32(bytes: &[u8]) -> Result<(i32, &[u8]), VarintError> {
    match short(bytes) {
        Some((raw, rest)) => Ok((unzigzag32(raw), rest)),
        None => read_long_i32(bytes),
    }
}

/// Reads a 64-bit varint: at most ten bytes, of which the tenth is at most 1.
#[inline]
pub(crate) fn read_i64(bytes: &[u8]) -> Result<(i64, &[u8]), VarintError> {
    match short(bytes) {
        Some((raw, rest)) => Ok((unzigzag64(u64::from(raw)), rest)),
        None => read_long_i64(bytes),
    }
}

/// The raw value of a varint of one or two bytes.
#[inline]
fn short(bytes: &[u8]) -> Option<(u32, &[u8])> {
    match bytes {
        [a, rest @ ..] if *a < 0x80 => Some((u32::from(*a), rest)),
        [a, b, rest @ ..] if *b < 0x80 => Some((u32::from(*a & 0x7f) | u32::from(*b) << 7, rest)),
        _ => None,
    }
}

#[inline(never)]
fn read_long_i32(bytes: &[u8]) -> Result<(i32, &[u8]), VarintError> {
    let mut value = 0_u32;
    let mut rest = bytes;
    for shift in [0_u32, 7, 14, 21, 28] {
        let (&byte, tail) = rest.split_first().ok_or(VarintError::Ended)?;
        rest = tail;
        if shift == 28 && byte > 0x0f {
            return Err(VarintError::TooLong);
        }
        value |= u32::from(byte & 0x7f).wrapping_shl(shift);
        if byte < 0x80 {
            return Ok((unzigzag32(value), rest));
        }
    }
    Err(VarintError::TooLong)
}

#[inline(never)]
fn read_long_i64(bytes: &[u8]) -> Result<(i64, &[u8]), VarintError> {
    let mut value = 0_u64;
    let mut rest = bytes;
    for shift in [0_u32, 7, 14, 21, 28, 35, 42, 49, 56, 63] {
        let (&byte, tail) = rest.split_first().ok_or(VarintError::Ended)?;
        rest = tail;
        if shift == 63 && byte > 1 {
            return Err(VarintError::TooLong);
        }
        value |= u64::from(byte & 0x7f).wrapping_shl(shift);
        if byte < 0x80 {
            return Ok((unzigzag64(value), rest));
        }
    }
    Err(VarintError::TooLong)
}

/// Reads an unsigned 32-bit varint, with the same limits.
pub(crate) fn read_u32(bytes: &[u8]) -> Result<(u32, &[u8]), VarintError> {
    let (value, rest) = read_i32(bytes)?;
    Ok((((value << 1) ^ (value >> 31)).cast_unsigned(), rest))
}

/// Appends an unsigned varint in its shortest form.
pub(crate) fn write_u32(out: &mut Vec<u8>, value: u32) {
    write_raw(out, u64::from(value));
}

/// Appends a length in its shortest form.
#[inline]
pub(crate) fn write_len(out: &mut Vec<u8>, len: usize) {
    write_i64(out, i64::try_from(len).unwrap_or(i64::MAX));
}

/// Appends `value` in its shortest form.
#[inline]
pub(crate) fn write_i64(out: &mut Vec<u8>, value: i64) {
    write_raw(out, zigzag(value));
}

#[inline]
fn write_raw(out: &mut Vec<u8>, raw: u64) {
    if raw < 0x80 {
        let [byte, ..] = raw.to_le_bytes();
        out.push(byte);
    } else if raw < 0x4000 {
        out.extend_from_slice(&two_bytes(raw));
    } else {
        write_long(out, raw);
    }
}

/// The varint of a raw value of 8 to 14 bits.
#[inline]
pub(crate) const fn two_bytes(raw: u64) -> [u8; 2] {
    let [low, high, ..] = (raw & 0x7f | 0x80 | raw << 1 & 0x7f00).to_le_bytes();
    [low, high]
}

#[inline(never)]
fn write_long(out: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    loop {
        let [low, ..] = rest.to_le_bytes();
        rest >>= 7;
        if rest == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Bytes of a length in its shortest form.
pub(crate) fn len_usize(len: usize) -> usize {
    len_i64(i64::try_from(len).unwrap_or(i64::MAX))
}

/// Bytes of `value` in its shortest form, 1 to 10.
pub(crate) fn len_i64(value: i64) -> usize {
    let sevens = zigzag(value).checked_ilog2().map_or(0, |log| log / 7);
    usize::try_from(sevens).unwrap_or(0).saturating_add(1)
}

pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

pub(crate) const fn unzigzag32(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

pub(crate) const fn unzigzag64(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

#[cfg(test)]
mod tests;
