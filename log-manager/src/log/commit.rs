//! Group commit: many writers share one sync.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use alluvium_record_format::Offset;
use alluvium_segment::SegmentError;

use super::rounds::Rounds;
use super::{Log, LogError, Shared};
use crate::sync::AtomicI64;

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
    rounds: Rounds,
}

impl Commits {
    pub(super) fn new(durable: Offset) -> Self {
        Self { durable: AtomicI64::new(durable.get()), rounds: Rounds::default() }
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
        self.rounds.lower(|| self.durable.fetch_min(offset.get(), Ordering::AcqRel));
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
        // A truncation may have taken what was waited for.
        let is_over = || commits.durable() >= offset || offset > self.log_end();
        if is_over() {
            return Ok(commits.durable());
        }
        commits.rounds.join(
            || if is_over() { Ok(true) } else { self.health.check().map(|()| false) },
            || self.sync_batches(),
        )?;
        Ok(commits.durable())
    }

    fn commit_span(&self, from: Offset, to: Offset) -> tracing::Span {
        tracing::debug_span!("commit", log = self.name(), from = from.get(), to = to.get())
    }

    /// Makes all batches durable that are in the log now. Returns how long the syncs took, without
    /// the wait for a flush or a cut.
    fn sync_batches(&self) -> Result<Duration, LogError> {
        let mut unsynced = self.flushing.lock();
        let started = Instant::now();
        self.health.check()?;
        self.sync_files(&mut unsynced)?;
        let commits = &self.commits;
        let lower_count = commits.rounds.lower_count();
        let (from, end) = (commits.durable(), self.log_end());
        let _span = self.commit_span(from, end).entered();
        let segments = self.segments.load_full();
        for segment in segments.values(from, end) {
            match segment.flush_log() {
                // Deleted meanwhile: nothing of it is to be kept.
                Ok(()) | Err(SegmentError::Gone { .. }) => {}
                Err(source) => return Err(self.disk_failed(LogError::Segment { source })),
            }
        }
        self.sync_names()?;
        commits.rounds.unless_lowered(lower_count, || commits.raise(end));
        Ok(started.elapsed())
    }
}
