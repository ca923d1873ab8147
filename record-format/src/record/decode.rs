//! Decodes the fields of a record, in any form that is allowed, and says what is wrong.

use super::{Header, Headers, Record, RecordKey};
use crate::varint::{VarintError, read_i32, read_i64};
use crate::{BatchHeader, CorruptKind, Offset, TimestampType};

/// What the header of a batch says about each of its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordContext {
    base_offset: i64,
    base_timestamp: i64,
    append_time: Option<i64>,
}

impl RecordContext {
    pub(crate) fn new(header: &BatchHeader) -> Self {
        let append_time = match header.attributes().timestamp_type() {
            TimestampType::LogAppendTime => Some(header.max_timestamp_raw()),
            TimestampType::CreateTime => None,
        };
        Self {
            base_offset: header.base_offset().get(),
            base_timestamp: header.base_timestamp_raw(),
            append_time,
        }
    }

    /// The record whose bytes after the length field are `body`, all fields checked.
    pub(crate) fn read_body<'b>(&self, body: &'b [u8]) -> Result<Record<'b>, CorruptKind> {
        Fields::read_body(body).map(|fields| self.record(fields))
    }

    /// The record with these fields.
    #[inline]
    pub(super) fn record<'b>(&self, fields: Fields<'b>) -> Record<'b> {
        Record {
            offset: self.offset(fields.start.offset_delta),
            timestamp: self.timestamp(fields.start.timestamp_delta),
            create_time: self.base_timestamp.wrapping_add(fields.start.timestamp_delta),
            key: fields.start.key,
            value: fields.value,
            headers: fields.headers,
        }
    }

    /// The key of the record with these fields.
    #[inline]
    pub(super) fn key<'b>(&self, start: &Start<'b>, value_bytes: Option<usize>) -> RecordKey<'b> {
        RecordKey {
            offset: self.offset(start.offset_delta),
            timestamp: self.timestamp(start.timestamp_delta),
            key: start.key,
            value_bytes,
        }
    }

    /// The offset at this distance from the base; wraps on damaged bytes.
    #[inline]
    pub(crate) fn offset(&self, delta: i32) -> Offset {
        Offset::new(self.base_offset.wrapping_add(i64::from(delta)))
    }

    /// The time at this distance from the base, -1 for none.
    #[inline]
    pub(crate) fn timestamp(&self, delta: i64) -> i64 {
        self.append_time.unwrap_or(self.base_timestamp.wrapping_add(delta))
    }
}

/// The fields of a record as stored.
pub(super) struct Fields<'b> {
    pub(super) start: Start<'b>,
    pub(super) value: Option<&'b [u8]>,
    pub(super) headers: Headers<'b>,
}

impl<'b> Fields<'b> {
    /// The fields of the first record of `payload` and the bytes after it.
    pub(super) fn read(payload: &'b [u8]) -> Result<(Self, &'b [u8]), CorruptKind> {
        let (body, rest) = read_record(payload)?;
        Ok((Self::read_body(body)?, rest))
    }

    fn read_body(body: &'b [u8]) -> Result<Self, CorruptKind> {
        let (start, rest) = Start::read(body)?;
        let (value, rest) = read_field(rest)?;
        let headers = read_headers(body, rest)?;
        Ok(Self { start, value, headers })
    }
}

/// The fields up to the key.
pub(super) struct Start<'b> {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) key: Option<&'b [u8]>,
}

impl<'b> Start<'b> {
    fn read(body: &'b [u8]) -> Result<(Self, &'b [u8]), CorruptKind> {
        let (_attributes, rest) = body.split_first().ok_or(CorruptKind::RecordCut)?;
        let (timestamp_delta, rest) = read_i64(rest).map_err(varint64)?;
        let (offset_delta, rest) = read_i32(rest).map_err(varint32)?;
        let (key, rest) = read_field(rest)?;
        Ok((Self { timestamp_delta, offset_delta, key }, rest))
    }
}

/// The bytes of the first record of `payload` after its length field, and those after it.
fn read_record(payload: &[u8]) -> Result<(&[u8], &[u8]), CorruptKind> {
    let (length, rest) = read_i32(payload).map_err(varint32)?;
    split(rest, length)
}

/// Checks the headers in `rest`, which must end where `body` does.
fn read_headers<'b>(body: &[u8], rest: &'b [u8]) -> Result<Headers<'b>, CorruptKind> {
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
    if after.is_empty() {
        return Ok(Headers { count, bytes: rest });
    }
    let used = body.len().saturating_sub(after.len());
    Err(CorruptKind::RecordSize { length: body.len(), used })
}

pub(super) fn read_header(bytes: &[u8]) -> Result<(Header<'_>, &[u8]), CorruptKind> {
    let (length, rest) = read_i32(bytes).map_err(varint32)?;
    let (key, rest) = split(rest, length)?;
    let (value, rest) = read_field(rest)?;
    Ok((Header { key, value }, rest))
}

/// A length and so many bytes; any negative length is null.
fn read_field(bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8]), CorruptKind> {
    let (length, rest) = read_i32(bytes).map_err(varint32)?;
    if length < 0 {
        return Ok((None, rest));
    }
    let (field, rest) = split(rest, length)?;
    Ok((Some(field), rest))
}

/// Cuts off so many bytes.
fn split(bytes: &[u8], length: i32) -> Result<(&[u8], &[u8]), CorruptKind> {
    let cut = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length));
    cut.ok_or(CorruptKind::RecordLength { found: i64::from(length), have: bytes.len() })
}

#[cold]
fn varint32(error: VarintError) -> CorruptKind {
    match error {
        VarintError::TooLong => CorruptKind::Varint { max_bits: 32 },
        VarintError::Ended => CorruptKind::RecordCut,
    }
}

#[cold]
fn varint64(error: VarintError) -> CorruptKind {
    match error {
        VarintError::TooLong => CorruptKind::Varint { max_bits: 64 },
        VarintError::Ended => CorruptKind::RecordCut,
    }
}
