//! What logs count, through the `metrics` facade: nothing where nobody listens.
//!
//! Beside each name stands Kafka's.

use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

/// Bytes that were appended: `BytesInPerSec`.
pub const BYTES_IN: &str = "log_bytes_in_total";
/// Bytes that reads have handed out: `BytesOutPerSec`.
pub const BYTES_OUT: &str = "log_bytes_out_total";
/// Seconds that a flush took: `LogFlushRateAndTimeMs`.
pub const FLUSH_SECONDS: &str = "log_flush_seconds";
/// Rolls: no metric of Kafka's.
pub const ROLLS: &str = "log_rolls_total";
/// Segments that retention has dropped: no metric of Kafka's.
pub const SEGMENTS_DELETED: &str = "log_segments_deleted_total";
/// Segments of all logs: the sum of `NumLogSegments`.
pub const SEGMENTS: &str = "log_segments";
/// Bytes of all logs: the sum of `Size`.
pub const SIZE_BYTES: &str = "log_size_bytes";
/// Logs in service.
pub const LOGS: &str = "log_count";
/// Log directories that have failed: `OfflineLogDirectoryCount`.
pub const OFFLINE_DIRS: &str = "log_offline_dirs";
/// Logs that a start has still to load: `remainingLogsToRecover`.
pub const LOGS_TO_LOAD: &str = "log_remaining_to_load";

/// Tells the recorder of this process what each name means. To be called once it is installed.
pub fn describe_metrics() {
    describe_counter!(BYTES_IN, "bytes appended to logs");
    describe_counter!(BYTES_OUT, "bytes handed out by reads");
    describe_histogram!(FLUSH_SECONDS, "seconds that a flush took");
    describe_counter!(ROLLS, "new active segments");
    describe_counter!(SEGMENTS_DELETED, "segments dropped by retention");
    describe_gauge!(SEGMENTS, "segments of all logs");
    describe_gauge!(SIZE_BYTES, "bytes of all logs");
    describe_gauge!(LOGS, "logs in service");
    describe_gauge!(OFFLINE_DIRS, "log directories that have failed");
    describe_gauge!(LOGS_TO_LOAD, "logs that a start has still to load");
}

pub(crate) fn appended(bytes: usize) {
    counter!(BYTES_IN).increment(u64::try_from(bytes).unwrap_or(u64::MAX));
}

pub(crate) fn handed_out(bytes: u32) {
    counter!(BYTES_OUT).increment(u64::from(bytes));
}

pub(crate) fn flushed(took: Duration) {
    histogram!(FLUSH_SECONDS).record(took.as_secs_f64());
}

pub(crate) fn rolled() {
    counter!(ROLLS).increment(1);
}

pub(crate) fn segments_deleted(count: usize) {
    counter!(SEGMENTS_DELETED).increment(u64::try_from(count).unwrap_or(u64::MAX));
}

/// The state of all logs at a tick.
pub(crate) fn state(logs: usize, segments: usize, size_bytes: u64, offline_dirs: usize) {
    gauge!(LOGS).set(rounded(logs));
    gauge!(SEGMENTS).set(rounded(segments));
    gauge!(OFFLINE_DIRS).set(rounded(offline_dirs));
    gauge!(SIZE_BYTES).set(rounded(usize::try_from(size_bytes).unwrap_or(usize::MAX)));
}

pub(crate) fn to_load(logs: usize) {
    gauge!(LOGS_TO_LOAD).increment(rounded(logs));
}

pub(crate) fn loaded() {
    gauge!(LOGS_TO_LOAD).decrement(1.0);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge need not be exact beyond 2^53")]
fn rounded(count: usize) -> f64 {
    count as f64
}
