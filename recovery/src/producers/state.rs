//! The producers and transactions of one log.

use std::collections::HashMap;

use alluvium_record_format::{Offset, ProducerEpoch, ProducerId, Timestamp};

use super::txns::Transactions;
use super::verification::VerificationEntry;
use super::{
    BatchContent, CompletedTxn, OngoingTxn, PreparedAppend, ProducerBatch, ProducerEntry,
    ProducerError, VerificationGuard, VerificationRequest,
};

/// Settings of producer state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerStateConfig {
    /// How long a producer is remembered after its last record, in ms of record time:
    /// `producer.id.expiration.ms`, default one day.
    pub producer_id_expiration_ms: i64,
    /// Whether the first record of a transaction needs the coordinator's word:
    /// `transaction.partition.verification.enable`, default true.
    pub transaction_verification: bool,
    /// `transaction.max.timeout.ms`, default 15 minutes; five more make a transaction late.
    pub max_transaction_timeout_ms: i64,
}

impl ProducerStateConfig {
    /// Kafka's defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            producer_id_expiration_ms: 86_400_000,
            transaction_verification: true,
            max_transaction_timeout_ms: 900_000,
        }
    }

    /// Sets `producer.id.expiration.ms`.
    #[must_use]
    pub const fn producer_id_expiration_ms(self, ms: i64) -> Self {
        Self { producer_id_expiration_ms: ms, ..self }
    }

    /// Sets `transaction.partition.verification.enable`.
    #[must_use]
    pub const fn transaction_verification(self, enabled: bool) -> Self {
        Self { transaction_verification: enabled, ..self }
    }

    /// Sets `transaction.max.timeout.ms`.
    #[must_use]
    pub const fn max_transaction_timeout_ms(self, ms: i64) -> Self {
        Self { max_transaction_timeout_ms: ms, ..self }
    }
}

impl Default for ProducerStateConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// What a log knows about its producers, up to an offset.
///
/// Owned by the log under its writer lock; does no I/O and holds no lock. An append is checked by
/// [`prepare`](Self::prepare), written, then taken over by [`apply`](Self::apply), so that state
/// never runs ahead of the bytes.
///
/// Source: `ProducerStateManager` in Kafka.
#[derive(Clone, Debug, Default)]
pub struct ProducerState {
    config: ProducerStateConfig,
    producers: HashMap<ProducerId, ProducerEntry>,
    txns: Transactions,
    verifications: HashMap<ProducerId, VerificationEntry>,
    guards: u64,
    map_end_offset: Offset,
    snapshot_offset: Offset,
}

