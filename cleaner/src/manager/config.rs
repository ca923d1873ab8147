//! How logs are cleaned: Kafka's `log.cleaner.*`.

use alluvium_log_manager::BrokerConfig;
use alluvium_record_format::Timestamp;

use crate::options::CleanerConfig;

/// How logs are cleaned.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LogCleanerConfig {
    /// Threads that clean: `log.cleaner.threads`, default 1.
    pub threads: usize,
    /// Bytes of the offset maps of all threads together: `log.cleaner.dedupe.buffer.size`,
    /// default 128 MiB.
    pub dedupe_buffer_bytes: u64,
    /// The part of a map's slots that may be used: `log.cleaner.io.buffer.load.factor`, default
    /// 0.9.
    pub load_factor: f64,
    /// Milliseconds that a thread sleeps when nothing is to be cleaned: `log.cleaner.backoff.ms`,
    /// default 15,000.
    pub backoff_ms: u64,
    /// Bytes a second that all threads together read and write:
    /// `log.cleaner.io.max.bytes.per.second`, default no limit.
    pub max_bytes_per_second: Option<u64>,
    /// When a log is tried again that could not be cleaned. Not in Kafka, where it never is.
    pub retry: RetryPolicy,
}

impl LogCleanerConfig {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            threads: 1,
            dedupe_buffer_bytes: 128 << 20,
            load_factor: 0.9,
            backoff_ms: 15_000,
            max_bytes_per_second: None,
            retry: RetryPolicy::new(),
        }
    }

    /// What the settings of a broker say.
    #[must_use]
    pub fn of(broker: &BrokerConfig) -> Self {
        Self {
            threads: usize::try_from(broker.cleaner_threads()).unwrap_or(usize::MAX),
            dedupe_buffer_bytes: broker.cleaner_dedupe_buffer_bytes(),
            load_factor: broker.cleaner_load_factor(),
            backoff_ms: broker.cleaner_backoff_ms(),
            max_bytes_per_second: broker.cleaner_max_bytes_per_second(),
            ..Self::new()
        }
    }

    /// Sets the number of threads.
    #[must_use]
    pub const fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Sets the memory of all offset maps together.
    #[must_use]
    pub const fn dedupe_buffer_bytes(self, bytes: u64) -> Self {
        Self { dedupe_buffer_bytes: bytes, ..self }
    }

    /// Sets the part of a map's slots that may be used.
    #[must_use]
    pub const fn load_factor(self, factor: f64) -> Self {
        Self { load_factor: factor, ..self }
    }

    /// Sets how long a thread without work sleeps.
    #[must_use]
    pub const fn backoff_ms(self, ms: u64) -> Self {
        Self { backoff_ms: ms, ..self }
    }

    /// Sets the rate of all threads together; `None` for no limit.
    #[must_use]
    pub const fn max_bytes_per_second(self, rate: Option<u64>) -> Self {
        Self { max_bytes_per_second: rate, ..self }
    }

    /// Sets when a log is tried again that could not be cleaned.
    #[must_use]
    pub const fn retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// The memory of one thread.
    pub(super) fn of_a_thread(&self) -> CleanerConfig {
        let threads = u64::try_from(self.threads.max(1)).unwrap_or(u64::MAX);
        let bytes = (self.dedupe_buffer_bytes / threads).min(MAX_MAP_BYTES);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        CleanerConfig::new().map_bytes(bytes).load_factor(self.load_factor)
    }
}

impl Default for LogCleanerConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// When a log is tried again that could not be cleaned: after a first delay that doubles with
/// every failure, up to a longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Milliseconds to the second try; `None` for no second try.
    pub first_ms: Option<u64>,
    /// The most milliseconds between two tries.
    pub max_ms: u64,
}

impl RetryPolicy {
    /// After a quarter of an hour, then ever later, up to once a day.
    #[must_use]
    pub const fn new() -> Self {
        Self { first_ms: Some(900_000), max_ms: 86_400_000 }
    }

    /// Not before somebody asks for it: Kafka waits for the next start.
    #[must_use]
    pub const fn never() -> Self {
        Self { first_ms: None, max_ms: 0 }
    }

    /// After `first_ms`, then ever later, up to every `max_ms` milliseconds.
    #[must_use]
    pub const fn doubling(first_ms: u64, max_ms: u64) -> Self {
        Self { first_ms: Some(first_ms), max_ms }
    }

    /// When the next try is due after so many that failed, the last one now.
    pub(super) fn next(self, failures: u32, now: Timestamp) -> Option<Timestamp> {
        let doublings = failures.saturating_sub(1).min(62);
        let delay = self.first_ms?.saturating_mul(1 << doublings).min(self.max_ms);
        let delay = i64::try_from(delay).unwrap_or(i64::MAX);
        Some(Timestamp::new(now.get().saturating_add(delay)))
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// The most that one map takes, as in Kafka.
const MAX_MAP_BYTES: u64 = i32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let policy = RetryPolicy::doubling(100, 1000);
        let delays =
            [1, 2, 3, 4, 5, 1000].map(|tries| policy.next(tries, Timestamp::new(0)).unwrap().get());
        assert_eq!(delays, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(RetryPolicy::never().next(1, Timestamp::new(0)), None);
    }

    #[test]
    fn every_key_of_the_broker_sets_what_it_names() {
        let (broker, _) = BrokerConfig::from_properties([
            ("log.cleaner.threads", "3"),
            ("log.cleaner.dedupe.buffer.size", "4000000"),
            ("log.cleaner.io.buffer.load.factor", "0.5"),
            ("log.cleaner.backoff.ms", "7"),
            ("log.cleaner.io.max.bytes.per.second", "1000000"),
        ])
        .unwrap();
        let expected = LogCleanerConfig::new()
            .threads(3)
            .dedupe_buffer_bytes(4_000_000)
            .load_factor(0.5)
            .backoff_ms(7)
            .max_bytes_per_second(Some(1_000_000));
        assert_eq!(LogCleanerConfig::of(&broker), expected);
        assert_eq!(LogCleanerConfig::of(&BrokerConfig::default()), LogCleanerConfig::new());
    }

    #[test]
    fn threads_share_the_memory() {
        let config = LogCleanerConfig::new().threads(4);
        assert_eq!(config.of_a_thread().map_bytes, 32 << 20);
        let huge = LogCleanerConfig::new().dedupe_buffer_bytes(u64::MAX);
        assert_eq!(huge.of_a_thread().map_bytes as u64, MAX_MAP_BYTES);
    }
}
