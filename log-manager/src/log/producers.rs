//! The producer state under the log's lock, and transactions that wait for verification.

use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_recovery::{
    BatchPlace, CompletedTxn, ProducerError, Replay, SnapshotStore, VerificationGuard,
    VerificationRequest, rebuild_producer_state,
};
use alluvium_segment::ActiveSegment;

use super::{AppendError, Log, LogError, LogPosition, Shared, Writer};

impl Log {
    /// Starts the verification of a transaction that is about to write here. `None` where it has
    /// written here before and needs none. The guard goes into the append.
    ///
    /// Source: `UnifiedLog.maybeStartTransactionVerification` in Kafka.
    ///
    /// # Errors
    ///
    /// [`AppendError::Producer`] where the producer has a newer epoch.
    pub fn start_verification(
        &self,
        request: &VerificationRequest,
    ) -> Result<Option<VerificationGuard>, AppendError> {
        let shared = &*self.shared;
        let now = shared.clock.now();
        let mut writer = shared.writer.lock();
        shared.check_open()?;
        let started = writer.producers.start_verification(request, now);
        started.map_err(|source: ProducerError| AppendError::Producer { source })
    }

    /// Forgets producers that have been silent for `producer.id.expiration.ms`. To be called now
    /// and then.
    ///
    /// Source: `ProducerStateManager.removeExpiredProducers` in Kafka.
    ///
    /// # Errors
    ///
    /// `Closed`, `Offline`.
    pub fn remove_expired_producers(&self) -> Result<(), LogError> {
        let shared = &*self.shared;
        let now = shared.clock.now();
        let mut writer = shared.writer.lock();
        shared.check_open()?;
        writer.producers.remove_expired(now);
        Ok(())
    }

    /// Whether the first open transaction should have ended long ago.
    #[must_use]
    pub fn has_late_transaction(&self) -> bool {
        let now = self.shared.clock.now();
        self.shared.writer.lock().producers.has_late_transaction(now)
    }

    /// How many producers the log remembers.
    #[must_use]
    pub fn producer_count(&self) -> usize {
        self.shared.writer.lock().producers.producers().len()
    }
}

impl Writer {
    /// The active segment of an open log.
    ///
    /// # Panics
    ///
    /// In a closed log, where no operation comes this far.
    pub(super) fn active(&self) -> &ActiveSegment {
        self.active.as_ref().expect("an open log has an active segment")
    }

    /// As [`active`](Self::active).
    pub(super) fn active_mut(&mut self) -> &mut ActiveSegment {
        self.active.as_mut().expect("an open log has an active segment")
    }

    pub(super) fn newest_snapshot(&self) -> Option<Offset> {
        self.snapshots.newest()
    }

    /// Takes over the first unstable offset from the producer state.
    ///
    /// Source: `UnifiedLog.maybeIncrementFirstUnstableOffset` in Kafka.
    pub(super) fn publish_first_unstable(&mut self, shared: &Shared) {
        // Readers only ever set another place of the one that is there.
        let first = self.first_unstable(shared);
        if !self.is_unstable_shown && first.is_none() {
            return;
        }
        let unstable =
            first.map(|(offset, place)| match place.filter(|_| offset >= shared.log_start()) {
                Some(place) => LogPosition::at(offset, place.segment_base_offset, place.position),
                None => self.locate_unstable(shared, offset.max(shared.log_start())),
            });
        if shared.first_unstable.load().as_deref() != unstable.as_ref() {
            self.is_unstable_shown = unstable.is_some();
            shared.first_unstable.store(unstable.map(Arc::new));
        }
    }

    /// Where the first transaction begins that holds back readers.
    fn first_unstable(&self, shared: &Shared) -> Option<(Offset, Option<BatchPlace>)> {
        let known = self.producers.first_unstable().map(|txn| (txn.first_offset, txn.place));
        if self.unindexed.is_empty() {
            return known;
        }
        let is_read = |txn: &&CompletedTxn| txn.last_offset >= shared.log_start();
        let held = self.unindexed.iter().filter(is_read).map(|txn| (txn.first_offset, None));
        known.into_iter().chain(held).min_by_key(|(offset, _)| *offset)
    }

    /// Finds where a transaction begins that is known by its offset alone, after a restart.
    fn locate_unstable(&mut self, shared: &Shared, offset: Offset) -> LogPosition {
        match self.located_unstable {
            Some((asked, found)) if asked == offset => found,
            _ => {
                let found = shared.locate(offset).unwrap_or(LogPosition::somewhere(offset));
                // At the log end there is nothing yet: the next batch may leave a gap.
                let is_batch = found.offset < shared.log_end();
                self.located_unstable = is_batch.then_some((offset, found));
                found
            }
        }
    }

    /// Forgets all producers and their snapshots; the state then covers what is below `offset`.
    pub(super) fn forget_producers(&mut self, offset: Offset) -> Result<(), LogError> {
        let all: Vec<Offset> = self.snapshots.offsets().iter().copied().collect();
        for snapshot in all {
            self.snapshots.remove(snapshot, "the log starts anew")?;
        }
        self.producers.reset(offset);
        self.unindexed.clear();
        Ok(())
    }
}

impl Writer {
    /// Brings the producer state to what it was at `end`, from snapshots and the log.
    pub(super) fn rebuild_producers(
        &mut self,
        shared: &Shared,
        end: Offset,
    ) -> Result<(), LogError> {
        let segments = self.segments.to_vec();
        let replay = Replay::new(shared.log_start(), end, shared.clock.now());
        // Without its marker a transaction is open again.
        self.unindexed.retain(|txn| txn.last_offset < end);
        let (producers, snapshots) = (&mut self.producers, &mut self.snapshots);
        Ok(rebuild_producer_state(producers, snapshots, &segments, &replay)?)
    }
}