impl ProducerState {
    /// No producers, up to offset 0.
    #[must_use]
    pub fn new(config: ProducerStateConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Takes over a prepared append whose bytes are written.
    ///
    /// Returns the transactions that it ended. For each, in order: take
    /// [`last_stable_offset`](Self::last_stable_offset), add an aborted one to the transaction
    /// index, then call [`complete`](Self::complete). Where the index cannot be written, do not:
    /// the last stable offset then stays, until a recovery has rebuilt the index.
    ///
    /// Then [`set_map_end_offset`](Self::set_map_end_offset).
    pub fn apply(&mut self, prepared: PreparedAppend) -> Vec<CompletedTxn> {
        for update in prepared.updates {
            let producer_id = update.entry.producer_id;
            if update.clears_verification {
                self.verifications.remove(&producer_id);
            }
            for txn in update.started {
                self.txns.begin(txn);
            }
            match self.producers.get_mut(&producer_id) {
                Some(entry) => entry.update(&update.entry),
                None => drop(self.producers.insert(producer_id, update.entry)),
            }
        }
        prepared.completed
    }

    /// Ends a transaction that [`apply`](Self::apply) has returned; false where no transaction
    /// with its first offset is open.
    pub fn complete(&mut self, completed: &CompletedTxn) -> bool {
        self.txns.complete(completed)
    }

    /// The last stable offset right after the marker of `completed`: what the transaction index
    /// stores with it.
    #[must_use]
    pub fn last_stable_offset(&self, completed: &CompletedTxn) -> Offset {
        self.txns.last_stable_offset(completed)
    }

    /// Notes that the state now covers all offsets below `offset`.
    pub const fn set_map_end_offset(&mut self, offset: Offset) {
        self.map_end_offset = offset;
    }

    /// Forgets the completed transactions whose marker is below the high watermark.
    pub fn on_high_watermark(&mut self, high_watermark: Offset) {
        self.txns.remove_replicated(high_watermark);
    }

    /// Follows a log start that has moved up. `newest_snapshot` is the newest that is left.
    ///
    /// Producers stay although their records are gone: expiry alone removes them.
    pub fn on_log_start(&mut self, log_start: Offset, newest_snapshot: Option<Offset>) {
        self.txns.remove_replicated(log_start);
        self.map_end_offset = self.map_end_offset.max(log_start);
        self.snapshot_offset = newest_snapshot.unwrap_or(log_start);
    }

    /// Forgets everything; the state then covers all offsets below `offset`. The snapshots must
    /// be deleted beside.
    pub fn reset(&mut self, offset: Offset) {
        self.producers.clear();
        self.txns.clear();
        self.snapshot_offset = Offset::new(0);
        self.map_end_offset = offset;
    }

    /// Forgets everything and takes what a snapshot at `offset` holds, expired producers left
    /// out. Returns how many were left out.
    pub fn load(
        &mut self,
        offset: Offset,
        entries: impl IntoIterator<Item = ProducerEntry>,
        now: Timestamp,
    ) -> usize {
        self.reset(offset);
        self.snapshot_offset = offset;
        let mut expired = 0_usize;
        for entry in entries {
            if entry.is_expired(now, self.config.producer_id_expiration_ms) {
                expired = expired.saturating_add(1);
                continue;
            }
            if let Some(first_offset) = entry.current_txn_first_offset {
                let producer_id = entry.producer_id;
                self.txns.begin(OngoingTxn { producer_id, first_offset, place: None });
            }
            self.producers.insert(entry.producer_id, entry);
        }
        expired
    }

    /// Forgets the producers that were silent for too long, and verifications that are as old.
    pub fn remove_expired(&mut self, now: Timestamp) {
        let expiration_ms = self.config.producer_id_expiration_ms;
        self.producers.retain(|_, entry| !entry.is_expired(now, expiration_ms));
        self.verifications
            .retain(|_, entry| now.get().saturating_sub(entry.created.get()) < expiration_ms);
    }

    /// Starts the verification of a transaction, or joins one that runs. `None` where the
    /// transaction is open already and needs none.
    ///
    /// # Errors
    ///
    /// [`ProducerError::InvalidProducerEpoch`] where the producer has a newer epoch.
    pub fn start_verification(
        &mut self,
        request: &VerificationRequest,
        now: Timestamp,
    ) -> Result<Option<VerificationGuard>, ProducerError> {
        let VerificationRequest { producer_id, producer_epoch: found, .. } = *request;
        if self.has_ongoing_transaction(producer_id, found) {
            return Ok(None);
        }
        let current = self.producer(producer_id).map(|entry| entry.producer_epoch);
        if let Some(current) = current.filter(|&current| found < current) {
            let offset = self.map_end_offset;
            return Err(ProducerError::InvalidProducerEpoch {
                producer_id,
                offset,
                found,
                current,
            });
        }
        self.guards = self.guards.wrapping_add(1);
        let guard = VerificationGuard(self.guards);
        let entry = self.verifications.entry(producer_id).or_insert(VerificationEntry {
            guard,
            created: now,
            lowest_sequence: request.sequence,
            producer_epoch: found,
            supports_epoch_bump: request.supports_epoch_bump,
        });
        entry.note(request);
        Ok(Some(entry.guard))
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &ProducerStateConfig {
        &self.config
    }

    /// Replaces the settings; they count from the next check on.
    pub const fn set_config(&mut self, config: ProducerStateConfig) {
        self.config = config;
    }

    /// One producer.
    #[must_use]
    pub fn producer(&self, producer_id: ProducerId) -> Option<&ProducerEntry> {
        self.producers.get(&producer_id)
    }

    /// All producers, in no order.
    #[must_use]
    pub fn producers(&self) -> impl ExactSizeIterator<Item = &ProducerEntry> {
        self.producers.values()
    }

    /// The transactions that are open, by first offset.
    pub fn ongoing_transactions(&self) -> impl Iterator<Item = &OngoingTxn> {
        self.txns.ongoing()
    }

    /// Whether a transaction of this producer and epoch is open.
    #[must_use]
    pub fn has_ongoing_transaction(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.producer(producer_id).is_some_and(|entry| {
            entry.current_txn_first_offset.is_some() && entry.producer_epoch == epoch
        })
    }

    /// The first transaction that is open, or whose marker is not below the high watermark.
    /// Below its first offset everything is stable.
    #[must_use]
    pub fn first_unstable(&self) -> Option<&OngoingTxn> {
        self.txns.first_unstable()
    }

    /// The first offset of the first open transaction.
    #[must_use]
    pub fn first_undecided_offset(&self) -> Option<Offset> {
        self.txns.first_ongoing().map(|txn| txn.first_offset)
    }

    /// Whether the first open transaction should have ended long ago: its coordinator may have
    /// lost it, and it holds back the last stable offset.
    #[must_use]
    pub fn has_late_transaction(&self, now: Timestamp) -> bool {
        let producer = self.txns.first_ongoing().and_then(|txn| self.producer(txn.producer_id));
        let last = producer.map_or(-1, |entry| entry.last_timestamp.get());
        let age = now.get().saturating_sub(last);
        last > 0 && age > self.config.max_transaction_timeout_ms.saturating_add(LATE_BUFFER_MS)
    }

    /// The state covers all offsets below.
    #[must_use]
    pub const fn map_end_offset(&self) -> Offset {
        self.map_end_offset
    }

    /// The offset of the newest snapshot of this state.
    #[must_use]
    pub const fn snapshot_offset(&self) -> Offset {
        self.snapshot_offset
    }

    /// Whether a snapshot now would hold more than the newest one.
    #[must_use]
    pub fn is_snapshot_due(&self) -> bool {
        self.map_end_offset > self.snapshot_offset
    }

    /// Takes a replicated batch that cannot fail and touches no transaction, without the detour of
    /// preparing it; false for any other.
    pub(crate) fn take_plain(&mut self, batch: &ProducerBatch) -> bool {
        let is_plain = batch.content == BatchContent::Data && !batch.is_transactional;
        match self.producers.get_mut(&batch.producer_id).filter(|_| is_plain) {
            Some(entry)
                if entry.current_txn_first_offset.is_none()
                    && entry.producer_epoch <= batch.producer_epoch =>
            {
                entry.add_batch(batch.producer_epoch, batch.metadata());
                true
            }
            _ => false,
        }
    }

    /// Whether no producer is known and no completed transaction waits for the high watermark.
    pub(crate) fn is_empty(&self) -> bool {
        self.producers.is_empty() && !self.txns.has_unreplicated()
    }

    pub(crate) const fn set_snapshot_offset(&mut self, offset: Offset) {
        self.snapshot_offset = offset;
    }

    pub(super) fn verification(&self, producer_id: ProducerId) -> Option<&VerificationEntry> {
        self.verifications.get(&producer_id)
    }
}

/// What a transaction may take beyond its timeout before it is late.
const LATE_BUFFER_MS: i64 = 300_000;
