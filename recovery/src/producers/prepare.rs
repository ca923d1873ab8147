//! An append that is checked, and changes nothing until it is written.

use alluvium_record_format::ProducerId;

use super::check::ProducerUpdate;
use super::{
    AppendOrigin, BatchContent, CompletedTxn, ProducerBatch, ProducerError, ProducerState,
    VerificationGuard,
};
use crate::BatchMetadata;

/// How an append comes about.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AppendRequest {
    /// Who appends.
    pub origin: AppendOrigin,
    /// The guard of the verified transaction, if the append has one.
    pub verification_guard: Option<VerificationGuard>,
    /// The version of the transaction protocol, needed for markers that are not replicated.
    pub transaction_version: Option<i16>,
}

impl AppendRequest {
    /// An append of this origin, without a guard.
    #[must_use]
    pub const fn new(origin: AppendOrigin) -> Self {
        Self { origin, verification_guard: None, transaction_version: None }
    }

    /// Adds the guard of a verified transaction.
    #[must_use]
    pub const fn with_guard(self, guard: Option<VerificationGuard>) -> Self {
        Self { verification_guard: guard, ..self }
    }

    /// Adds the version of the transaction protocol.
    #[must_use]
    pub const fn with_transaction_version(self, version: i16) -> Self {
        Self { transaction_version: Some(version), ..self }
    }
}

/// The outcome of checking an append.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Prepared {
    /// Write the bytes, then apply this.
    Append(PreparedAppend),
    /// The append is a retry: answer with the offsets of the first one, and write nothing.
    Duplicate(BatchMetadata),
}

/// What an append will change, once its bytes are written. Dropping it changes nothing.
#[derive(Clone, Debug, Default)]
pub struct PreparedAppend {
    pub(super) updates: Vec<ProducerUpdate>,
    pub(super) completed: Vec<CompletedTxn>,
}

impl PreparedAppend {
    /// The transactions that the append ends.
    #[must_use]
    pub fn completed(&self) -> &[CompletedTxn] {
        &self.completed
    }
}

impl ProducerState {
    /// Checks the batches of one append, those without a producer left out.
    ///
    /// Changes nothing: [`apply`](Self::apply) does, after the bytes are written. Without
    /// batches it neither allocates nor looks anything up.
    ///
    /// Source: `UnifiedLog.analyzeAndValidateProducerState` in Kafka.
    ///
    /// # Errors
    ///
    /// The first check that a batch fails; the append must then be refused as a whole.
    pub fn prepare(
        &self,
        request: &AppendRequest,
        batches: impl IntoIterator<Item = ProducerBatch>,
    ) -> Result<Prepared, ProducerError> {
        let mut prepared = PreparedAppend::default();
        for batch in batches {
            let stored = self.producer(batch.producer_id);
            if request.origin == AppendOrigin::Client
                && let Some(known) = stored.and_then(|entry| entry.duplicate_of(&batch))
            {
                return Ok(Prepared::Duplicate(*known));
            }
            self.check_transaction(request, &batch)?;
            let mut update = prepared.take_update(batch.producer_id).unwrap_or_else(|| {
                ProducerUpdate::new(&batch, stored, self.verification(batch.producer_id))
            });
            let completed = update.append(&batch, request.origin, request.transaction_version)?;
            prepared.updates.push(update);
            prepared.completed.extend(completed);
        }
        Ok(Prepared::Append(prepared))
    }

    /// A transaction may only begin if the coordinator knows it: a record that comes late, after
    /// the transaction has ended, would otherwise hang for ever.
    fn check_transaction(
        &self,
        request: &AppendRequest,
        batch: &ProducerBatch,
    ) -> Result<(), ProducerError> {
        let (producer_id, offset) = (batch.producer_id, batch.base_offset);
        let is_checked = matches!(request.origin, AppendOrigin::Client | AppendOrigin::Coordinator);
        let found = batch.producer_epoch;
        if !is_checked
            || !batch.is_transactional
            || self.has_ongoing_transaction(producer_id, found)
        {
            return Ok(());
        }
        let current = self.producer(producer_id).map(|entry| entry.producer_epoch);
        if let Some(current) = current.filter(|&current| found < current) {
            return Err(ProducerError::InvalidProducerEpoch {
                producer_id,
                offset,
                found,
                current,
            });
        }
        let known = self.verification(producer_id).map(|entry| entry.guard);
        let is_verified = known.is_some() && known == request.verification_guard;
        if self.config().transaction_verification
            && batch.content == BatchContent::Data
            && !is_verified
        {
            return Err(ProducerError::InvalidTxnState { producer_id, offset });
        }
        Ok(())
    }
}

impl PreparedAppend {
    /// Takes the producer out, for another batch of the same append.
    fn take_update(&mut self, producer_id: ProducerId) -> Option<ProducerUpdate> {
        let index = self.updates.iter().position(|it| it.entry.producer_id == producer_id)?;
        Some(self.updates.swap_remove(index))
    }
}
