//! Which error of ours stands for which exception of Kafka's.

use alluvium_log_manager::{AppendError, LogError, ValidationError};
use alluvium_recovery::ProducerError;

/// An operation of ours that failed.
#[derive(Debug)]
pub(super) enum Failure {
    Append(AppendError),
    Log(LogError),
}

/// Whether an error of ours is of one kind.
type Test = fn(&Failure) -> bool;

/// The one table: simple names of Kafka's exception classes beside our errors.
const TABLE: &[(&str, Test)] = &[
    ("CorruptRecordException", |it| {
        matches!(it.validation(), Some(ValidationError::Corrupt { .. }))
    }),
    ("InvalidRecordException", |it| {
        let Some(error) = it.validation() else { return false };
        matches!(error, ValidationError::Batch { .. } | ValidationError::Unreadable { .. })
    }),
    ("RecordValidationException", |it| {
        matches!(it.validation(), Some(ValidationError::Records { .. }))
    }),
    ("RecordTooLargeException", |it| {
        matches!(it.validation(), Some(ValidationError::BatchTooLarge { .. }))
    }),
    ("OffsetsOutOfOrderException", |it| {
        matches!(it.validation(), Some(ValidationError::OffsetsOutOfOrder { .. }))
    }),
    ("RecordBatchTooLargeException", |it| {
        matches!(it, Failure::Append(AppendError::LargerThanSegment { .. }))
    }),
    ("UnexpectedAppendOffsetException", |it| {
        matches!(it, Failure::Append(AppendError::BelowLogEnd { .. }))
    }),
    ("OutOfOrderSequenceException", |it| {
        matches!(it.producer(), Some(ProducerError::OutOfOrderSequence { .. }))
    }),
    ("InvalidProducerEpochException", |it| {
        matches!(it.producer(), Some(ProducerError::InvalidProducerEpoch { .. }))
    }),
    ("InvalidTxnStateException", |it| {
        matches!(it.producer(), Some(ProducerError::InvalidTxnState { .. }))
    }),
    ("TransactionCoordinatorFencedException", |it| {
        matches!(it.producer(), Some(ProducerError::TransactionCoordinatorFenced { .. }))
    }),
    ("IllegalArgumentException", |it| {
        matches!(it.log(), Some(LogError::IllegalOffset { .. } | LogError::NegativeEpoch { .. }))
            || matches!(it.producer(), Some(ProducerError::MissingTransactionVersion { .. }))
    }),
    // A roll that an append without room has begun stands in the way of the next.
    ("KafkaException", |it| matches!(it.log(), Some(LogError::SegmentExists { .. }))),
    ("OffsetOutOfRangeException", |it| {
        matches!(it, Failure::Log(LogError::OffsetOutOfRange { .. }))
    }),
    ("PolicyViolationException", |it| matches!(it, Failure::Log(LogError::NotDeletable))),
    ("KafkaStorageException", |it| {
        matches!(it.log(), Some(LogError::Closed { .. } | LogError::Offline { .. }))
    }),
];

impl Failure {
    /// Whether this is the kind of error that Kafka's class stands for.
    pub(super) fn is(&self, class: &str) -> bool {
        TABLE.iter().any(|(name, matches)| *name == class && matches(self))
    }

    const fn validation(&self) -> Option<&ValidationError> {
        match self {
            Self::Append(AppendError::Refused { source, .. }) => Some(source),
            _ => None,
        }
    }

    const fn producer(&self) -> Option<&ProducerError> {
        match self {
            Self::Append(AppendError::Producer { source, .. }) => Some(source),
            _ => None,
        }
    }

    const fn log(&self) -> Option<&LogError> {
        match self {
            Self::Append(AppendError::Log { source, .. }) | Self::Log(source) => Some(source),
            Self::Append(_) => None,
        }
    }
}
