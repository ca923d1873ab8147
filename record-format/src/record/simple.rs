//! A record to be written.

use super::{Encoded, Header};
use crate::Timestamp;

/// A record to be written, borrowed. Its offset is given where it is appended.
///
/// # Examples
///
/// ```
/// # use alluvium_record_format::{Header, SimpleRecord, Timestamp};
/// let headers = [Header::new(b"trace", Some(b"1f"))];
/// let record = SimpleRecord::new()
///     .timestamp(Timestamp::new(1_700_000_000_000))
///     .key(b"user-7")
///     .value(b"left")
///     .headers(&headers);
/// // length, attributes, timestamp delta, offset delta: 4; key 7, value 5, headers 1 + 6 + 3
/// assert_eq!(record.size_bytes(0, 0), 26);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SimpleRecord<'a> {
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a [Header<'a>],
}

impl<'a> SimpleRecord<'a> {
    /// A record without time, key, value and headers.
    #[must_use]
    pub const fn new() -> Self {
        Self { timestamp: None, key: None, value: None, headers: &[] }
    }

    /// The record's time.
    #[must_use]
    pub const fn timestamp(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// The key; without this call it is null, which is not the same as empty.
    #[must_use]
    pub const fn key(mut self, key: &'a [u8]) -> Self {
        self.key = Some(key);
        self
    }

    /// The value; without this call it is null, a tombstone on a compacted topic.
    #[must_use]
    pub const fn value(mut self, value: &'a [u8]) -> Self {
        self.value = Some(value);
        self
    }

    /// The headers, in order; keys may repeat.
    #[must_use]
    pub const fn headers(mut self, headers: &'a [Header<'a>]) -> Self {
        self.headers = headers;
        self
    }

    /// Bytes of the record in a batch, its length field included, with these distances from
    /// base offset and base timestamp.
    ///
    /// Source: `DefaultRecord.sizeInBytes` in Kafka.
    #[must_use]
    pub fn size_bytes(&self, offset_delta: i32, timestamp_delta: i64) -> usize {
        let headers = self.headers.iter().copied();
        Encoded::new(timestamp_delta, offset_delta, self.key, self.value, headers).size_bytes()
    }
}
