//! The settings of all logs of a broker: Kafka's broker keys, with their synonyms.

use std::path::PathBuf;

use super::keys::nearest;
use super::macros::settings;
use super::value::{Bounds, Setting};
use super::{ConfigError, DAY_MS, I32_MAX, LogConfig, NEVER};

settings! {
    /// The settings of all logs of a broker, checked. Cheap to clone.
    ///
    /// # Examples
    ///
    /// ```
    /// # use alluvium_log_manager::{BrokerConfig, ConfigError};
    /// let properties = [("log.dirs", "/disk1,/disk2"), ("log.retention.hours", "2")];
    /// let (config, unknown) = BrokerConfig::from_properties(properties)?;
    /// assert_eq!(config.log_dirs().len(), 2);
    /// assert_eq!(config.log_defaults().retention_ms(), Some(7_200_000));
    /// assert!(unknown.is_empty());
    /// # Ok::<(), ConfigError>(())
    /// ```
    BrokerConfig(BrokerSettings), BrokerConfigBuilder;

    also {
        /// The settings of a log where its topic does not say otherwise.
        log_defaults: LogConfig;
    }

    /// The log directories, one for each disk.
    log_dirs: Vec<PathBuf> = vec![std::env::temp_dir().join("kafka-logs")], "log.dirs",
        Bounds::Any;

    /// Threads that load and close logs, for each directory; at least 1.
    recovery_threads: u32 = 2, "num.recovery.threads.per.data.dir", Bounds::Int(1, I32_MAX);

    /// Milliseconds between two looks for old segments, at least 1.
    retention_check_interval_ms: u64 = 300_000, "log.retention.check.interval.ms",
        Bounds::Int(1, i64::MAX);

    /// Milliseconds between two looks for logs to flush; `i64::MAX` for never.
    flush_check_interval_ms: u64 = NEVER, "log.flush.scheduler.interval.ms",
        Bounds::Int(0, i64::MAX);

    /// Milliseconds between two writes of the recovery points.
    recovery_point_interval_ms: u64 = 60_000, "log.flush.offset.checkpoint.interval.ms",
        Bounds::Int(0, I32_MAX);

    /// Milliseconds between two writes of the log start offsets.
    log_start_interval_ms: u64 = 60_000, "log.flush.start.offset.checkpoint.interval.ms",
        Bounds::Int(0, I32_MAX);

    /// Milliseconds between two writes of the high watermarks.
    high_watermark_interval_ms: u64 = 5_000, "replica.high.watermark.checkpoint.interval.ms",
        Bounds::Int(0, i64::MAX);

    /// Milliseconds from the start to the first run of each of these.
    initial_delay_ms: u64 = 30_000, "log.initial.task.delay.ms", Bounds::Int(0, i64::MAX);

    /// Milliseconds after which an idle producer's sequence is forgotten, at least 1.
    producer_id_expiration_ms: u64 = DAY_MS, "producer.id.expiration.ms", Bounds::Int(1, I32_MAX);

    /// Milliseconds between two looks for idle producers, at least 1.
    producer_id_check_interval_ms: u64 = 600_000, "producer.id.expiration.check.interval.ms",
        Bounds::Int(1, I32_MAX);

    /// Milliseconds that a transaction may take, at least 1: a later one counts as hanging.
    transaction_max_timeout_ms: u64 = 900_000, "transaction.max.timeout.ms",
        Bounds::Int(1, I32_MAX);

    /// Whether a transaction must be known to its coordinator before it writes.
    transaction_verification: bool = true, "transaction.partition.verification.enable",
        Bounds::Any;

    /// Whether compacted logs are cleaned.
    cleaner_enable: bool = true, "log.cleaner.enable", Bounds::Any;

    /// Threads that clean.
    cleaner_threads: u32 = 1, "log.cleaner.threads", Bounds::Int(0, I32_MAX);

    /// Bytes for the keys that the cleaner knows at a time, of all its threads.
    cleaner_dedupe_buffer_bytes: u64 = 128 << 20, "log.cleaner.dedupe.buffer.size",
        Bounds::Int(0, i64::MAX);

    /// Bytes that the cleaner reads and writes at a time, of all its threads.
    cleaner_io_buffer_bytes: u32 = 512 << 10, "log.cleaner.io.buffer.size", Bounds::Int(0, I32_MAX);

    /// How full the cleaner's table of keys gets, 0 to 1.
    cleaner_load_factor: f64 = 0.9, "log.cleaner.io.buffer.load.factor", Bounds::Ratio;

    /// Milliseconds that the cleaner sleeps when nothing is dirty.
    cleaner_backoff_ms: u64 = 15_000, "log.cleaner.backoff.ms", Bounds::Int(0, i64::MAX);
}

