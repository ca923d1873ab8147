//! The epochs of the leaders that wrote the log.

use std::sync::Arc;

use alluvium_record_format::{Batch, BatchHeader, LeaderEpoch, Offset};
use alluvium_recovery::{FileError, PendingEpochs};

use super::append::{Incoming, batches_of};
use super::truncate::check_offset;
use super::{Effects, Log, LogError, Shared, Writer};

impl Log {
    /// Notes that the leader of `epoch` begins at `start_offset`; what a new leader does before
    /// its first append.
    ///
    /// Source: `UnifiedLog.assignEpochStartOffset` in Kafka.
    ///
    /// # Errors
    ///
    /// `NegativeEpoch`, `IllegalOffset` below 0, `Closed`, `Offline`.
    pub fn assign_epoch(&self, epoch: LeaderEpoch, start_offset: Offset) -> Result<(), LogError> {
        self.shared.check_open()?;
        check_epoch(epoch)?;
        check_offset(start_offset, Offset::MAX)?;
        let mut effects = Effects::default();
        let mut writer = self.shared.writer.lock();
        self.shared.check_open()?;
        if writer.epochs.assign(epoch, start_offset) {
            writer.publish_epochs(&self.shared);
            effects.write_epochs();
        }
        drop(writer);
        effects.run(&self.shared);
        Ok(())
    }

    /// Where the last epoch that is not above `epoch` ends: a follower whose last epoch is
    /// `epoch` parts from this log there. `None` where that is not known.
    ///
    /// Source: `UnifiedLog.endOffsetForEpoch` in Kafka.
    #[must_use]
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.shared.epochs.load().end_offset_for(epoch, self.log_end_offset())
    }

    /// The epoch under which the record at `offset` was written.
    #[must_use]
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.shared.epochs.load().epoch_for_offset(offset)
    }
}

/// Refuses a number that is no epoch.
pub(super) fn check_epoch(epoch: LeaderEpoch) -> Result<(), LogError> {
    if epoch.get() < 0 { Err(LogError::NegativeEpoch { epoch }) } else { Ok(()) }
}

impl Writer {
    /// Takes over the epochs of batches that are about to be appended.
    pub(super) fn note_epochs(
        &mut self,
        shared: &Shared,
        incoming: &Incoming<'_>,
        effects: &mut Effects,
    ) {
        let changed = if let Some(batch) = &incoming.only {
            self.note_epoch(batch.header())
        } else {
            let news = |batch: &Batch<'_>| self.note_epoch(batch.header());
            batches_of(incoming.bytes).filter(news).count() > 0
        };
        if changed {
            self.publish_epochs(shared);
            effects.write_epochs();
        }
    }

    fn note_epoch(&mut self, header: &BatchHeader) -> bool {
        let epoch = header.leader_epoch();
        epoch.is_some_and(|epoch| self.epochs.assign(epoch, header.base_offset()))
    }

    /// As [`Shared::write_epochs`], for who holds the flush lock and this one, as a cut does.
    pub(super) fn write_epochs(&mut self, shared: &Shared) -> Result<(), LogError> {
        let Some(pending) = self.epochs.pending_write() else { return Ok(()) };
        if shared.write_pending(&pending)? {
            self.epochs.mark_written(&pending);
        }
        Ok(())
    }

    /// Shows the epochs to readers.
    pub(super) fn publish_epochs(&self, shared: &Shared) {
        shared.epochs.store(Arc::new(self.epochs.clone()));
    }
}

impl Shared {
    /// Writes the epochs to their file, if it may hold others. Takes the flush lock.
    pub(super) fn write_epochs(&self) -> Result<(), LogError> {
        let _one_at_a_time = self.flushing.lock();
        self.write_epochs_locked()
    }

    /// As [`write_epochs`](Self::write_epochs), for a holder of the flush lock.
    pub(super) fn write_epochs_locked(&self) -> Result<(), LogError> {
        let Some(pending) = self.writer.lock().epochs.pending_write() else { return Ok(()) };
        if self.write_pending(&pending)? {
            self.writer.lock().epochs.mark_written(&pending);
        }
        Ok(())
    }

    /// Returns whether there is a directory to write to.
    fn write_pending(&self, pending: &PendingEpochs) -> Result<bool, LogError> {
        let io = self.dir.io();
        match self.by_path(FileError::is_not_found, |dir| pending.write(io, dir)) {
            Ok(()) => Ok(true),
            // The directory was deleted meanwhile: the file went with it.
            Err(error) if error.is_not_found() => Ok(false),
            Err(source) => Err(self.disk_failed(LogError::File { source })),
        }
    }
}
