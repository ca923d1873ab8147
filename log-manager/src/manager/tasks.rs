//! What has to be done now and then.

use std::sync::{Arc, Weak};

use alluvium_record_format::Timestamp;
use alluvium_recovery::CheckpointKind;
use dashmap::DashMap;

use super::{Hosted, LogManager, Shared};
use crate::{BrokerConfig, Task};

/// When each task is due next, in milliseconds since the epoch.
#[derive(Debug)]
pub(super) struct Schedule {
    tasks: [(Periodic, u64, i64); 6],
}

#[derive(Clone, Copy, Debug)]
enum Periodic {
    Retention,
    Flush,
    RecoveryPoints,
    LogStarts,
    HighWatermarks,
    Producers,
}

impl Schedule {
    pub(super) fn new(config: &BrokerConfig, now: Timestamp) -> Self {
        let first = after(now, config.initial_delay_ms());
        let task = |task, period_ms| (task, period_ms, first);
        Self {
            tasks: [
                task(Periodic::Retention, config.retention_check_interval_ms()),
                task(Periodic::Flush, config.flush_check_interval_ms()),
                task(Periodic::RecoveryPoints, config.recovery_point_interval_ms()),
                task(Periodic::LogStarts, config.log_start_interval_ms()),
                task(Periodic::HighWatermarks, config.high_watermark_interval_ms()),
                task(Periodic::Producers, config.producer_id_check_interval_ms()),
            ],
        }
    }

    /// What is due, which is due again one period from now. Without a period it was due once.
    ///
    /// Source: `KafkaScheduler.schedule` in Kafka.
    fn take_due(&mut self, now: Timestamp) -> Vec<Periodic> {
        let mut due = Vec::new();
        for (task, period_ms, next) in &mut self.tasks {
            if *next <= now.get() {
                due.push(*task);
                *next = if *period_ms == 0 { i64::MAX } else { after(now, *period_ms) };
            }
        }
        due
    }
}

impl LogManager {
    /// Does what is due: retention, flushes, checkpoints, expiry of producers, removal of deleted
    /// logs. Returns how many tasks ran. What fails takes its disk offline, no more. After a stop
    /// nothing is done, and a tick that a stop overtakes changes nothing any more.
    #[expect(clippy::must_use_candidate, reason = "the count is for those who want it")]
    pub fn tick(&self) -> usize {
        let shared = &*self.shared;
        if shared.check_running().is_err() {
            return 0;
        }
        let now = shared.clock.now();
        let due = shared.schedule.lock().take_due(now);
        for task in &due {
            shared.run(*task);
        }
        shared.delete_due(now);
        shared.retire_failed_dirs();
        shared.gauge();
        due.len()
    }

    /// Ticks every `every_ms` milliseconds from now on, by the manager's background, until the
    /// stop or until the last handle is dropped.
    pub fn tick_in_background(&self, every_ms: u64) {
        again(&self.shared, every_ms);
    }
}

fn again(shared: &Arc<Shared>, every_ms: u64) {
    let weak: Weak<Shared> = Arc::downgrade(shared);
    let work = move || {
        let Some(shared) = weak.upgrade() else { return };
        let manager = LogManager { shared };
        manager.tick();
        if manager.shared.check_running().is_ok() {
            again(&manager.shared, every_ms);
        }
    };
    shared.background.after(every_ms, Task::new("tick", work));
}

impl Shared {
    fn run(&self, task: Periodic) {
        match task {
            Periodic::Retention => self.for_each_log(|hosted| {
                let compacts = hosted.log.config().cleanup_policy().compacts();
                if compacts && self.gate.runs_retention() {
                    return Ok(());
                }
                hosted.log.delete_old_segments().map(drop)
            }),
            Periodic::Flush => self.for_each_log(|hosted| hosted.log.flush_if_due().map(drop)),
            Periodic::Producers => {
                self.for_each_log(|hosted| hosted.log.remove_expired_producers());
            }
            Periodic::RecoveryPoints => self.write_everywhere(CheckpointKind::RecoveryPoint),
            Periodic::LogStarts => self.write_everywhere(CheckpointKind::LogStart),
            Periodic::HighWatermarks => self.write_everywhere(CheckpointKind::HighWatermark),
        }
    }

    /// Works on every log in service, none of the maps locked meanwhile.
    fn for_each_log(&self, work: impl Fn(&Hosted) -> Result<(), crate::LogError>) {
        let logs: Vec<Hosted> = [&self.logs, &self.futures]
            .into_iter()
            .flat_map(DashMap::iter)
            .map(|entry| entry.value().clone())
            .collect();
        for hosted in logs.iter().filter(|hosted| hosted.dir.is_live()) {
            if let Err(error) = work(hosted) {
                let log = hosted.log.name();
                tracing::warn!(log, error = &error as &dyn std::error::Error, "a task failed");
            }
        }
    }

    fn gauge(&self) {
        let (mut segments, mut size_bytes) = (0, 0);
        for entry in &self.logs {
            segments += entry.log.segment_count();
            size_bytes += entry.log.size_bytes();
        }
        let offline = self.dirs.iter().filter(|dir| !dir.is_live()).count();
        crate::metrics::read_from_disk();
        crate::metrics::state(self.logs.len(), segments, size_bytes);
        crate::metrics::offline(offline, self.offline.len() + self.unloaded_count());
    }

    fn write_everywhere(&self, kind: CheckpointKind) {
        for dir in self.dirs.iter().filter(|dir| dir.is_live()) {
            // The reason is kept with the directory.
            drop(self.write_checkpoint(dir, kind));
        }
    }
}

fn after(now: Timestamp, ms: u64) -> i64 {
    now.get().saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}
