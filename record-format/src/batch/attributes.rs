//! The bits of a batch. Layout: `docs/format/record-batch.md#attributes`.

use crate::Codec;

/// Where record timestamps come from: bit 3 of the attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimestampType {
    /// The producer's time, per record.
    #[default]
    CreateTime,
    /// The broker's time, one for the batch.
    LogAppendTime,
}

impl TimestampType {
    /// Kafka's name, as in `message.timestamp.type` and the dump tool.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}

/// The attributes of a batch, all 16 bits as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(i16);

impl Attributes {
    /// Bits 0 to 2: the codec.
    pub const CODEC_MASK: i16 = 0x07;
    /// Bit 3: timestamps are the broker's.
    pub const LOG_APPEND_TIME: i16 = 0x08;
    /// Bit 4: part of a transaction.
    pub const TRANSACTIONAL: i16 = 0x10;
    /// Bit 5: control records.
    pub const CONTROL: i16 = 0x20;
    /// Bit 6: the base timestamp holds the delete horizon.
    pub const DELETE_HORIZON: i16 = 0x40;

    /// The bits with a meaning; the others are kept as they are found.
    const KNOWN: i16 = 0x7f;

    /// Wraps the stored bits.
    #[must_use]
    pub const fn new(bits: i16) -> Self {
        Self(bits)
    }

    /// All bits as stored, unknown ones included.
    #[must_use]
    pub const fn bits(self) -> i16 {
        self.0
    }

    /// The codec, or `None` for ids 5 to 7.
    #[must_use]
    pub const fn codec(self) -> Option<Codec> {
        Codec::from_id(self.codec_id())
    }

    /// The codec bits, 0 to 7.
    #[must_use]
    pub const fn codec_id(self) -> u8 {
        let [_, low] = self.0.to_be_bytes();
        low & 7
    }

    /// Where timestamps come from.
    #[must_use]
    pub const fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub const fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the batch holds control records.
    #[must_use]
    pub const fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether the base timestamp holds the delete horizon.
    #[must_use]
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// The bits that mean nothing today. In-place edits and rebuilds keep them, where Kafka
    /// drops them: a later format may give them a meaning.
    #[must_use]
    pub const fn unknown_bits(self) -> i16 {
        self.0 & !Self::KNOWN
    }
}
