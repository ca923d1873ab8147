//! A record and its headers, borrowed.

use core::str;

use super::decode::read_header;
use crate::{Offset, Timestamp};

/// One record, borrowed from the bytes of its batch.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    pub(super) offset: Offset,
    pub(super) timestamp: i64,
    pub(super) create_time: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: Headers<'a>,
}

impl<'a> Record<'a> {
    /// The record's offset.
    #[must_use]
    pub const fn offset(&self) -> Offset {
        self.offset
    }

    /// The record's time: its own, or the batch's with `LogAppendTime`. `None` for -1.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        (self.timestamp != -1).then_some(Timestamp::new(self.timestamp))
    }

    /// The time that the producer gave, also where `LogAppendTime` overrules it; `None` for -1.
    #[must_use]
    pub fn create_time(&self) -> Option<Timestamp> {
        (self.create_time != -1).then_some(Timestamp::new(self.create_time))
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
    pub(super) count: usize,
    pub(super) bytes: &'a [u8],
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