/// Sets the settings of a broker's logs; [`build`](Self::build) checks them.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct BrokerConfigBuilder(BrokerSettings);

/// A key that no setting has, but that is spelled much like one that does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownKey {
    /// The key as given.
    pub key: String,
    /// The known key that is spelled most like it.
    pub nearest: &'static str,
}

impl BrokerConfigBuilder {
    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// `Value` with the key outside its bounds.
    pub fn build(self) -> Result<BrokerConfig, ConfigError> {
        self.check()?;
        Ok(BrokerConfig(std::sync::Arc::new(self.0)))
    }
}

impl BrokerConfig {
    /// Reads Kafka's broker keys and texts, as in `server.properties`.
    ///
    /// Of synonyms the finest wins: `log.roll.ms` over `log.roll.hours`, `log.retention.ms` over
    /// `.minutes` over `.hours`, `log.dirs` over `log.dir`. Keys of other parts of a broker are
    /// passed over; those that look like a misspelled one of ours come back with it.
    ///
    /// # Errors
    ///
    /// `Value` for a text that is not of its kind or outside its bounds.
    pub fn from_properties<'a>(
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(Self, Vec<UnknownKey>), ConfigError> {
        let mut builder = Self::builder();
        let mut defaults = LogConfig::builder();
        let mut found: [Option<(usize, String)>; SYNONYMS.len()] = Default::default();
        let mut unknown = Vec::new();
        for (key, text) in properties {
            let text = text.trim();
            if let Some((setting, rank)) = synonym(key)
                && found[setting].as_ref().is_none_or(|(best, _)| rank < *best)
            {
                found[setting] = Some((rank, SYNONYMS[setting].0[rank].1.convert(key, text)?));
            }
            if !builder.set(key, text)?
                && synonym(key).is_none()
                && let Some(nearest) = nearest(key, &all_keys())
            {
                unknown.push(UnknownKey { key: key.to_owned(), nearest });
            }
        }
        for ((_, target), value) in SYNONYMS.iter().zip(found) {
            let Some((_, text)) = value else { continue };
            match target {
                Target::Log(key) => drop(defaults.set(key, &text)?),
                Target::Broker(key) => drop(builder.set(key, &text)?),
            }
        }
        builder.0.log_defaults = defaults.build()?;
        Ok((builder.build()?, unknown))
    }
}

