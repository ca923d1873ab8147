//! The settings of all logs of a broker: Kafka's broker keys, with their synonyms.

use std::path::PathBuf;

use super::broker_keys;
use super::keys::nearest;
use super::macros::settings;
use super::synonyms::{SYNONYMS, Synonym, Target};
use super::value::{Bounds, Setting};
use super::{ConfigError, DAY_MS, I32_MAX, LogConfig, LogConfigBuilder, NEVER};

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
    log_dirs: Vec<PathBuf> = vec![PathBuf::from("/tmp/kafka-logs")], "log.dirs",
        Bounds::Any;

    /// Threads that load and close logs, for each directory; at least 1.
    recovery_threads: u32 = 2, "num.recovery.threads.per.data.dir", Bounds::Int(1, I32_MAX);

    /// Milliseconds between two looks for old segments, at least 1.
    retention_check_interval_ms: u64 = 300_000, "log.retention.check.interval.ms",
        Bounds::Int(1, i64::MAX);

    /// Milliseconds between two looks for logs to flush; `i64::MAX` for never, 0 for one look.
    flush_check_interval_ms: u64 = NEVER, "log.flush.scheduler.interval.ms", Bounds::Period;

    /// Milliseconds between two writes of the recovery points, 0 for one write.
    recovery_point_interval_ms: u64 = 60_000, "log.flush.offset.checkpoint.interval.ms",
        Bounds::Int(0, I32_MAX);

    /// Milliseconds between two writes of the log start offsets, 0 for one write.
    log_start_interval_ms: u64 = 60_000, "log.flush.start.offset.checkpoint.interval.ms",
        Bounds::Int(0, I32_MAX);

    /// Milliseconds between two writes of the high watermarks, 0 for one write.
    high_watermark_interval_ms: u64 = 5_000, "replica.high.watermark.checkpoint.interval.ms",
        Bounds::Period;

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

    /// Threads that clean, at least 1.
    cleaner_threads: u32 = 1, "log.cleaner.threads", Bounds::Int(1, I32_MAX);

    /// Bytes for the keys that the cleaner knows at a time, of all its threads: more than 1 MiB for
    /// each.
    cleaner_dedupe_buffer_bytes: u64 = 128 << 20, "log.cleaner.dedupe.buffer.size",
        Bounds::Int(0, i64::MAX);

    /// Bytes that the cleaner reads and writes at a time, of all its threads. Read and checked
    /// for whoever asks; our own cleaner has buffers of its own and does not go by it.
    cleaner_io_buffer_bytes: u32 = 512 << 10, "log.cleaner.io.buffer.size", Bounds::Int(0, I32_MAX);

    /// How full the cleaner's table of keys gets, 0 to 1.
    cleaner_load_factor: f64 = 0.9, "log.cleaner.io.buffer.load.factor", Bounds::Ratio;

    /// Bytes a second that the cleaner reads and writes, of all its threads; `None` for no limit.
    /// Kafka's text may have a fraction, which counts as one more.
    cleaner_max_bytes_per_second: Option<u64> = None, "log.cleaner.io.max.bytes.per.second",
        Bounds::Rate;

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
        // Kafka checks this with the cleaner off too.
        let least = u64::from(self.0.cleaner_threads) * LEAST_DEDUPE_BYTES;
        let bounds = Bounds::Int(i64::try_from(least).unwrap_or(i64::MAX), i64::MAX);
        self.0.cleaner_dedupe_buffer_bytes.check("log.cleaner.dedupe.buffer.size", &bounds)?;
        Ok(BrokerConfig(std::sync::Arc::new(self.0)))
    }
}

