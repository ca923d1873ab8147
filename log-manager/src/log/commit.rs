//! Group commit: many writers share one sync.

use std::sync::atomic::Ordering;

use alluvium_record_format::Offset;
use alluvium_segment::SegmentError;

use super::{Log, LogError, Shared};
use crate::sync::{AtomicI64, Condvar, Mutex};

/// When an append is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Kafka's: an append returns once its bytes are in the page cache. Flushes come after rolls,
    /// by `flush.messages` and `flush.ms`, and on demand.
    #[default]
    PageCache,
    /// An append returns once its bytes are on the disk. Appends that wait at the same time share
    /// one sync, so the rate rises with the number of writers.
    GroupCommit,
}

/// Who waits for a sync, and how far the last one came.
#[derive(Debug)]
pub(super) struct Commits {
    /// The batches below are durable.
    durable: AtomicI64,
    /// Whether one of the writers is at it.
    syncing: Mutex<bool>,
    done: Condvar,
}

impl Commits {
    pub(super) fn new(durable: Offset) -> Self {
        let durable = AtomicI64::new(durable.get());
        Self { durable, syncing: Mutex::new(false), done: Condvar::new() }
    }

    pub(super) fn durable(&self) -> Offset {
        Offset::new(self.durable.load(Ordering::Acquire))
    }

    /// Everything below `offset` became durable.
    pub(super) fn raise(&self, offset: Offset) {
        self.durable.fetch_max(offset.get(), Ordering::AcqRel);
    }

    /// The log ends at `offset` now: what comes there next is not durable.
    pub(super) fn lower(&self, offset: Offset) {
        self.durable.fetch_min(offset.get(), Ordering::AcqRel);
    }
}

impl Log {
    /// The offset below which all batches are on the disk: they are there after a power failure.
    ///
    /// Moves after a sync of every segment up to it and then of the directory. At or above the
    /// [`recovery_point`](Self::recovery_point), which also needs the indexes to be durable.
    #[must_use]
    pub fn durable_offset(&self) -> Offset {
        self.shared.commits.durable()
    }

    /// Waits until everything below `offset` is durable, and syncs where nobody else does: many
    /// callers share one sync. Returns the durable offset.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn commit(&self, offset: Offset) -> Result<Offset, LogError> {
        self.shared.commit(offset.min(self.log_end_offset()))
    }
}

impl Shared {
    pub(super) fn commit(&self, offset: Offset) -> Result<Offset, LogError> {
        let commits = &self.commits;
        let mut syncing = commits.syncing.lock();
        loop {
            // A truncation may have taken what was waited for.
            if commits.durable() >= offset || offset > self.log_end() {
                return Ok(commits.durable());
            }
            self.health.check()?;
            if *syncing {
                commits.done.wait(&mut syncing);
                continue;
            }
            *syncing = true;
            drop(syncing);
            let synced = self.sync_batches();
            syncing = commits.syncing.lock();
            *syncing = false;
            commits.done.notify_all();
            synced?;
        }
    }

    /// Makes all batches durable that are in the log now.
    fn sync_batches(&self) -> Result<(), LogError> {
        let mut recovered = self.flushing.lock();
        self.health.check()?;
        self.sync_recovered(&mut recovered)?;
        let truncation_count = self.writer.lock().truncation_count;
        let (from, end) = (self.commits.durable(), self.log_end());
        let segments = self.segments.load_full();
        for segment in segments.values(from, end) {
            match segment.flush_log() {
                // Deleted meanwhile: nothing of it is to be kept.
                Ok(()) | Err(SegmentError::Gone { .. }) => {}
                Err(source) => return Err(self.disk_failed(LogError::Segment { source })),
            }
        }
        self.sync_names()?;
        if self.writer.lock().truncation_count == truncation_count {
            self.commits.raise(end);
        }
        Ok(())
    }
}
