//! Why an append was refused. Every refusal comes before a byte reaches the file, unless it says
//! otherwise.

use alluvium_record_format::{Codec, CorruptClass, Corruption, LeaderEpoch, Offset, Position};

use crate::ErrorCode;

/// Why batches were refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValidationError {
    /// A batch fails its checksum, or its size or magic cannot be.
    #[error("a batch of the append is corrupt")]
    #[non_exhaustive]
    Corrupt {
        /// What is wrong, at a byte of the buffer.
        source: Corruption,
    },
    /// A batch is larger than the log accepts.
    #[error("the batch at byte {position} has {size_bytes} bytes, above the limit of {max_bytes}")]
    #[non_exhaustive]
    BatchTooLarge {
        /// Where the batch begins; after recompression, where it began.
        position: Position,
        /// Bytes of the batch.
        size_bytes: u64,
        /// `max.message.bytes`.
        max_bytes: u32,
    },
    /// A batch breaks a rule as a whole.
    #[error("the batch at byte {position} is refused: {reason}")]
    #[non_exhaustive]
    Batch {
        /// Where the batch begins.
        position: Position,
        /// The rule.
        reason: InvalidBatch,
    },
    /// The bytes inside a batch are not the records that its header promises.
    #[error("a batch of the append has records that cannot be read")]
    #[non_exhaustive]
    Unreadable {
        /// What is wrong, at a byte of the buffer.
        source: Corruption,
    },
    /// Records break rules of the topic.
    #[error("{} records are refused, the first ({}) because {}", records.len(), first(records).index, first(records).reason)]
    #[non_exhaustive]
    Records {
        /// The refused ones in order; never empty.
        records: Vec<RecordError>,
    },
    /// The offsets of an append that brings its own do not rise.
    #[error("offsets of the append do not rise: {offset} is not above {previous}")]
    #[non_exhaustive]
    OffsetsOutOfOrder {
        /// The last offset of the batch before.
        previous: Offset,
        /// The last offset of the batch that does not rise.
        offset: Offset,
    },
    /// This build, or the target format, cannot hold the batch.
    #[error("records cannot be written as {codec}")]
    #[non_exhaustive]
    Compress {
        /// The codec that `compression.type` asks for.
        codec: Codec,
        /// Why.
        source: alluvium_record_format::BuildError,
    },
}

/// A rule that a whole batch breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBatch {
    /// Clients write from offset 0; the leader assigns offsets.
    #[error("base offset {found} of a client's batch is not 0")]
    #[non_exhaustive]
    BaseOffset {
        /// The base offset as sent.
        found: i64,
    },
    /// What a Raft leader appends must be of its own epoch.
    #[error("a batch of leader epoch {found} from the leader of epoch {expected}")]
    #[non_exhaustive]
    LeaderEpoch {
        /// The epoch of the batch.
        found: i32,
        /// The epoch of the leader.
        expected: LeaderEpoch,
    },
    /// The field for the leader epoch holds what is neither an epoch nor -1, for none.
    #[error("a batch of leader epoch {found}")]
    #[non_exhaustive]
    NegativeEpoch {
        /// The epoch of the batch.
        found: i32,
    },
    /// A batch that brings its offset is of an old format: those are not written.
    #[error("magic {magic} with an offset of its own")]
    #[non_exhaustive]
    OldFormat {
        /// The magic of the batch.
        magic: i8,
    },
    /// An append that the leader assigns offsets to holds one batch.
    #[error("more than one batch in an append")]
    MoreThanOne,
    /// There is no batch.
    #[error("no batch")]
    Empty,
    /// The batch is of another format than the first.
    #[error("magic {found}, the first batch has {first}")]
    #[non_exhaustive]
    MixedMagic {
        /// The magic of the first batch.
        first: i8,
        /// The magic of this one.
        found: i8,
    },
    /// The header promises no record, or another number than its offsets span.
    #[error("{count} records over {span} offsets")]
    #[non_exhaustive]
    Count {
        /// Records that the header promises.
        count: i32,
        /// Offsets from base to last.
        span: i64,
    },
    /// Offsets inside the batch are not 0, 1, 2 and so on.
    #[error("record {index} has offset {offset} within its batch")]
    #[non_exhaustive]
    InnerOffset {
        /// Which record, counted from 0.
        index: u32,
        /// Its offset minus the base offset.
        offset: i64,
    },
    /// A message inside a compressed one fails its own checksum.
    #[error("a message inside a compressed one fails its checksum")]
    InnerChecksum,
    /// The attributes name a codec that does not exist.
    #[error("an unknown codec")]
    UnknownCodec,
    /// Clients may not write control batches.
    #[error("a client's control batch")]
    ClientControl,
    /// A batch names a producer without a sequence.
    #[error("a producer id with base sequence {found}")]
    #[non_exhaustive]
    NoSequence {
        /// The sequence as sent.
        found: i32,
    },
}

/// A record that breaks a rule of its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordError {
    /// Which record of the append, counted from 0.
    pub index: u32,
    /// The rule.
    pub reason: InvalidRecord,
}

/// A rule that one record breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRecord {
    /// The inner message of a wrapper is of another format.
    #[error("its magic is {found}, its batch has {batch}")]
    #[non_exhaustive]
    Magic {
        /// The magic of the batch.
        batch: i8,
        /// The magic of the record.
        found: i8,
    },
    /// A compacted topic needs keys.
    #[error("a record of a compacted topic needs a key")]
    NoKey,
    /// The record's time is too far before or after the leader's clock.
    #[error("its time {timestamp} is outside {min} to {max}")]
    #[non_exhaustive]
    Timestamp {
        /// The record's time, in ms since the epoch.
        timestamp: i64,
        /// The earliest accepted.
        min: i64,
        /// The latest accepted.
        max: i64,
    },
    /// A producer claims that the leader set the time.
    #[error("its producer set the type of its time to LogAppendTime")]
    TimestampType,
}

impl ValidationError {
    /// Kafka's number for this error.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Corrupt { .. } | Self::Batch { reason: InvalidBatch::InnerChecksum, .. } => {
                ErrorCode::CorruptMessage
            }
            Self::Batch { reason: InvalidBatch::OldFormat { .. }, .. } => {
                ErrorCode::UnsupportedForMessageFormat
            }
            Self::OffsetsOutOfOrder { .. }
            | Self::Compress { .. }
            | Self::Batch { reason: InvalidBatch::NegativeEpoch { .. }, .. } => {
                ErrorCode::UnknownServerError
            }
            Self::BatchTooLarge { .. } => ErrorCode::MessageTooLarge,
            Self::Records { records } if records.iter().any(|record| record.reason.is_time()) => {
                ErrorCode::InvalidTimestamp
            }
            Self::Batch { .. } | Self::Unreadable { .. } | Self::Records { .. } => {
                ErrorCode::InvalidRecord
            }
        }
    }

    /// Sorts damage into what was damaged on the way and what was sent so.
    pub(crate) fn from_corruption(source: Corruption) -> Self {
        match source.class() {
            CorruptClass::Corrupt => Self::Corrupt { source },
            _ => Self::Unreadable { source },
        }
    }
}

impl InvalidRecord {
    const fn is_time(self) -> bool {
        matches!(self, Self::Timestamp { .. } | Self::TimestampType)
    }
}

fn first(records: &[RecordError]) -> RecordError {
    records.first().copied().unwrap_or(RecordError { index: 0, reason: InvalidRecord::NoKey })
}
