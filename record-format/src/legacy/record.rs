//! One message of magic 0 or 1.

use super::LegacyEntry;
use crate::{CorruptKind, Offset, Timestamp, TimestampType};

/// A message of magic 0 or 1, borrowed from its entry or from the inflated wrapper.
#[derive(Clone, Copy, Debug)]
pub struct LegacyRecord<'a> {
    entry: LegacyEntry<'a>,
    offset: Offset,
    timestamp: i64,
    timestamp_type: Option<TimestampType>,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl<'a> LegacyRecord<'a> {
    /// The message of an entry, with the offset and time that stand there.
    pub(super) fn of(entry: LegacyEntry<'a>) -> Result<Self, CorruptKind> {
        let [key, value] = entry.fields()?;
        Ok(Self {
            entry,
            offset: entry.offset(),
            timestamp: entry.timestamp_raw(),
            timestamp_type: entry.timestamp_type(),
            key,
            value,
        })
    }

    /// The message with an absolute offset.
    pub(super) const fn at_offset(mut self, offset: Offset) -> Self {
        self.offset = offset;
        self
    }

    /// The message under a wrapper of magic 1, whose append time rules.
    pub(super) fn wrapped_in(mut self, wrapper: &LegacyEntry<'_>) -> Self {
        if self.timestamp_type.is_some() {
            self.timestamp_type = wrapper.timestamp_type();
        }
        if self.timestamp_type == Some(TimestampType::LogAppendTime) {
            self.timestamp = wrapper.timestamp_raw();
        }
        self
    }

    /// The record's offset.
    #[must_use]
    pub const fn offset(&self) -> Offset {
        self.offset
    }

    /// The record's time: its own, or its wrapper's with `LogAppendTime`. `None` for -1 and for
    /// magic 0.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        (self.timestamp != -1).then_some(Timestamp::new(self.timestamp))
    }

    /// Where the time comes from; `None` for magic 0.
    #[must_use]
    pub const fn timestamp_type(&self) -> Option<TimestampType> {
        self.timestamp_type
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

    /// 0 or 1.
    #[must_use]
    pub const fn magic(&self) -> i8 {
        self.entry.magic()
    }

    /// The stored CRC-32 of this message.
    #[must_use]
    pub fn crc(&self) -> u32 {
        self.entry.crc()
    }

    /// Whether the stored CRC-32 fits the message. A wrapper's says nothing about those of the
    /// messages in it, which producers made.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.entry.crc() == self.entry.compute_crc()
    }
}
