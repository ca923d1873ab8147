//! The checks of one producer's batches within one append, in Kafka's order.

use alluvium_record_format::{ProducerEpoch, Sequence};

use super::txns::{CompletedTxn, OngoingTxn};
use super::verification::VerificationEntry;
use super::{AppendOrigin, BatchContent, ProducerBatch, ProducerEntry, ProducerError, TxnMarker};

/// The producer before its first batch.
const NO_EPOCH: ProducerEpoch = ProducerEpoch::new(-1);

/// The sequence before 0 in a new epoch.
const NO_SEQUENCE: Sequence = Sequence::new(-1);

/// One producer within one append: what it was, and what it will be if the append succeeds.
///
/// Source: `ProducerAppendInfo` in Kafka.
#[derive(Clone, Debug)]
pub(super) struct ProducerUpdate {
    /// The stored entry's epoch, last sequence and whether it knows batches.
    stored: Stored,
    verification: Option<VerificationEntry>,
    /// The new entry, with the batches of this append alone.
    pub(super) entry: ProducerEntry,
    pub(super) started: Vec<OngoingTxn>,
    /// Whether the verification of the producer's transaction is used up.
    pub(super) clears_verification: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    epoch: ProducerEpoch,
    last_sequence: Sequence,
    is_empty: bool,
}

impl ProducerUpdate {
    pub(super) fn new(
        batch: &ProducerBatch,
        stored: Option<&ProducerEntry>,
        verification: Option<&VerificationEntry>,
    ) -> Self {
        let last = stored.and_then(ProducerEntry::last_batch);
        Self {
            stored: Stored {
                epoch: stored.map_or(NO_EPOCH, |entry| entry.producer_epoch),
                last_sequence: last.map_or(NO_SEQUENCE, |batch| batch.last_sequence),
                is_empty: last.is_none(),
            },
            verification: verification.copied(),
            entry: stored.map_or_else(
                || ProducerEntry::new(batch.producer_id, NO_EPOCH),
                ProducerEntry::without_batches,
            ),
            started: Vec::new(),
            clears_verification: false,
        }
    }

    /// Checks a batch and takes it into the new entry. A marker may end a transaction.
    pub(super) fn append(
        &mut self,
        batch: &ProducerBatch,
        origin: AppendOrigin,
        transaction_version: Option<i16>,
    ) -> Result<Option<CompletedTxn>, ProducerError> {
        let completed = match &batch.content {
            BatchContent::Data => self.append_data(batch, origin).map(|()| None)?,
            BatchContent::Marker(marker) => {
                self.append_marker(batch, marker, origin, transaction_version)?
            }
            BatchContent::EmptyControl => None,
        };
        self.clears_verification |= batch.is_transactional && !self.keeps_verification(batch);
        Ok(completed)
    }

    fn append_data(
        &mut self,
        batch: &ProducerBatch,
        origin: AppendOrigin,
    ) -> Result<(), ProducerError> {
        self.check_epoch(batch, origin, 0)?;
        if origin == AppendOrigin::Client {
            self.check_sequence(batch)?;
        }
        self.entry.add_batch(batch.producer_epoch, batch.metadata());
        match (self.entry.current_txn_first_offset, batch.is_transactional) {
            (Some(_), false) => Err(ProducerError::InvalidTxnState {
                producer_id: batch.producer_id,
                offset: batch.base_offset,
            }),
            (None, true) => {
                self.begin(batch);
                Ok(())
            }
            (Some(_), true) | (None, false) => Ok(()),
        }
    }

    fn begin(&mut self, batch: &ProducerBatch) {
        self.entry.current_txn_first_offset = Some(batch.base_offset);
        self.started.push(OngoingTxn {
            producer_id: batch.producer_id,
            first_offset: batch.base_offset,
            place: batch.place,
        });
    }

