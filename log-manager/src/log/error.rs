//! Why an operation on a log failed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_recovery::{FileError, LoadError, ProducerError};
use alluvium_segment::{LockError, SegmentError};

use crate::{ErrorCode, ValidationError};

/// Why an operation on a log failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The log is closed.
    #[error("the log in {} is closed", path.display())]
    #[non_exhaustive]
    Closed {
        /// The partition's directory.
        path: PathBuf,
    },
    /// The log's disk has failed before: nothing was tried.
    #[error("{} is offline", path.display())]
    #[non_exhaustive]
    Offline {
        /// The log directory.
        path: PathBuf,
        /// What had failed.
        source: Arc<LogError>,
    },
    /// A file of a segment failed or is damaged.
    #[error(transparent)]
    #[non_exhaustive]
    Segment {
        /// Why.
        source: SegmentError,
    },
    /// Another file of the log failed.
    #[error(transparent)]
    #[non_exhaustive]
    File {
        /// Why.
        source: FileError,
    },
    /// The log could not be brought into order.
    #[error(transparent)]
    #[non_exhaustive]
    Load {
        /// Why.
        source: LoadError,
    },
    /// The directory of the log cannot be used.
    #[error("cannot use {} as the directory of a log", path.display())]
    #[non_exhaustive]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The log directory is in use by somebody else.
    #[error(transparent)]
    #[non_exhaustive]
    Lock {
        /// Why.
        source: LockError,
    },
    /// An offset outside what the operation allows.
    #[error("offset {offset} is outside {min} to {max}")]
    #[non_exhaustive]
    OffsetOutOfRange {
        /// The offset as given.
        offset: Offset,
        /// The smallest that is allowed.
        min: Offset,
        /// The largest that is allowed.
        max: Offset,
    },
    /// An offset that no caller may give, as opposed to one that the log has not or no longer.
    #[error("offset {offset} cannot be used here: {min} to {max} can")]
    #[non_exhaustive]
    IllegalOffset {
        /// The offset as given.
        offset: Offset,
        /// The smallest that is allowed.
        min: Offset,
        /// The largest that is allowed.
        max: Offset,
    },
    /// A number below 0 was given as the epoch of a leader.
    #[error("{epoch} is not the epoch of a leader")]
    #[non_exhaustive]
    NegativeEpoch {
        /// The number.
        epoch: LeaderEpoch,
    },
    /// Records of a log that is only compacted cannot be deleted by offset.
    #[error("records of a compacted log cannot be deleted by offset")]
    NotDeletable,
    /// Segments that were to be replaced are not, or no longer, neighbours in the log.
    #[error("the segments to replace are no longer those of the log in {}", path.display())]
    #[non_exhaustive]
    SegmentsChanged {
        /// The partition's directory.
        path: PathBuf,
    },
    /// A segment of that base offset exists and holds records.
    #[error("a segment with base offset {base} exists already")]
    #[non_exhaustive]
    SegmentExists {
        /// The base offset.
        base: Offset,
    },
}

/// Why batches were not appended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The batches break a rule.
    #[error("the batches are refused")]
    #[non_exhaustive]
    Refused {
        /// Which rule.
        source: ValidationError,
    },
    /// The batches are larger than a segment.
    #[error("an append of {size_bytes} bytes is larger than a segment of {max_bytes}")]
    #[non_exhaustive]
    LargerThanSegment {
        /// Bytes of the append.
        size_bytes: u64,
        /// Bytes of a segment.
        max_bytes: u32,
    },
    /// An append that brings its own offsets begins, or its first batch ends, below the log end.
    #[error("an append from offset {first_offset} on, the log ends at {log_end_offset}")]
    #[non_exhaustive]
    BelowLogEnd {
        /// The first offset.
        first_offset: Offset,
        /// The last offset.
        last_offset: Offset,
        /// The next offset of the log.
        log_end_offset: Offset,
    },
    /// There is no offset after the last one of the append.
    #[error("an append from offset {first_offset} on reaches the end of all offsets")]
    #[non_exhaustive]
    OffsetsExhausted {
        /// The first offset.
        first_offset: Offset,
    },
    /// A producer's sequence, epoch or transaction does not fit.
    #[error("the producer is refused")]
    #[non_exhaustive]
    Producer {
        /// Why.
        source: ProducerError,
    },
    /// The log itself failed.
    #[error(transparent)]
    #[non_exhaustive]
    Log {
        /// Why.
        source: LogError,
    },
}

impl LogError {
    /// Kafka's number for this error.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::OffsetOutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            Self::NotDeletable => ErrorCode::PolicyViolation,
            Self::Segment { source: SegmentError::Corrupt { .. } } => ErrorCode::CorruptMessage,
            Self::Segment {
                source:
                    SegmentError::OffsetOverflow { .. }
                    | SegmentError::OutOfOrder { .. }
                    | SegmentError::TooLarge { .. },
            }
            | Self::IllegalOffset { .. }
            | Self::NegativeEpoch { .. }
            | Self::SegmentExists { .. }
            | Self::SegmentsChanged { .. } => ErrorCode::UnknownServerError,
            Self::Closed { .. }
            | Self::Load { .. }
            | Self::Directory { .. }
            | Self::Lock { .. }
            | Self::Offline { .. }
            | Self::Segment { .. }
            | Self::File { .. } => ErrorCode::KafkaStorageError,
        }
    }
}

impl AppendError {
    /// Kafka's number for this error.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { source } => source.code(),
            Self::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
            Self::BelowLogEnd { .. } | Self::OffsetsExhausted { .. } => {
                ErrorCode::UnknownServerError
            }
            Self::Producer { source } => match source {
                ProducerError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
                ProducerError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
                ProducerError::InvalidTxnState { .. } => ErrorCode::InvalidTxnState,
                ProducerError::TransactionCoordinatorFenced { .. } => {
                    ErrorCode::TransactionCoordinatorFenced
                }
                _ => ErrorCode::UnknownServerError,
            },
            Self::Log { source } => source.code(),
        }
    }
}

impl From<LogError> for AppendError {
    fn from(source: LogError) -> Self {
        Self::Log { source }
    }
}

impl From<ValidationError> for AppendError {
    fn from(source: ValidationError) -> Self {
        Self::Refused { source }
    }
}

impl From<SegmentError> for LogError {
    fn from(source: SegmentError) -> Self {
        Self::Segment { source }
    }
}

impl From<FileError> for LogError {
    fn from(source: FileError) -> Self {
        Self::File { source }
    }
}
