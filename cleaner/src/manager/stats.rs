//! What was done so far.

use std::collections::BTreeMap;
use std::time::Duration;

use alluvium_record_format::Timestamp;
use parking_lot::Mutex;

use super::candidate::DirtyRange;
use super::uncleanable::Backlog;
use super::{Shared, metrics};
use crate::clean::CleanReport;

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CleanerStats {
    /// Cleanings that came to their end.
    pub cleanings: u64,
    /// Cleanings that failed.
    pub failures: u64,
    /// Bytes written for each byte read by the last cleaning of every thread:
    /// `cleaner-recopy-percent` is a hundred times this.
    pub recopy_ratio: f64,
    /// How full the fullest map was after the last cleaning of every thread, 0 to 1:
    /// `max-buffer-utilization-percent`.
    pub max_buffer_utilization: f64,
    /// The longest of the last cleanings: `max-clean-time-secs`.
    pub max_clean_time: Duration,
    /// Milliseconds by which the latest record is late for cleaning:
    /// `max-compaction-delay-secs`.
    pub max_compaction_delay_ms: i64,
    /// The dirty ratio of the filthiest log when one was last chosen: `max-dirty-percent`.
    pub max_dirty_ratio: f64,
    /// When the last cleaning began: what `time-since-last-run-ms` counts from.
    pub last_run: Option<Timestamp>,
    /// Logs that could not be cleaned: `uncleanable-partitions-count`.
    pub uncleanable: usize,
    /// Bytes in them that would be cleaned: `uncleanable-bytes`.
    pub uncleanable_bytes: u64,
    /// Threads that should be there and are not: `DeadThreadCount`.
    pub dead_threads: usize,
}

/// The last cleaning of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    began: Timestamp,
    bytes_read: u64,
    bytes_written: u64,
    utilization: f64,
    took: Duration,
    overdue_ms: i64,
}

impl Run {
    pub(super) fn new(
        report: &CleanReport,
        capacity: usize,
        took: Duration,
        range: &DirtyRange,
        began: Timestamp,
    ) -> Self {
        Self {
            began,
            bytes_read: report.counts.bytes_read,
            bytes_written: report.counts.bytes_written,
            utilization: ratio(report.key_count as u64, capacity as u64),
            took,
            overdue_ms: range.overdue_ms,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Stats(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    cleanings: u64,
    failures: u64,
    max_dirty_ratio: f64,
    max_overdue_ms: i64,
    last_run: Option<Timestamp>,
    runs: BTreeMap<usize, Run>,
}

impl Stats {
    pub(super) fn looked(&self, max_dirty_ratio: f64, max_overdue_ms: i64) {
        let mut inner = self.0.lock();
        (inner.max_dirty_ratio, inner.max_overdue_ms) = (max_dirty_ratio, max_overdue_ms);
    }

    pub(super) fn ran(&self, thread: usize, run: Run) {
        let mut inner = self.0.lock();
        inner.cleanings += 1;
        inner.last_run = inner.last_run.max(Some(run.began));
        inner.runs.insert(thread, run);
    }

    pub(super) fn failed(&self) {
        self.0.lock().failures += 1;
    }

    pub(super) fn told(&self, uncleanable: &[Backlog], dead_threads: usize) -> CleanerStats {
        let inner = self.0.lock();
        let runs = || inner.runs.values();
        let sum = |of: fn(&Run) -> u64| runs().map(of).fold(0_u64, u64::saturating_add);
        CleanerStats {
            cleanings: inner.cleanings,
            failures: inner.failures,
            recopy_ratio: ratio(sum(|run| run.bytes_written), sum(|run| run.bytes_read)),
            max_buffer_utilization: runs().map(|run| run.utilization).fold(0.0, f64::max),
            max_clean_time: runs().map(|run| run.took).max().unwrap_or_default(),
            max_compaction_delay_ms: runs()
                .map(|run| run.overdue_ms)
                .max()
                .unwrap_or_default()
                .max(inner.max_overdue_ms),
            max_dirty_ratio: inner.max_dirty_ratio,
            last_run: inner.last_run,
            uncleanable: uncleanable.iter().map(|backlog| backlog.count).sum(),
            uncleanable_bytes: uncleanable.iter().map(|backlog| backlog.bytes).sum(),
            dead_threads,
        }
    }
}

impl Shared {
    /// Tells the metrics how things stand.
    pub(super) fn gauge(&self) {
        let uncleanable = self.uncleanable_by_dir();
        let stats = self.stats.told(&uncleanable, 0);
        metrics::state(&stats, self.clock.now(), &uncleanable);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
