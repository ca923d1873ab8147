//! One producer of a log.

use alluvium_record_format::{Offset, ProducerEpoch, ProducerId, Timestamp};

use crate::{BatchMetadata, BatchWindow};

/// What a log knows about one producer.
///
/// Source: `ProducerStateEntry` in Kafka; `docs/format/producer-snapshot.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerEntry {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its latest epoch; -1 before its first batch.
    pub producer_epoch: ProducerEpoch,
    /// The epoch of the transaction coordinator that wrote its last marker.
    pub coordinator_epoch: Option<i32>,
    /// The time of its last batch or marker, as the records say; -1 for none.
    pub last_timestamp: Timestamp,
    /// Where its open transaction began, if one is open.
    pub current_txn_first_offset: Option<Offset>,
    /// Its last batches of `producer_epoch`.
    pub batches: BatchWindow,
}

impl ProducerEntry {
    /// A producer without batches.
    #[must_use]
    pub fn new(producer_id: ProducerId, producer_epoch: ProducerEpoch) -> Self {
        Self {
            producer_id,
            producer_epoch,
            coordinator_epoch: None,
            last_timestamp: Timestamp::new(-1),
            current_txn_first_offset: None,
            batches: BatchWindow::default(),
        }
    }

    /// The newest batch, if one is known.
    #[must_use]
    pub fn last_batch(&self) -> Option<&BatchMetadata> {
        self.batches.last()
    }
}