impl BrokerConfig {
    /// Kafka 4.4.0's broker keys that logs do not read: accepted and passed over.
    pub const OTHER_KEYS: &'static [&'static str] = broker_keys::OTHER;

    /// Reads Kafka's broker keys and texts, as in `server.properties`.
    ///
    /// Of synonyms the finest wins: `log.roll.ms` over `log.roll.hours`, `log.retention.ms` over
    /// `.minutes` over `.hours`, `log.dirs` over `log.dir`. Any negative retention time keeps
    /// records for ever, and 0 is refused, as in Kafka. Keys of other parts of a broker
    /// ([`OTHER_KEYS`](Self::OTHER_KEYS)) are passed over; of those that Kafka has not, the ones
    /// that look like a misspelled one of ours come back with it.
    ///
    /// # Errors
    ///
    /// `Value` for a text that is not of its kind or outside its bounds, `Conflict` where the
    /// compaction lags cross; both with the broker's keys as given.
    pub fn from_properties<'a>(
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(Self, Vec<UnknownKey>), ConfigError> {
        let (mut broker, mut log) = (Self::builder(), LogConfig::builder());
        let mut found: [Option<(Synonym, &str)>; SYNONYMS.len()] = [None; SYNONYMS.len()];
        let mut unknown = Vec::new();
        for (key, text) in properties {
            let text = text.trim();
            if let Some(synonym) = Synonym::of(key) {
                // Kafka checks those too that a finer one hides.
                let (mut broker, mut log) = (Self::builder(), LogConfig::builder());
                synonym
                    .apply(text, false, |target, text| set(&mut broker, &mut log, target, text))?;
                let best = &mut found[synonym.row];
                if best.is_none_or(|(best, _)| synonym.rank <= best.rank) {
                    *best = Some((synonym, text));
                }
            }
            if !broker.set(key, text)?
                && Synonym::of(key).is_none()
                && !Self::OTHER_KEYS.contains(&key)
                && let Some(nearest) = nearest(key, &all_keys())
            {
                unknown.push(UnknownKey { key: key.to_owned(), nearest });
            }
        }
        for (synonym, text) in found.iter().flatten() {
            synonym.apply(text, true, |target, text| set(&mut broker, &mut log, target, text))?;
        }
        broker.0.log_defaults = log.build().map_err(|refused| as_given(refused, &found))?;
        Ok((broker.build()?, unknown))
    }
}

fn set(
    broker: &mut BrokerConfigBuilder,
    log: &mut LogConfigBuilder,
    target: Target,
    text: &str,
) -> Result<bool, ConfigError> {
    match target {
        Target::Log(key) => log.set(key, text),
        Target::Broker(key) => broker.set(key, text),
    }
}

/// Names the broker's keys in the place of the topic's.
fn as_given(refused: ConfigError, found: &[Option<(Synonym, &str)>]) -> ConfigError {
    let given = |key: &'static str| {
        let row = SYNONYMS.iter().position(|(_, target)| target.key() == key);
        row.and_then(|row| found[row]).map_or(key, |(synonym, _)| synonym.key())
    };
    match refused {
        ConfigError::Conflict { key, other } => {
            ConfigError::Conflict { key: given(key), other: given(other) }
        }
        other => other,
    }
}

fn all_keys() -> Vec<&'static str> {
    let synonyms = SYNONYMS.iter().flat_map(|(names, _)| names.iter().map(|(name, _)| *name));
    BrokerConfig::KEYS.iter().copied().chain(synonyms).collect()
}

