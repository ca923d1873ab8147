//! One producer of a log.

use alluvium_record_format::{Offset, ProducerEpoch, ProducerId, Timestamp};

use crate::{BatchMetadata, BatchWindow, ProducerBatch, TxnMarker};

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

    /// Takes over what an append has added to a copy of this entry without its batches.
    pub(super) fn update(&mut self, next: &Self) {
        self.set_epoch(next.producer_epoch);
        self.batches.extend(next.batches.as_slice().iter().copied());
        self.coordinator_epoch = next.coordinator_epoch;
        self.current_txn_first_offset = next.current_txn_first_offset;
        self.last_timestamp = next.last_timestamp;
    }

    /// Adds a batch; one of a new epoch drops those of the old.
    pub(super) fn add_batch(&mut self, epoch: ProducerEpoch, batch: BatchMetadata) {
        self.set_epoch(epoch);
        self.batches.push(batch);
        self.last_timestamp = batch.timestamp;
    }

    /// Ends the transaction. Batches of the same epoch stay.
    pub(super) fn end_txn(&mut self, epoch: ProducerEpoch, marker: &TxnMarker) {
        self.set_epoch(epoch);
        self.coordinator_epoch = Some(marker.coordinator_epoch);
        self.current_txn_first_offset = None;
        self.last_timestamp = marker.timestamp;
    }

    /// A copy without the batches, to which an append adds its own.
    pub(super) fn without_batches(&self) -> Self {
        Self { batches: BatchWindow::default(), ..self.clone() }
    }

    /// Whether the producer is forgotten: no open transaction, and no sign of life for so long.
    pub(super) fn is_expired(&self, now: Timestamp, expiration_ms: i64) -> bool {
        let age = now.get().saturating_sub(self.last_timestamp.get());
        self.current_txn_first_offset.is_none() && age >= expiration_ms
    }

    /// The earlier append of a batch of this epoch with exactly these sequences.
    pub(super) fn duplicate_of(&self, batch: &ProducerBatch) -> Option<&BatchMetadata> {
        let same = |known: &&BatchMetadata| {
            known.first_sequence() == batch.base_sequence
                && known.last_sequence == batch.last_sequence
        };
        let batches = self.batches.as_slice();
        batches.iter().find(same).filter(|_| batch.producer_epoch == self.producer_epoch)
    }

    fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if self.producer_epoch != epoch {
            self.batches.clear();
            self.producer_epoch = epoch;
        }
    }
}
