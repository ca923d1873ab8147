//! Encodes a record: sizes first, so that it can be refused before anything is written.

use alloc::vec::Vec;

use super::Header;
use crate::varint;

/// A record ready to be written. Its small fields are encoded already, on the stack.
pub(crate) struct Encoded<'r, H> {
    /// Attributes, deltas, and the length of the key.
    start: Small,
    key: &'r [u8],
    /// The length of the value.
    middle: Small,
    value: &'r [u8],
    headers: H,
    body_bytes: usize,
}

impl<'r, 'h, H> Encoded<'r, H>
where
    H: ExactSizeIterator<Item = Header<'h>> + Clone,
{
    #[inline]
    pub(crate) fn new(
        timestamp_delta: i64,
        offset_delta: i32,
        key: Option<&'r [u8]>,
        value: Option<&'r [u8]>,
        headers: H,
    ) -> Self {
        let mut start = Small::new();
        start.put(0);
        start.put_i64(timestamp_delta);
        start.put_i64(i64::from(offset_delta));
        start.put_i64(length(key));
        let mut middle = Small::new();
        middle.put_i64(length(value));
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        let body_bytes = start
            .len
            .saturating_add(key.len())
            .saturating_add(middle.len)
            .saturating_add(value.len())
            .saturating_add(headers_size(headers.clone()));
        Self { start, key, middle, value, headers, body_bytes }
    }

    /// Bytes of the whole record.
    #[inline]
    pub(crate) fn size_bytes(&self) -> usize {
        varint::len_usize(self.body_bytes).saturating_add(self.body_bytes)
    }

    /// Appends the record. `out` has room for it, or grows.
    #[inline]
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        varint::write_len(out, self.body_bytes);
        self.start.write(out);
        out.extend_from_slice(self.key);
        self.middle.write(out);
        out.extend_from_slice(self.value);
        varint::write_len(out, self.headers.len());
        for header in self.headers {
            varint::write_len(out, header.key.len());
            out.extend_from_slice(header.key);
            varint::write_i64(out, length(header.value));
            out.extend_from_slice(header.value.unwrap_or_default());
        }
    }
}

/// Bytes of the header count and the headers.
fn headers_size<'h>(headers: impl ExactSizeIterator<Item = Header<'h>>) -> usize {
    let field = |bytes: &[u8]| varint::len_usize(bytes.len()).saturating_add(bytes.len());
    headers.len().checked_sub(1).map_or(1, |_some| {
        let count = varint::len_usize(headers.len());
        headers.fold(count, |sum, header| {
            sum.saturating_add(field(header.key)).saturating_add(header.value.map_or(1, field))
        })
    })
}

/// The length of a field, -1 for null.
#[inline]
fn length(field: Option<&[u8]>) -> i64 {
    field.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap_or(i64::MAX))
}

/// Up to 32 bytes on the stack, which go out as a whole: copying a constant number is cheaper
/// than calling for the right one.
struct Small {
    bytes: [u8; 32],
    len: usize,
}

impl Small {
    #[inline]
    const fn new() -> Self {
        Self { bytes: [0; 32], len: 0 }
    }

    #[inline]
    fn put_i64(&mut self, value: i64) {
        self.put(varint::zigzag(value));
    }

    /// Appends a raw varint. The longest record start takes 26 bytes.
    #[inline]
    fn put(&mut self, raw: u64) {
        if raw < 0x80 {
            let [byte, ..] = raw.to_le_bytes();
            self.put_byte(byte);
        } else if raw < 0x4000 {
            let [low, high] = varint::two_bytes(raw);
            self.put_byte(low);
            self.put_byte(high);
        } else {
            self.put_long(raw);
        }
    }

    #[inline(never)]
    fn put_long(&mut self, raw: u64) {
        let mut rest = raw;
        loop {
            let [low, ..] = rest.to_le_bytes();
            rest >>= 7;
            if rest == 0 {
                return self.put_byte(low & 0x7f);
            }
            self.put_byte(low | 0x80);
        }
    }

    #[inline]
    fn put_byte(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.len) {
            *slot = byte;
            self.len = self.len.wrapping_add(1);
        }
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        let end = out.len().saturating_add(self.len);
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}