/// Bytes for the keys of one thread of the cleaner.
///
/// Source: `KafkaConfig.validateValues` in Kafka.
const LEAST_DEDUPE_BYTES: u64 = (1 << 20) + 1;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
    fn any_negative_retention_time_keeps_for_ever() {
        for key in ["log.retention.ms", "log.retention.minutes", "log.retention.hours"] {
            for text in ["-1", "-2", "-2147483648"] {
                assert_eq!(
                    read(&[(key, text)]).log_defaults().retention_ms(),
                    None,
                    "{key} {text}"
                );
            }
            assert!(read(&[(key, "1")]).log_defaults().retention_ms().is_some(), "{key}");
        }
    }

    #[test]
    fn a_retention_time_of_zero_is_refused_unless_a_finer_one_hides_it() {
        for key in ["log.retention.ms", "log.retention.minutes", "log.retention.hours"] {
            let refused = BrokerConfig::from_properties([(key, "0")]).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("`{key}` is 0, expected")), "{refused}");
            assert!(refused.ends_with("that is not 0"), "{refused}");
        }
        let hidden = read(&[("log.retention.minutes", "0"), ("log.retention.ms", "5")]);
        assert_eq!(hidden.log_defaults().retention_ms(), Some(5));
        let hidden = read(&[("log.retention.ms", "-5"), ("log.retention.hours", "0")]);
        assert_eq!(hidden.log_defaults().retention_ms(), None);
    }

    #[test]
    fn of_a_key_given_twice_the_last_counts() {
        let config = read(&[("log.roll.ms", "5"), ("log.roll.ms", "6")]);
        assert_eq!(config.log_defaults().segment_ms(), 6);
    }

    #[test]
    fn the_rate_of_the_cleaner_is_a_number_above_zero() {
        let rate = |text| {
            let (config, _) =
                BrokerConfig::from_properties([("log.cleaner.io.max.bytes.per.second", text)])?;
            Ok::<_, ConfigError>(config.cleaner_max_bytes_per_second())
        };
        assert_eq!(BrokerConfig::default().cleaner_max_bytes_per_second(), None);
        assert_eq!(rate("1000000"), Ok(Some(1_000_000)));
        assert_eq!(rate("1.5E6"), Ok(Some(1_500_000)));
        assert_eq!(rate("0.25"), Ok(Some(1)));
        assert_eq!(rate("1.7976931348623157E308"), Ok(None));
        for text in ["0", "-1", "NaN", "fast", ""] {
            let refused = rate(text).unwrap_err().to_string();
            let key = "log.cleaner.io.max.bytes.per.second";
            let text = if text.is_empty() { "empty" } else { text };
            assert_eq!(refused, format!("`{key}` is {text}, expected a number above 0"));
        }
        let refused = BrokerConfig::builder().cleaner_max_bytes_per_second(Some(0)).build();
        assert!(matches!(refused, Err(ConfigError::Value { .. })));
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
    fn no_key_of_kafkas_counts_as_misspelled() {
        let properties = BrokerConfig::OTHER_KEYS.iter().map(|key| (*key, "x"));
        let (config, unknown) = BrokerConfig::from_properties(properties).unwrap();
        assert_eq!((config, unknown), (BrokerConfig::default(), Vec::new()));
        assert!(BrokerConfig::OTHER_KEYS.is_sorted());
        // Without the list these three would be taken for ours.
        for key in
            ["offsets.retention.minutes", "log.local.retention.ms", "log.local.retention.bytes"]
        {
            assert!(BrokerConfig::OTHER_KEYS.contains(&key) && nearest(key, &all_keys()).is_some());
        }
    }

    #[test]
    fn ours_and_the_others_are_all_keys_of_the_broker_and_none_is_both() {
        let ours: BTreeSet<&str> = all_keys().into_iter().collect();
        let others: BTreeSet<&str> = BrokerConfig::OTHER_KEYS.iter().copied().collect();
        assert!(ours.is_disjoint(&others));
        // What `KafkaConfig.configDef` of Kafka 4.4.0 counts.
        assert_eq!(ours.len() + others.len(), 379);
    }

    #[test]
    fn every_misspelled_key_of_ours_comes_back() {
        for key in all_keys() {
            let misspelled = format!("{key}x");
            let (_, unknown) = BrokerConfig::from_properties([(misspelled.as_str(), "1")]).unwrap();
            assert_eq!(unknown.len(), 1, "{misspelled}");
        }
    }

    #[test]
    fn a_value_outside_its_bounds_names_the_key_and_the_text_as_given() {
        for (key, text) in [
            ("num.recovery.threads.per.data.dir", "0"),
            ("log.segment.bytes", "5"),
            ("log.roll.hours", "x"),
            ("log.roll.hours", "0"),
            ("log.roll.ms", "0"),
            ("log.roll.jitter.hours", "-1"),
            ("log.retention.hours", "2147483648"),
            ("log.retention.bytes", "all"),
            ("message.max.bytes", "-1"),
            ("max.decompressed.message.bytes", "0"),
            ("log.cleaner.min.cleanable.ratio", "2"),
            ("log.cleanup.policy", "remove"),
            ("log.preallocate", "yes"),
        ] {
            let refused = BrokerConfig::from_properties([(key, text)]).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("`{key}` is {text}, expected")), "{refused}");
        }
    }

    #[test]
    fn a_bad_value_is_refused_even_where_a_finer_synonym_hides_it() {
        let (hours, ms) = (("log.roll.hours", "0"), ("log.roll.ms", "5"));
        for both in [[hours, ms], [ms, hours]] {
            let refused = BrokerConfig::from_properties(both).unwrap_err().to_string();
            assert!(refused.starts_with("`log.roll.hours` is 0"), "{refused}");
        }
    }

    #[test]
    fn crossing_compaction_lags_are_named_by_the_keys_of_the_broker() {
        let min = ("log.cleaner.min.compaction.lag.ms", "5");
        let max = ("log.cleaner.max.compaction.lag.ms", "4");
        let refused = BrokerConfig::from_properties([min, max]).unwrap_err().to_string();
        assert_eq!(refused, format!("`{}` is above `{}`", min.0, max.0));
    }

    #[test]
    fn the_largest_record_is_a_setting_of_the_broker_too() {
        let config = read(&[("max.decompressed.message.bytes", "5000")]);
        assert_eq!(config.log_defaults().max_decompressed_message_bytes(), 5000);
    }
}
