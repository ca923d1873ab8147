//! Kafka's numbers for errors, as they go over the wire.

use std::fmt;

/// An error of Kafka's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// -1: anything without a number of its own.
    UnknownServerError,
    /// 1: an offset below the log start or above the log end.
    OffsetOutOfRange,
    /// 2: a batch fails its checksum or has an impossible size.
    CorruptMessage,
    /// 10: a batch is above `max.message.bytes`.
    MessageTooLarge,
    /// 18: an append is larger than a segment.
    RecordListTooLarge,
    /// 32: a record's time is too far from the leader's clock.
    InvalidTimestamp,
    /// 43: the format of the batch cannot hold what it claims.
    UnsupportedForMessageFormat,
    /// 44: the topic's settings forbid the operation.
    PolicyViolation,
    /// 45: a producer's sequence does not follow its last.
    OutOfOrderSequenceNumber,
    /// 47: a newer producer took over.
    InvalidProducerEpoch,
    /// 48: a write that does not fit the state of its transaction.
    InvalidTxnState,
    /// 52: a newer transaction coordinator took over.
    TransactionCoordinatorFenced,
    /// 56: the disk failed, or the log is closed.
    KafkaStorageError,
    /// 87: a record or batch breaks a rule.
    InvalidRecord,
    /// 103: the directory belongs to another topic of the same name.
    InconsistentTopicId,
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::UnknownServerError => -1,
            Self::OffsetOutOfRange => 1,
            Self::CorruptMessage => 2,
            Self::MessageTooLarge => 10,
            Self::RecordListTooLarge => 18,
            Self::InvalidTimestamp => 32,
            Self::UnsupportedForMessageFormat => 43,
            Self::PolicyViolation => 44,
            Self::OutOfOrderSequenceNumber => 45,
            Self::InvalidProducerEpoch => 47,
            Self::InvalidTxnState => 48,
            Self::TransactionCoordinatorFenced => 52,
            Self::KafkaStorageError => 56,
            Self::InvalidRecord => 87,
            Self::InconsistentTopicId => 103,
        }
    }

    /// Kafka's name, as in `Errors.java`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownServerError => "UNKNOWN_SERVER_ERROR",
            Self::OffsetOutOfRange => "OFFSET_OUT_OF_RANGE",
            Self::CorruptMessage => "CORRUPT_MESSAGE",
            Self::MessageTooLarge => "MESSAGE_TOO_LARGE",
            Self::RecordListTooLarge => "RECORD_LIST_TOO_LARGE",
            Self::InvalidTimestamp => "INVALID_TIMESTAMP",
            Self::UnsupportedForMessageFormat => "UNSUPPORTED_FOR_MESSAGE_FORMAT",
            Self::PolicyViolation => "POLICY_VIOLATION",
            Self::OutOfOrderSequenceNumber => "OUT_OF_ORDER_SEQUENCE_NUMBER",
            Self::InvalidProducerEpoch => "INVALID_PRODUCER_EPOCH",
            Self::InvalidTxnState => "INVALID_TXN_STATE",
            Self::TransactionCoordinatorFenced => "TRANSACTION_COORDINATOR_FENCED",
            Self::KafkaStorageError => "KAFKA_STORAGE_ERROR",
            Self::InvalidRecord => "INVALID_RECORD",
            Self::InconsistentTopicId => "INCONSISTENT_TOPIC_ID",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.code())
    }
}
