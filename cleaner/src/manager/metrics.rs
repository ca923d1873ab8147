//! What cleaning counts, through the `metrics` facade: nothing where nobody listens.
//!
//! Beside each name stands Kafka's.

use std::time::Duration;

use alluvium_record_format::Timestamp;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::stats::CleanerStats;
use super::uncleanable::Backlog;
use crate::clean::{CleanReport, Progress};

/// Cleanings that came to their end: no metric of Kafka's.
pub const CLEANINGS: &str = "log_cleaner_cleanings_total";
/// Cleanings that failed: no metric of Kafka's.
pub const FAILURES: &str = "log_cleaner_failures_total";
/// Bytes that cleaning has read: `cleaner-io` in part.
pub const BYTES_READ: &str = "log_cleaner_read_bytes_total";
/// Bytes that cleaning has written: `cleaner-io` in part.
pub const BYTES_WRITTEN: &str = "log_cleaner_written_bytes_total";
/// Records that were dropped: no metric of Kafka's.
pub const RECORDS_DROPPED: &str = "log_cleaner_dropped_records_total";
/// Seconds that a cleaning took: `max-clean-time-secs`.
pub const CLEAN_SECONDS: &str = "log_cleaner_clean_seconds";
/// Percent of what was read that was written again: `cleaner-recopy-percent`.
pub const RECOPY_PERCENT: &str = "log_cleaner_recopy_percent";
/// Percent of a map that is in use: `max-buffer-utilization-percent`.
pub const BUFFER_PERCENT: &str = "log_cleaner_max_buffer_utilization_percent";
/// Seconds by which a record is late for cleaning: `max-compaction-delay-secs`.
pub const DELAY_SECONDS: &str = "log_cleaner_max_compaction_delay_seconds";
/// Percent of the filthiest log that is dirty: `max-dirty-percent`.
pub const MAX_DIRTY_PERCENT: &str = "log_cleaner_max_dirty_percent";
/// Milliseconds since a cleaning began: `time-since-last-run-ms`.
pub const SINCE_LAST_RUN_MS: &str = "log_cleaner_time_since_last_run_ms";
/// Logs that could not be cleaned, by directory: `uncleanable-partitions-count`.
pub const UNCLEANABLE: &str = "log_cleaner_uncleanable_partitions";
/// Bytes in them that would be cleaned, by directory: `uncleanable-bytes`.
pub const UNCLEANABLE_BYTES: &str = "log_cleaner_uncleanable_bytes";
/// Threads that should be there and are not: `DeadThreadCount`.
pub const DEAD_THREADS: &str = "log_cleaner_dead_threads";

/// Tells the recorder of this process what each name means, and shows each counter as 0. To be
/// called once it is installed.
pub fn describe_metrics() {
    describe_counter!(CLEANINGS, "cleanings that came to their end");
    describe_counter!(FAILURES, "cleanings that failed");
    describe_counter!(BYTES_READ, "bytes read by cleaning");
    describe_counter!(BYTES_WRITTEN, "bytes written by cleaning");
    describe_counter!(RECORDS_DROPPED, "records dropped by cleaning");
    describe_histogram!(CLEAN_SECONDS, "seconds that a cleaning took");
    describe_gauge!(RECOPY_PERCENT, "percent of what was read that was written again");
    describe_gauge!(BUFFER_PERCENT, "percent of the fullest offset map in use");
    describe_gauge!(DELAY_SECONDS, "seconds by which a record is late for cleaning");
    describe_gauge!(MAX_DIRTY_PERCENT, "percent of the filthiest log that is dirty");
    describe_gauge!(SINCE_LAST_RUN_MS, "milliseconds since a cleaning began");
    describe_gauge!(UNCLEANABLE, "logs that could not be cleaned");
    describe_gauge!(UNCLEANABLE_BYTES, "dirty bytes of logs that could not be cleaned");
    describe_gauge!(DEAD_THREADS, "cleaner threads that are missing");
    for name in [CLEANINGS, FAILURES, BYTES_READ, BYTES_WRITTEN, RECORDS_DROPPED] {
        counter!(name).increment(0);
    }
}

pub(super) fn moved(progress: Progress) {
    counter!(BYTES_READ).increment(progress.read);
    counter!(BYTES_WRITTEN).increment(progress.written);
}

pub(super) fn cleaned(report: &CleanReport, took: Duration) {
    counter!(CLEANINGS).increment(1);
    let dropped = report.counts.records_read.saturating_sub(report.counts.records_written);
    counter!(RECORDS_DROPPED).increment(dropped);
    histogram!(CLEAN_SECONDS).record(took.as_secs_f64());
}

pub(super) fn failed() {
    counter!(FAILURES).increment(1);
}

pub(super) fn dead(threads: usize) {
    gauge!(DEAD_THREADS).set(rounded(threads));
}

/// The state after a round.
pub(super) fn state(stats: &CleanerStats, now: Timestamp, uncleanable: &[Backlog]) {
    gauge!(RECOPY_PERCENT).set(100.0 * stats.recopy_ratio);
    gauge!(BUFFER_PERCENT).set(100.0 * stats.max_buffer_utilization);
    gauge!(MAX_DIRTY_PERCENT).set(100.0 * stats.max_dirty_ratio);
    let delay = usize::try_from(stats.max_compaction_delay_ms).unwrap_or(0);
    gauge!(DELAY_SECONDS).set(rounded(delay) / 1000.0);
    if let Some(last) = stats.last_run {
        let since = now.get().saturating_sub(last.get());
        gauge!(SINCE_LAST_RUN_MS).set(rounded(usize::try_from(since).unwrap_or(0)));
    }
    for Backlog { dir, count, bytes } in uncleanable {
        gauge!(UNCLEANABLE, "dir" => dir.display().to_string()).set(rounded(*count));
        let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
        gauge!(UNCLEANABLE_BYTES, "dir" => dir.display().to_string()).set(rounded(bytes));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge need not be exact beyond 2^53")]
fn rounded(count: usize) -> f64 {
    count as f64
}
