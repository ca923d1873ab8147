//! Iterates over the keys of a payload.

use super::Records;
use super::short::Key;
use crate::{Corruption, Offset, Timestamp};

/// What compaction needs of a record, borrowed from the bytes of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordKey<'a> {
    pub(super) offset: Offset,
    pub(super) timestamp: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value_bytes: Option<usize>,
}

impl<'a> RecordKey<'a> {
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

    /// The key; null and empty differ.
    #[must_use]
    pub const fn key(&self) -> Option<&'a [u8]> {
        self.key
    }

    /// Bytes of the value; `None` for null, a tombstone on a compacted topic.
    #[must_use]
    pub const fn value_bytes(&self) -> Option<usize> {
        self.value_bytes
    }
}

/// Iterates over the keys of one batch. Made by [`Records::keys`].
///
/// Takes what [`Records`] takes and fails where it fails, with the same error: a value is stepped
/// over, headers are checked by their lengths.
#[derive(Clone, Debug)]
pub struct RecordKeys<'a> {
    records: Records<'a>,
}

impl<'a> RecordKeys<'a> {
    pub(super) const fn new(records: Records<'a>) -> Self {
        Self { records }
    }
}

impl<'a> Iterator for RecordKeys<'a> {
    type Item = Result<RecordKey<'a>, Corruption>;

    #[expect(clippy::inline_always, reason = "as a call it takes twice the time")]
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let key = self.records.next_part::<Key>()?;
        Some(key.map(|(start, value_bytes)| self.records.context().key(&start, value_bytes)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.records.size_hint()
    }
}

impl core::iter::FusedIterator for RecordKeys<'_> {}