/// What a synonym sets.
enum Target {
    /// A topic key.
    Log(&'static str),
    /// A broker key.
    Broker(&'static str),
}

/// How a synonym's text becomes that of the setting.
#[derive(Clone, Copy)]
enum Unit {
    /// As it is.
    Same,
    /// Whole minutes, as milliseconds.
    Minutes,
    /// Whole hours, as milliseconds.
    Hours,
}

impl Unit {
    fn convert(self, key: &str, text: &str) -> Result<String, ConfigError> {
        let factor = match self {
            Self::Same => return Ok(text.to_owned()),
            Self::Minutes => 60_000,
            Self::Hours => 3_600_000,
        };
        let key = all_keys().into_iter().find(|known| *known == key).unwrap_or_default();
        let count: i64 = Setting::parse(key, text, &Bounds::Int(-1, I32_MAX))?;
        Ok(if count < 0 { "-1".to_owned() } else { (count * factor).to_string() })
    }
}

fn synonym(key: &str) -> Option<(usize, usize)> {
    SYNONYMS.iter().enumerate().find_map(|(setting, (names, _))| {
        let rank = names.iter().position(|(name, _)| *name == key)?;
        Some((setting, rank))
    })
}

fn all_keys() -> Vec<&'static str> {
    let synonyms = SYNONYMS.iter().flat_map(|(names, _)| names.iter().map(|(name, _)| *name));
    BrokerConfig::KEYS.iter().copied().chain(synonyms).collect()
}

const fn same(name: &'static str) -> (&'static str, Unit) {
    (name, Unit::Same)
}

/// Broker keys in order of precedence, beside what they set.
const SYNONYMS: &[(&[(&str, Unit)], Target)] = &[
    (&[same("log.dirs"), same("log.dir")], Target::Broker("log.dirs")),
    (&[same("log.segment.bytes")], Target::Log("segment.bytes")),
    (&[same("log.roll.ms"), ("log.roll.hours", Unit::Hours)], Target::Log("segment.ms")),
    (
        &[same("log.roll.jitter.ms"), ("log.roll.jitter.hours", Unit::Hours)],
        Target::Log("segment.jitter.ms"),
    ),
    (&[same("log.index.size.max.bytes")], Target::Log("segment.index.bytes")),
    (&[same("log.index.interval.bytes")], Target::Log("index.interval.bytes")),
    (&[same("log.flush.interval.messages")], Target::Log("flush.messages")),
    (
        &[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")],
        Target::Log("flush.ms"),
    ),
    (&[same("log.retention.bytes")], Target::Log("retention.bytes")),
    (
        &[
            same("log.retention.ms"),
            ("log.retention.minutes", Unit::Minutes),
            ("log.retention.hours", Unit::Hours),
        ],
        Target::Log("retention.ms"),
    ),
    (&[same("message.max.bytes")], Target::Log("max.message.bytes")),
    (&[same("log.cleaner.delete.retention.ms")], Target::Log("delete.retention.ms")),
    (&[same("log.cleaner.min.compaction.lag.ms")], Target::Log("min.compaction.lag.ms")),
    (&[same("log.cleaner.max.compaction.lag.ms")], Target::Log("max.compaction.lag.ms")),
    (&[same("log.cleaner.min.cleanable.ratio")], Target::Log("min.cleanable.dirty.ratio")),
    (&[same("log.segment.delete.delay.ms")], Target::Log("file.delete.delay.ms")),
    (&[same("log.cleanup.policy")], Target::Log("cleanup.policy")),
    (&[same("compression.type")], Target::Log("compression.type")),
    (&[same("compression.gzip.level")], Target::Log("compression.gzip.level")),
    (&[same("compression.lz4.level")], Target::Log("compression.lz4.level")),
    (&[same("compression.zstd.level")], Target::Log("compression.zstd.level")),
    (&[same("log.preallocate")], Target::Log("preallocate")),
    (&[same("log.message.timestamp.type")], Target::Log("message.timestamp.type")),
    (
        &[same("log.message.timestamp.before.max.ms")],
        Target::Log("message.timestamp.before.max.ms"),
    ),
    (&[same("log.message.timestamp.after.max.ms")], Target::Log("message.timestamp.after.max.ms")),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(properties: &[(&str, &str)]) -> BrokerConfig {
        let (config, unknown) = BrokerConfig::from_properties(properties.iter().copied()).unwrap();
        assert_eq!(unknown, []);
        config
    }

    #[test]
    fn every_synonym_sets_a_setting_that_exists() {
        for (names, target) in SYNONYMS {
            match target {
                Target::Log(key) => assert!(LogConfig::KEYS.contains(key), "{key}"),
                Target::Broker(key) => assert!(BrokerConfig::KEYS.contains(key), "{key}"),
            }
            assert!(!names.is_empty());
        }
    }

    #[test]
    fn the_finest_synonym_wins_whatever_the_order() {
        let ms = ("log.retention.ms", "5");
        let minutes = ("log.retention.minutes", "2");
        let hours = ("log.retention.hours", "3");
        for all in [[ms, minutes, hours], [hours, minutes, ms], [minutes, ms, hours]] {
            assert_eq!(read(&all).log_defaults().retention_ms(), Some(5));
        }
        assert_eq!(read(&[hours, minutes]).log_defaults().retention_ms(), Some(120_000));
        assert_eq!(read(&[hours]).log_defaults().retention_ms(), Some(10_800_000));
    }

    #[test]
    fn minus_one_hour_of_retention_keeps_for_ever() {
        assert_eq!(read(&[("log.retention.hours", "-1")]).log_defaults().retention_ms(), None);
    }

    #[test]
    fn log_dirs_wins_over_log_dir() {
        let config = read(&[("log.dir", "/one"), ("log.dirs", " /two , /three ")]);
        assert_eq!(config.log_dirs(), [PathBuf::from("/two"), PathBuf::from("/three")]);
        assert_eq!(read(&[("log.dir", "/one")]).log_dirs(), [PathBuf::from("/one")]);
    }

    #[test]
    fn a_flush_interval_defaults_to_that_of_the_look_for_it() {
        let config = read(&[("log.flush.scheduler.interval.ms", "3000")]);
        assert_eq!(config.log_defaults().flush_ms(), 3000);
        assert_eq!(config.flush_check_interval_ms(), 3000);
    }

    #[test]
    fn a_misspelled_key_comes_back_and_a_foreign_one_does_not() {
        let properties = [("log.segment.byte", "5"), ("listeners", "PLAINTEXT://:9092")];
        let (_, unknown) = BrokerConfig::from_properties(properties).unwrap();
        let expected = UnknownKey { key: "log.segment.byte".into(), nearest: "log.segment.bytes" };
        assert_eq!(unknown, [expected]);
    }

    #[test]
    fn a_value_outside_its_bounds_names_the_key() {
        for (key, text) in [
            ("num.recovery.threads.per.data.dir", "0"),
            ("log.segment.bytes", "5"),
            ("log.roll.hours", "x"),
        ] {
            let refused = BrokerConfig::from_properties([(key, text)]).unwrap_err();
            assert!(refused.to_string().contains("is "), "{refused}");
        }
    }
}
