//! Why a batch could not be built.

use crate::CompressError;

/// A record or a setting that Kafka's own builder refuses, or that no batch can hold.
///
/// Source: `MemoryRecordsBuilder` in Kafka; `docs/format/record-batch.md#building`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Offsets of a batch must rise.
    #[error("offset {offset} does not follow {last}")]
    #[non_exhaustive]
    OffsetOrder {
        /// The refused offset.
        offset: i64,
        /// The last offset of the batch so far.
        last: i64,
    },
    /// An offset lies below the base offset or too far above it.
    #[error("offset {offset} is not within 2147483647 of the base offset {base}")]
    #[non_exhaustive]
    OffsetRange {
        /// The refused offset.
        offset: i64,
        /// The base offset of the batch.
        base: i64,
    },
    /// A time is below 0; none at all is `None`, stored as -1.
    #[error("timestamp {found} is negative")]
    #[non_exhaustive]
    Timestamp {
        /// The refused time in milliseconds.
        found: i64,
    },
    /// Control records stand in control batches, all other records in other batches.
    #[error("control records and other records do not mix (control batch: {control_batch})")]
    #[non_exhaustive]
    ControlMix {
        /// Whether the batch is a control batch.
        control_batch: bool,
    },
    /// A control record of a type that has no encoding here.
    #[error("control record type {type_id} cannot be written")]
    #[non_exhaustive]
    UnknownControl {
        /// The type of the record.
        type_id: i16,
    },
    /// The batch would not fit into its 32-bit length field.
    #[error("the batch would take {size_bytes} bytes, above 2147483647")]
    #[non_exhaustive]
    TooLarge {
        /// Bytes that the batch would have.
        size_bytes: u64,
    },
    /// A transactional batch names no producer.
    #[error("a transactional batch without a producer id")]
    NoProducerId,
    /// A batch with a producer id has no epoch.
    #[error("a batch with a producer id, without a producer epoch")]
    NoProducerEpoch,
    /// A batch with a producer id, which is not a control batch, has no sequence.
    #[error("a batch with a producer id, without a base sequence")]
    NoSequence,
    /// The codec refused its level, failed, or is not compiled in.
    #[error("cannot compress the records")]
    #[non_exhaustive]
    Compress {
        /// What the codec says.
        source: CompressError,
    },
    /// A record came in pieces, and not all of them.
    #[error("the last record lacks {missing_bytes} of its bytes")]
    #[non_exhaustive]
    PieceMissing {
        /// Bytes that are still to come.
        missing_bytes: usize,
    },
    /// A piece is longer than what its record lacks.
    #[error("a piece of {found} bytes, where the record lacks {missing_bytes}")]
    #[non_exhaustive]
    PieceTooLong {
        /// Bytes that were still to come.
        missing_bytes: usize,
        /// Bytes of the piece.
        found: usize,
    },
    /// A piece was lost, or the compressor failed within the batch.
    #[error("the batch is incomplete after an earlier error")]
    Broken,
    /// A new base timestamp would change the times of records.
    #[error("a new base timestamp would move the times of {record_count} records")]
    #[non_exhaustive]
    RecordTimes {
        /// Records of the batch.
        record_count: i32,
    },
}

impl From<CompressError> for BuildError {
    fn from(source: CompressError) -> Self {
        Self::Compress { source }
    }
}
