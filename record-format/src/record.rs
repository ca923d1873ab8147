//! Records of a v2 batch, borrowed. Layout: `docs/format/record-batch.md#record`.

mod simple;

use core::str;

use crate::varint::{read_i32, read_i64};
use crate::{BatchHeader, CorruptKind, Corruption, Offset, Position, Timestamp, TimestampType};

pub use simple::SimpleRecord;
pub(crate) use simple::body_size;

/// One record, borrowed from the bytes of its batch.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    offset: Offset,
    timestamp: Option<Timestamp>,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

impl<'a> Record<'a> {
    /// The record's offset.
    #[must_use]
    pub const fn offset(&self) -> Offset {
        self.offset
    }

    /// The record's time: its own, or the batch's with `LogAppendTime`. `None` for -1.
    #[must_use]
    pub const fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// The key; null and empty differ.
    #[must_use]
    pub const fn key(&self) -> Option<&'a [u8]> {
        self.key
    }

    /// The value; null is a tombstone on a compacted topic.
    #[must_use]
    pub const fn value(&self) -> Option<&'a [u8]> {
        self.value
    }

    /// The headers, in order; keys may repeat.
    #[must_use]
    pub fn headers(&self) -> Headers<'a> {
        self.headers.clone()
    }
}

/// The headers of one record. Already checked: iterating cannot fail.
#[derive(Clone, Debug, Default)]
pub struct Headers<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl Headers<'_> {
    /// How many headers there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// One header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header<'a> {
    /// The name as stored: UTF-8 by convention, not checked.
    pub key: &'a [u8],
    /// The value; null and empty differ.
    pub value: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    /// A header with this name and value; `None` is null.
    #[must_use]
    pub const fn new(key: &'a [u8], value: Option<&'a [u8]>) -> Self {
        Self { key, value }
    }

    /// The name as text, or `None` where it is not UTF-8.
    #[must_use]
    pub fn key_str(&self) -> Option<&'a str> {
        str::from_utf8(self.key).ok()
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.count = self.count.checked_sub(1)?;
        let (header, rest) = read_header(self.bytes).ok()?;
        self.bytes = rest;
        Some(header)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// Iterates over the records of one batch, borrowing everything. Never allocates.
///
/// Yields one error at most, then ends. The bytes must be the whole decompressed payload: left
/// over bytes are an error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    base_offset: i64,
    base_timestamp: i64,
    append_time: Option<i64>,
    rest: &'a [u8],
    position: Position,
    left: u32,
    done: bool,
}

impl<'a> Records<'a> {
    /// Iterates over `payload`, the decompressed records of the batch with this header.
    /// `at` is the payload's byte in the file, for errors.
    ///
    /// # Errors
    ///
    /// `RecordCount` when the count is negative.
    pub fn new(header: &BatchHeader, payload: &'a [u8], at: Position) -> Result<Self, Corruption> {
        let found = header.record_count();
        let Ok(left) = u32::try_from(found) else {
            return Err(CorruptKind::RecordCount { found }.at(at));
        };
        let append_time = match header.attributes().timestamp_type() {
            TimestampType::LogAppendTime => Some(header.max_timestamp_raw()),
            TimestampType::CreateTime => None,
        };
        Ok(Self {
            base_offset: header.base_offset().get(),
            base_timestamp: header.base_timestamp_raw(),
            append_time,
            rest: payload,
            position: at,
            left,
            done: left == 0,
        })
    }

    fn read(&mut self) -> Result<Record<'a>, CorruptKind> {
        let (length, after) = read_i32(self.rest).map_err(varint32)?;
        let have = after.len();
        let bad = CorruptKind::RecordLength { found: i64::from(length), have };
        let length = usize::try_from(length).map_err(|_negative| bad)?;
        let (body, rest) = after.split_at_checked(length).ok_or(bad)?;
        let record = self.read_body(body)?;
        let used = self.rest.len().saturating_sub(rest.len());
        self.position = self.position.saturating_add_len(used);
        self.rest = rest;
        Ok(record)
    }

    fn read_body(&self, body: &'a [u8]) -> Result<Record<'a>, CorruptKind> {
        let short = CorruptKind::RecordLength { found: 0, have: body.len() };
        let (_attributes, rest) = body.split_first().ok_or(short)?;
        let (timestamp_delta, rest) = read_i64(rest).map_err(varint64)?;
        let (offset_delta, rest) = read_i32(rest).map_err(varint32)?;
        let (key, rest) = read_bytes(rest)?;
        let (value, rest) = read_bytes(rest)?;
        let (header_count, rest) = read_i32(rest).map_err(varint32)?;
        let bad = CorruptKind::RecordLength { found: i64::from(header_count), have: rest.len() };
        let count = usize::try_from(header_count).map_err(|_negative| bad)?;
        if count > rest.len() {
            return Err(bad);
        }
        let mut after = rest;
        for _ in 0..count {
            (_, after) = read_header(after)?;
        }
        if !after.is_empty() {
            let used = body.len().saturating_sub(after.len());
            return Err(CorruptKind::RecordSize { length: body.len(), used });
        }
        let timestamp =
            self.append_time.unwrap_or(self.base_timestamp.wrapping_add(timestamp_delta));
        Ok(Record {
            offset: Offset::new(self.base_offset.wrapping_add(i64::from(offset_delta))),
            timestamp: (timestamp != -1).then_some(Timestamp::new(timestamp)),
            key,
            value,
            headers: Headers { count, bytes: rest },
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Corruption>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.left == 0 {
            self.done = true;
            let found = self.rest.len();
            return (found > 0)
                .then(|| Err(CorruptKind::TrailingBytes { found }.at(self.position)));
        }
        self.left = self.left.saturating_sub(1);
        let record = self.read().map_err(|kind| kind.at(self.position));
        self.done = record.is_err();
        Some(record)
    }
}

/// A length and so many bytes; any negative length is null.
fn read_bytes(bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8]), CorruptKind> {
    let (length, rest) = read_i32(bytes).map_err(varint32)?;
    let Ok(len) = usize::try_from(length) else { return Ok((None, rest)) };
    let bad = CorruptKind::RecordLength { found: i64::from(length), have: rest.len() };
    let (field, rest) = rest.split_at_checked(len).ok_or(bad)?;
    Ok((Some(field), rest))
}

fn read_header(bytes: &[u8]) -> Result<(Header<'_>, &[u8]), CorruptKind> {
    let (length, rest) = read_i32(bytes).map_err(varint32)?;
    let bad = CorruptKind::RecordLength { found: i64::from(length), have: rest.len() };
    let len = usize::try_from(length).map_err(|_negative| bad)?;
    let (key, rest) = rest.split_at_checked(len).ok_or(bad)?;
    let (value, rest) = read_bytes(rest)?;
    Ok((Header { key, value }, rest))
}

fn varint32(too_long: bool) -> CorruptKind {
    if too_long {
        CorruptKind::Varint { max_bits: 32 }
    } else {
        CorruptKind::RecordLength { found: 0, have: 0 }
    }
}

fn varint64(too_long: bool) -> CorruptKind {
    if too_long { CorruptKind::Varint { max_bits: 64 } } else { varint32(false) }
}
