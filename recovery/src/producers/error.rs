//! Why a batch of a producer is refused.

use alluvium_record_format::{Offset, ProducerEpoch, ProducerId, Sequence};

/// Why a batch of a producer is refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProducerError {
    /// The producer has a newer instance: this one is fenced.
    #[error("producer {producer_id} at offset {offset}: epoch {found}, the latest is {current}")]
    #[non_exhaustive]
    InvalidProducerEpoch {
        /// The producer.
        producer_id: ProducerId,
        /// The offset that the batch would have.
        offset: Offset,
        /// The epoch of the batch.
        found: ProducerEpoch,
        /// The latest epoch of the producer.
        current: ProducerEpoch,
    },
    /// The batch does not follow the producer's last one.
    #[error("producer {producer_id} at offset {offset}: sequence {found} after {last}")]
    #[non_exhaustive]
    OutOfOrderSequence {
        /// The producer.
        producer_id: ProducerId,
        /// The offset that the batch would have.
        offset: Offset,
        /// The first sequence of the batch.
        found: Sequence,
        /// The last sequence of this epoch, -1 where 0 must come first.
        last: Sequence,
    },
    /// A record of a transaction that was not announced to the coordinator, or a record outside
    /// the transaction that is open.
    #[error("producer {producer_id} at offset {offset}: not what its transaction allows")]
    #[non_exhaustive]
    InvalidTxnState {
        /// The producer.
        producer_id: ProducerId,
        /// The offset that the batch would have.
        offset: Offset,
    },
    /// A newer coordinator has taken over from the one that wrote the marker.
    #[error("producer {producer_id} at offset {offset}: coordinator epoch {found} below {current}")]
    #[non_exhaustive]
    TransactionCoordinatorFenced {
        /// The producer.
        producer_id: ProducerId,
        /// The offset that the marker would have.
        offset: Offset,
        /// The epoch of the coordinator that wrote the marker.
        found: i32,
        /// The latest epoch of a coordinator.
        current: i32,
    },
    /// A marker of other origin than replication comes without the version of the transaction
    /// protocol. A fault of the caller.
    #[error("producer {producer_id} at offset {offset}: a marker without a transaction version")]
    #[non_exhaustive]
    MissingTransactionVersion {
        /// The producer.
        producer_id: ProducerId,
        /// The offset that the marker would have.
        offset: Offset,
    },
}

impl ProducerError {
    /// The number of Kafka's protocol for this error, as in `Errors`; -1 for what has none.
    #[must_use]
    pub const fn code(&self) -> i16 {
        match self {
            Self::OutOfOrderSequence { .. } => 45,
            Self::InvalidProducerEpoch { .. } => 47,
            Self::InvalidTxnState { .. } => 48,
            Self::TransactionCoordinatorFenced { .. } => 52,
            Self::MissingTransactionVersion { .. } => -1,
        }
    }

    /// The producer of the batch.
    #[must_use]
    pub const fn producer_id(&self) -> ProducerId {
        match self {
            Self::InvalidProducerEpoch { producer_id, .. }
            | Self::OutOfOrderSequence { producer_id, .. }
            | Self::InvalidTxnState { producer_id, .. }
            | Self::TransactionCoordinatorFenced { producer_id, .. }
            | Self::MissingTransactionVersion { producer_id, .. } => *producer_id,
        }
    }
}
