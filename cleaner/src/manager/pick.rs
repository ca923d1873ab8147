//! Which log is next.

use alluvium_log_manager::ManagerError;
use alluvium_record_format::{Offset, Timestamp};
use alluvium_recovery::TopicPartition;

use super::candidate::{Candidate, DirtyRange};
use super::job::{Worker, disk_failed, guarded};
use super::{Outcome, Round, Shared};
use crate::error::CleanError;

impl Shared {
    /// Cleans one log, then runs retention.
    pub(super) fn round(&self, worker: &mut Worker) -> Round {
        self.prune_marks();
        let (partition, outcome) = self.clean_filthiest(worker);
        let segments_deleted = self.retention();
        self.gauge();
        Round { partition, outcome, segments_deleted }
    }

    /// Source: `LogCleanerManager.grabFilthiestCompactedLog` in Kafka.
    fn clean_filthiest(&self, worker: &mut Worker) -> (Option<TopicPartition>, Outcome) {
        let now = self.clock.now();
        for (_, partition) in self.by_filth(now) {
            let Some(turn) = self.gate.begin(&partition) else { continue };
            // What was seen before the turn began may have been cut since.
            let outcome = match self.due(&partition, now) {
                Ok(Some(candidate)) => self.clean(&candidate, &turn, worker, now),
                Ok(None) => continue,
                Err(error) => self.failed(&partition, error),
            };
            drop(turn);
            return (Some(partition), outcome);
        }
        (None, Outcome::Idle)
    }

    /// The logs that are due, the filthiest first.
    fn by_filth(&self, now: Timestamp) -> Vec<(f64, TopicPartition)> {
        let mut due = Vec::new();
        let (mut max_ratio, mut max_overdue) = (0_f64, 0);
        for partition in self.logs.partitions() {
            if !self.gate.is_free(&partition) || !self.may_try(&partition, now) {
                continue;
            }
            match guarded(|| self.look_without_turn(&partition, now)) {
                Ok(Some(candidate)) => {
                    let ratio = candidate.range.ratio();
                    max_ratio = max_ratio.max(ratio);
                    max_overdue = max_overdue.max(candidate.range.overdue_ms);
                    if candidate.is_due() {
                        due.push((ratio, partition));
                    }
                }
                Ok(None) => {}
                Err(error) => drop(self.failed(&partition, error)),
            }
        }
        self.stats.looked(max_ratio, max_overdue);
        due.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        due
    }

    /// Looks at a log of which somebody else may have the turn. A checkpoint that does not fit the
    /// log is written under it alone: a cut meanwhile would be undone.
    fn look_without_turn(
        &self,
        partition: &TopicPartition,
        now: Timestamp,
    ) -> Result<Option<Candidate>, CleanError> {
        let found = self.look(partition, now)?;
        if found.as_ref().is_none_or(|candidate| !candidate.range.is_reset) {
            return Ok(found);
        }
        let Some(_turn) = self.gate.begin(partition) else { return Ok(None) };
        self.look_and_reset(partition, now)
    }

    fn due(
        &self,
        partition: &TopicPartition,
        now: Timestamp,
    ) -> Result<Option<Candidate>, CleanError> {
        let found = guarded(|| self.look_and_reset(partition, now))?;
        Ok(found.filter(Candidate::is_due))
    }

    /// What is to be known of a log; `None` where it is not compacted, not here, or closed.
    fn look(
        &self,
        partition: &TopicPartition,
        now: Timestamp,
    ) -> Result<Option<Candidate>, CleanError> {
        let Ok(log) = self.logs.log(partition) else { return Ok(None) };
        let Ok(view) = log.cleaning_view() else { return Ok(None) };
        if !view.config.cleanup_policy().compacts() {
            return Ok(None);
        }
        let Ok(checkpoint) = self.logs.cleaner_checkpoint(partition) else { return Ok(None) };
        let range = DirtyRange::of(&view, checkpoint, now);
        let range = range.map_err(|error| disk_failed(&log, error))?;
        Ok(Some(Candidate { partition: partition.clone(), log, view, range }))
    }

    /// Looks at a log whose turn it is. A checkpoint that does not fit it is written anew.
    fn look_and_reset(
        &self,
        partition: &TopicPartition,
        now: Timestamp,
    ) -> Result<Option<Candidate>, CleanError> {
        let Some(candidate) = self.look(partition, now)? else { return Ok(None) };
        if candidate.range.is_reset {
            let offset = candidate.range.first_dirty;
            if !candidate.view.config.cleanup_policy().deletes() {
                // Retention has not moved the start past it.
                tracing::warn!(%partition, %offset, "the cleaner begins at the start of the log");
            }
            self.set_checkpoint(partition, offset)?;
        }
        Ok(Some(candidate))
    }

    /// Notes how far a log is clean.
    pub(super) fn set_checkpoint(
        &self,
        partition: &TopicPartition,
        offset: Offset,
    ) -> Result<(), CleanError> {
        self.logs.set_cleaner_checkpoint(partition, offset).map_err(|error| match error {
            ManagerError::Log { source, .. } => CleanError::Log { source },
            source => CleanError::Checkpoint { source },
        })
    }

    /// Runs the retention of compacted logs.
    ///
    /// Source: `LogCleaner.cleanableLogs` and `deleteOldSegments` in Kafka.
    fn retention(&self) -> usize {
        let mut deleted = 0;
        for partition in self.logs.partitions() {
            let Ok(log) = self.logs.log(&partition) else { continue };
            if !log.config().cleanup_policy().compacts() || self.is_uncleanable(&partition) {
                continue;
            }
            let Some(_turn) = self.gate.begin(&partition) else { continue };
            match log.delete_old_segments() {
                Ok(count) => deleted += count,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(%partition, error, "retention failed");
                }
            }
        }
        deleted
    }
}

impl Candidate {
    fn is_due(&self) -> bool {
        self.range.is_due(self.view.config.min_cleanable_dirty_ratio())
    }
}