    fn append_marker(
        &mut self,
        batch: &ProducerBatch,
        marker: &TxnMarker,
        origin: AppendOrigin,
        transaction_version: Option<i16>,
    ) -> Result<Option<CompletedTxn>, ProducerError> {
        let (producer_id, offset) = (batch.producer_id, batch.base_offset);
        let version = match (transaction_version, origin) {
            (Some(version), _) => version,
            (None, AppendOrigin::Replication) => 0,
            (None, _) => {
                return Err(ProducerError::MissingTransactionVersion { producer_id, offset });
            }
        };
        self.check_epoch(batch, origin, version)?;
        self.check_coordinator(batch, marker, origin)?;
        let first = self.entry.current_txn_first_offset;
        self.entry.end_txn(batch.producer_epoch, marker);
        // A marker without records before it changes nothing that a reader sees.
        Ok(first.map(|first| CompletedTxn::new(producer_id, first, offset, marker.is_abort)))
    }

    /// Refuses a stale epoch. With transactions version 2 a marker comes with a new epoch, except
    /// when it is sent again, or when the epochs are used up.
    fn check_epoch(
        &self,
        batch: &ProducerBatch,
        origin: AppendOrigin,
        transaction_version: i16,
    ) -> Result<(), ProducerError> {
        let (found, current) = (batch.producer_epoch, self.entry.producer_epoch);
        let stale = if transaction_version >= 2 { found <= current } else { found < current };
        let is_retry = transaction_version >= 2
            && found == current
            && (self.entry.current_txn_first_offset.is_none() || found == ProducerEpoch::MAX);
        if !stale || is_retry {
            return Ok(());
        }
        let (producer_id, offset) = (batch.producer_id, batch.base_offset);
        let error = ProducerError::InvalidProducerEpoch { producer_id, offset, found, current };
        if origin == AppendOrigin::Replication {
            tracing::warn!(%error, "replicated batch of a stale producer epoch");
            return Ok(());
        }
        Err(error)
    }

    fn check_coordinator(
        &self,
        batch: &ProducerBatch,
        marker: &TxnMarker,
        origin: AppendOrigin,
    ) -> Result<(), ProducerError> {
        let (found, current) = (marker.coordinator_epoch, self.entry.coordinator_epoch);
        let Some(current) = current.filter(|&current| current > found) else { return Ok(()) };
        let error = ProducerError::TransactionCoordinatorFenced {
            producer_id: batch.producer_id,
            offset: batch.base_offset,
            found,
            current,
        };
        if origin == AppendOrigin::Replication {
            tracing::info!(%error, "replicated marker of a fenced coordinator");
            return Ok(());
        }
        Err(error)
    }

    fn check_sequence(&self, batch: &ProducerBatch) -> Result<(), ProducerError> {
        let first = batch.base_sequence;
        let refuse = |last| {
            Err(ProducerError::OutOfOrderSequence {
                producer_id: batch.producer_id,
                offset: batch.base_offset,
                found: first,
                last,
            })
        };
        if let Some(verification) = &self.verification {
            let must_be_first = verification.supports_epoch_bump && self.stored.is_empty;
            if (must_be_first && first.get() != 0) || first > verification.lowest_sequence {
                return refuse(NO_SEQUENCE);
            }
        }
        if batch.producer_epoch != self.entry.producer_epoch {
            let is_known = self.entry.producer_epoch != NO_EPOCH;
            return if is_known && first.get() != 0 { refuse(NO_SEQUENCE) } else { Ok(()) };
        }
        let last = match self.entry.last_batch() {
            Some(batch) => batch.last_sequence,
            None if batch.producer_epoch == self.stored.epoch => self.stored.last_sequence,
            None => NO_SEQUENCE,
        };
        // A producer that is not known may start anywhere: its past may have been deleted.
        if self.stored.epoch == NO_EPOCH || follows(last, first) { Ok(()) } else { refuse(last) }
    }

    /// A marker of transactions version 2 may come before the first record of the next
    /// transaction is verified and appended under the same epoch.
    fn keeps_verification(&self, batch: &ProducerBatch) -> bool {
        batch.content != BatchContent::Data
            && self.verification.as_ref().is_some_and(|entry| {
                entry.supports_epoch_bump && entry.producer_epoch == batch.producer_epoch
            })
    }
}

/// Whether `next` is the sequence after `last`; after the largest comes 0.
fn follows(last: Sequence, next: Sequence) -> bool {
    let (last, next) = (last.get(), next.get());
    last.checked_add(1) == Some(next) || (last == i32::MAX && next == 0)
}
