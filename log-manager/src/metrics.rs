//! What logs count, through the `metrics` facade: nothing where nobody listens.
//!
//! All count for the process as a whole. The gauges, and what the kernel counts, are as of the last
//! [`LogManager::tick`](crate::LogManager::tick).
//!
//! | name | kind, unit | meaning |
//! |---|---|---|
//! | `log_bytes_in_total` | counter, bytes | appended: `BytesInPerSec` in Kafka |
//! | `log_bytes_out_total` | counter, bytes | handed out by reads: `BytesOutPerSec` |
//! | `log_flush_seconds` | histogram, seconds | a flush: `LogFlushRateAndTimeMs` |
//! | `log_rolls_total` | counter, segments | new active segments |
//! | `log_segments_deleted_total` | counter, segments | dropped by retention |
//! | `log_scrubbed_bytes_total` | counter, bytes | read again by the scrubber |
//! | `log_damages_found_total` | counter, damages | found by the scrubber, in each pass again |
//! | `log_disk_read_bytes_total` | counter, bytes | read from disks for this process
//! (`/proc/self/io`): beside `log_bytes_out_total` it tells what the page cache serves |
//! | `log_segments` | gauge, segments | of all logs: the sum of `NumLogSegments` |
//! | `log_size_bytes` | gauge, bytes | of all logs: the sum of `Size`; by `log_segments`, the mean
//! size of a segment |
//! | `log_count` | gauge, logs | in service |
//! | `log_offline_dirs` | gauge, directories | have failed: `OfflineLogDirectoryCount` |
//! | `log_offline_count` | gauge, logs | on failed disks, or not loadable: `OfflineReplicaCount` |
//! | `log_remaining_to_load` | gauge, logs | a start has still to load them:
//! `remainingLogsToRecover` |

use std::time::Duration;

use metrics::{
    Counter, Key, Level, Metadata, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

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
/// Logs on directories that have failed, and those that could not be loaded: `OfflineReplicaCount`.
pub const OFFLINE_LOGS: &str = "log_offline_count";
/// Logs that a start has still to load: `remainingLogsToRecover`.
pub const LOGS_TO_LOAD: &str = "log_remaining_to_load";

/// Bytes of sealed segments that the scrubber has read again: no metric of Kafka's.
pub const SCRUBBED_BYTES: &str = "log_scrubbed_bytes_total";
/// Damages that the scrubber has found, in each of its passes again: no metric of Kafka's.
pub const DAMAGES_FOUND: &str = "log_damages_found_total";
/// Bytes that this process has had read from disks, from `/proc/self/io`, as of the last tick.
/// Beside [`BYTES_OUT`] it tells how much the page cache serves: no metric of Kafka's.
pub const DISK_READ_BYTES: &str = "log_disk_read_bytes_total";

/// Tells the recorder of this process what each name means, and shows each counter as 0: a rise
/// from nothing would be no rise to who asks by `increase`. To be called once it is installed.
pub fn describe_metrics() {
    describe_counter!(BYTES_IN, "bytes appended to logs");
    describe_counter!(BYTES_OUT, "bytes handed out by reads");
    describe_histogram!(FLUSH_SECONDS, "seconds that a flush took");
    describe_counter!(ROLLS, "new active segments");
    describe_counter!(SEGMENTS_DELETED, "segments dropped by retention");
    describe_counter!(SCRUBBED_BYTES, "bytes that the scrubber has read again");
    describe_counter!(DAMAGES_FOUND, "damages that the scrubber has found");
    describe_counter!(DISK_READ_BYTES, "bytes that this process has had read from disks");
    describe_gauge!(SEGMENTS, "segments of all logs");
    describe_gauge!(SIZE_BYTES, "bytes of all logs");
    describe_gauge!(LOGS, "logs in service");
    describe_gauge!(OFFLINE_DIRS, "log directories that have failed");
    describe_gauge!(OFFLINE_LOGS, "logs on failed directories, or that could not be loaded");
    describe_gauge!(LOGS_TO_LOAD, "logs that a start has still to load");
    for name in COUNTERS {
        counter!(*name).increment(0);
    }
}

const COUNTERS: &[&str] =
    &[BYTES_IN, BYTES_OUT, ROLLS, SEGMENTS_DELETED, SCRUBBED_BYTES, DAMAGES_FOUND, DISK_READ_BYTES];

pub(crate) fn appended(bytes: usize) {
    static NAME: Key = Key::from_static_name(BYTES_IN);
    counter_of(&NAME).increment(u64::try_from(bytes).unwrap_or(u64::MAX));
}

pub(crate) fn handed_out(bytes: u32) {
    static NAME: Key = Key::from_static_name(BYTES_OUT);
    counter_of(&NAME).increment(u64::from(bytes));
}

/// The counter of this name. What `counter!` makes of a constant, without hashing the name in
/// each append and read.
fn counter_of(name: &'static Key) -> Counter {
    static METADATA: Metadata<'static> =
        Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
    metrics::with_recorder(|recorder| recorder.register_counter(name, &METADATA))
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

pub(crate) fn scrubbed(bytes: u64) {
    counter!(SCRUBBED_BYTES).increment(bytes);
}

pub(crate) fn damage_found() {
    counter!(DAMAGES_FOUND).increment(1);
}

/// Takes over what the kernel counts for this process.
pub(crate) fn read_from_disk() {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes:"));
    if let Some(bytes) = line.and_then(|bytes| bytes.trim().parse().ok()) {
        counter!(DISK_READ_BYTES).absolute(bytes);
    }
}

/// The state of all logs at a tick.
pub(crate) fn state(logs: usize, segments: usize, size_bytes: u64) {
    gauge!(LOGS).set(rounded(logs));
    gauge!(SEGMENTS).set(rounded(segments));
    gauge!(SIZE_BYTES).set(rounded(usize::try_from(size_bytes).unwrap_or(usize::MAX)));
}

/// What is out of service at a tick.
pub(crate) fn offline(dirs: usize, logs: usize) {
    gauge!(OFFLINE_DIRS).set(rounded(dirs));
    gauge!(OFFLINE_LOGS).set(rounded(logs));
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

#[cfg(test)]
mod tests {
    #[test]
    fn every_metric_stands_in_the_table() {
        let source = include_str!("metrics.rs");
        let quoted = |line: &'static str| line.split('"').nth(1);
        let names: Vec<&str> = source
            .lines()
            .filter(|line| line.starts_with("pub const"))
            .filter_map(quoted)
            .collect();
        let rows = source.lines().filter_map(|line| line.strip_prefix("//! | `log_")).count();
        assert_eq!((names.len(), rows), (14, 14));
        for name in names {
            assert!(source.contains(&format!("//! | `{name}` |")), "{name}");
        }
    }
}
