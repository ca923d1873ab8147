//! Transactions that are announced to the coordinator but have no record here yet.

use alluvium_record_format::{ProducerEpoch, ProducerId, Sequence, Timestamp};

/// The proof that the coordinator knows a transaction: handed out when its verification starts,
/// handed back with the append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VerificationGuard(pub(super) u64);

/// A transaction whose verification starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerificationRequest {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// The first sequence of the batch that waits.
    pub sequence: Sequence,
    /// Whether the producer's epoch rises with every transaction (transactions version 2).
    pub supports_epoch_bump: bool,
}

impl VerificationRequest {
    /// A request for a batch of this producer, epoch and first sequence.
    #[must_use]
    pub const fn new(
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        sequence: Sequence,
    ) -> Self {
        Self { producer_id, producer_epoch, sequence, supports_epoch_bump: false }
    }

    /// Says that the producer's epoch rises with every transaction.
    #[must_use]
    pub const fn with_epoch_bump(self) -> Self {
        Self { supports_epoch_bump: true, ..self }
    }
}

/// A verification that has started. Lives in memory alone.
///
/// Source: `VerificationStateEntry` in Kafka.
#[derive(Clone, Copy, Debug)]
pub(super) struct VerificationEntry {
    pub(super) guard: VerificationGuard,
    pub(super) created: Timestamp,
    pub(super) lowest_sequence: Sequence,
    pub(super) producer_epoch: ProducerEpoch,
    pub(super) supports_epoch_bump: bool,
}

impl VerificationEntry {
    /// Notes another request of the same producer.
    pub(super) fn note(&mut self, request: &VerificationRequest) {
        if request.producer_epoch == self.producer_epoch {
            self.lowest_sequence = self.lowest_sequence.min(request.sequence);
        } else if request.producer_epoch > self.producer_epoch {
            self.producer_epoch = request.producer_epoch;
            self.lowest_sequence = request.sequence;
        }
    }
}
