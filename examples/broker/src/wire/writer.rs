//! Writes the primitive types of the protocol.

use alluvium_record_format::Uuid;
use bytes::{BufMut, BytesMut};

/// Appends to a buffer, in the encoding of one version.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut BytesMut,
    is_flexible: bool,
}

impl<'a> Writer<'a> {
    pub(crate) const fn new(out: &'a mut BytesMut, is_flexible: bool) -> Self {
        Self { out, is_flexible }
    }

    pub(crate) fn i16(&mut self, value: i16) {
        self.out.put_i16(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    pub(crate) fn uuid(&mut self, value: Uuid) {
        self.out.put_slice(&value.into_bytes());
    }

    fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value.to_le_bytes()[0]);
    }

    /// A count of elements or bytes; `None` for null.
    pub(crate) fn count(&mut self, count: Option<usize>) {
        let count = count.map(|count| u32::try_from(count).unwrap_or(u32::MAX - 1));
        if self.is_flexible {
            self.unsigned_varint(count.map_or(0, |count| count.saturating_add(1)));
        } else {
            self.i32(count.map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX)));
        }
    }

    pub(crate) fn string(&mut self, text: &str) {
        if self.is_flexible {
            self.count(Some(text.len()));
        } else {
            self.i16(i16::try_from(text.len()).unwrap_or(i16::MAX));
        }
        self.out.put_slice(text.as_bytes());
    }

    /// The tagged fields of a partition in the answer to a fetch: where the log of the client
    /// parts from ours, if it does.
    pub(crate) fn diverging_epoch(&mut self, diverging: Option<(i32, i64)>) {
        let Some((epoch, end_offset)) = diverging.filter(|_| self.is_flexible) else {
            return self.no_tagged_fields();
        };
        self.out.put_slice(&[1, 0, 13]); // one field, its tag, its bytes
        self.i32(epoch);
        self.i64(end_offset);
        self.out.put_u8(0);
    }

    /// The end of a struct without tagged fields.
    pub(crate) fn no_tagged_fields(&mut self) {
        if self.is_flexible {
            self.out.put_u8(0);
        }
    }
}
