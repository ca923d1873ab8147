//! Logs that cannot be cleaned, and why.

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::Timestamp;
use alluvium_recovery::TopicPartition;

use super::Shared;
use super::candidate::DirtyRange;
use super::config::RetryPolicy;
use super::job::guarded;
use crate::error::CleanError;

/// A log that could not be cleaned. Its files are as they were, from the damage on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Uncleanable {
    /// The partition.
    pub partition: TopicPartition,
    /// The log directory that it lies in.
    pub dir: PathBuf,
    /// Why the last try failed.
    pub reason: Arc<CleanError>,
    /// When the first try failed.
    pub since: Timestamp,
    /// How many tries failed in a row.
    pub failures: u32,
    /// When it is tried again; `None` for not before it is cleared.
    pub next_try: Option<Timestamp>,
}

/// What is kept of it.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    dir: PathBuf,
    reason: Arc<CleanError>,
    since: Timestamp,
    failures: u32,
    next_try: Option<Timestamp>,
}

impl Mark {
    /// In this directory, or where it lay when it was marked.
    pub(super) fn told(&self, partition: &TopicPartition, dir: Option<PathBuf>) -> Uncleanable {
        Uncleanable {
            partition: partition.clone(),
            dir: dir.unwrap_or_else(|| self.dir.clone()),
            reason: Arc::clone(&self.reason),
            since: self.since,
            failures: self.failures,
            next_try: self.next_try,
        }
    }
}

impl Shared {
    /// Whether a log may be tried now.
    pub(super) fn may_try(&self, partition: &TopicPartition, now: Timestamp) -> bool {
        let marks = self.uncleanable.lock();
        let next_try = |mark: &Mark| mark.next_try.is_some_and(|due| due <= now);
        marks.get(partition).is_none_or(next_try)
    }

    pub(super) fn is_uncleanable(&self, partition: &TopicPartition) -> bool {
        self.uncleanable.lock().contains_key(partition)
    }

    /// Notes why a log could not be cleaned.
    pub(super) fn mark(&self, partition: &TopicPartition, error: CleanError) -> Arc<CleanError> {
        let reason = Arc::new(error);
        let now = self.clock.now();
        let retry: RetryPolicy = self.config.read().retry;
        let mut marks = self.uncleanable.lock();
        let before = marks.get(partition);
        let failures = before.map_or(0, |mark| mark.failures).saturating_add(1);
        let mark = Mark {
            dir: self.logs.dir_of(partition).unwrap_or_default(),
            reason: Arc::clone(&reason),
            since: before.map_or(now, |mark| mark.since),
            failures,
            next_try: retry.next(failures, now),
        };
        let error: &dyn std::error::Error = &*reason;
        let next_try = mark.next_try.map(Timestamp::get);
        tracing::error!(%partition, error, failures, next_try, "the log cannot be cleaned");
        marks.insert(partition.clone(), mark);
        reason
    }

    pub(super) fn unmark(&self, partition: &TopicPartition) {
        self.uncleanable.lock().remove(partition);
    }

    /// Forgets logs that are gone.
    pub(super) fn prune_marks(&self) {
        use alluvium_log_manager::ManagerError;
        let is_gone = |partition: &TopicPartition| {
            matches!(self.logs.log(partition), Err(ManagerError::Unknown { .. }))
        };
        self.uncleanable.lock().retain(|partition, _| !is_gone(partition));
    }

    /// What such logs of each directory hold, by how they stand now.
    pub(super) fn uncleanable_by_dir(&self) -> Vec<Backlog> {
        let none = |dir| Backlog { dir, count: 0, bytes: 0 };
        let mut found: Vec<Backlog> = self.logs.live_dirs().into_iter().map(none).collect();
        let marks = self.uncleanable.lock().clone();
        let now = self.clock.now();
        for (partition, mark) in marks {
            let bytes = self.cleanable_bytes(&partition, now);
            // It may have moved since.
            let dir = self.logs.dir_of(&partition).unwrap_or(mark.dir);
            let index = found.iter().position(|backlog| backlog.dir == dir);
            let index = index.unwrap_or_else(|| {
                found.push(none(dir));
                found.len() - 1
            });
            found[index].count += 1;
            found[index].bytes += bytes;
        }
        found
    }

    /// Bytes that would be cleaned of a log; none where that cannot be told.
    ///
    /// Source: `LogCleanerManager` in Kafka, the gauge `uncleanable-bytes`.
    fn cleanable_bytes(&self, partition: &TopicPartition, now: Timestamp) -> u64 {
        let Ok(log) = self.logs.log(partition) else { return 0 };
        let Ok(view) = log.cleaning_view() else { return 0 };
        let Ok(checkpoint) = self.logs.cleaner_checkpoint(partition) else { return 0 };
        let range = guarded(|| DirtyRange::of(&view, checkpoint, now));
        range.map_or(0, |range| range.cleanable_bytes)
    }
}

/// Logs of one directory that could not be cleaned.
#[derive(Debug)]
pub(super) struct Backlog {
    pub(super) dir: PathBuf,
    pub(super) count: usize,
    pub(super) bytes: u64,
}
