//! The settings of one log: Kafka's topic keys, typed and checked.

mod broker;
mod broker_keys;
mod error;
mod keys;
mod macros;
mod synonyms;
mod text;
mod value;

use std::sync::Arc;

use alluvium_record_format::{Codec, TimestampType};
use alluvium_segment::SegmentConfig;

pub use broker::{BrokerConfig, BrokerConfigBuilder, UnknownKey};
pub use error::{ConfigError, Expected};
pub use value::{CleanupPolicy, CompressionType};

use keys::nearest;
use macros::settings;
use value::{Bounds, Setting};

settings! {
    /// The settings of one log, checked. Cheap to clone.
    ///
    /// # Examples
    ///
    /// ```
    /// # use alluvium_log_manager::{ConfigError, LogConfig};
    /// let config = LogConfig::builder().segment_bytes(64 << 20).build()?;
    /// assert_eq!(config.index_interval_bytes(), 4096);
    ///
    /// let refused = LogConfig::from_properties([("segment.byte", "1")]).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "`segment.byte` is no setting of a log, did you mean `segment.bytes`?"
    /// );
    /// # Ok::<(), ConfigError>(())
    /// ```
    LogConfig(Settings), LogConfigBuilder;

    also {}

    /// Bytes at which a segment is full: 1 MiB to 2 GiB - 1. A roll comes before the append that
    /// would pass it.
    segment_bytes: u32 = 1 << 30, "segment.bytes", Bounds::Int(1 << 20, I32_MAX);

    /// Replaces [`segment_bytes`](Self::segment_bytes), without its minimum: for tests.
    internal_segment_bytes: Option<u32> = None, "internal.segment.bytes", Bounds::Int(1, I32_MAX);

    /// Age of a segment in milliseconds of message time, at least 1, at which the next append
    /// rolls.
    segment_ms: u64 = 7 * DAY_MS, "segment.ms", Bounds::Int(1, i64::MAX);

    /// Upper bound of the random time in milliseconds that is taken off
    /// [`segment_ms`](Self::segment_ms) for each segment, so that logs do not roll together.
    segment_jitter_ms: u64 = 0, "segment.jitter.ms", Bounds::Int(0, i64::MAX);

    /// Bytes of the offset and of the time index of a segment, at least 4; a full index rolls.
    segment_index_bytes: u32 = 10 << 20, "segment.index.bytes", Bounds::Int(4, I32_MAX);

    /// Bytes of the log between two index entries.
    index_interval_bytes: u32 = 4096, "index.interval.bytes", Bounds::Int(0, I32_MAX);

    /// Records that may be unsynced before an append flushes, at least 1; `i64::MAX` for never.
    flush_messages: u64 = NEVER, "flush.messages", Bounds::Int(1, i64::MAX);

    /// Milliseconds after which unsynced records are flushed; `i64::MAX` for never.
    flush_ms: u64 = NEVER, "flush.ms", Bounds::Int(0, i64::MAX);

    /// Bytes that the log keeps at least when old segments go; `None` keeps all. Any negative
    /// number in Kafka's text is `None`.
    retention_bytes: Option<u64> = None, "retention.bytes", Bounds::Int(i64::MIN, i64::MAX);

    /// Milliseconds that records are kept; `None` keeps them for ever, -1 in Kafka's text.
    retention_ms: Option<u64> = Some(7 * DAY_MS), "retention.ms", Bounds::Int(-1, i64::MAX);

    /// Bytes of the largest batch that a leader accepts.
    max_message_bytes: u32 = (1 << 20) + 12, "max.message.bytes", Bounds::Int(0, I32_MAX);

    /// Bytes of the largest record that is taken out of a compressed batch, at least 1.
    max_decompressed_message_bytes: u32 = 2_147_483_639, "max.decompressed.message.bytes",
        Bounds::Int(1, 2_147_483_639);

    /// Milliseconds that tombstones and transaction markers stay after they were first cleaned.
    delete_retention_ms: u64 = DAY_MS, "delete.retention.ms", Bounds::Int(0, i64::MAX);

    /// Milliseconds that a record stays out of the cleaner's reach.
    min_compaction_lag_ms: u64 = 0, "min.compaction.lag.ms", Bounds::Int(0, i64::MAX);

    /// Milliseconds after which a record must be within the cleaner's reach, at least 1.
    max_compaction_lag_ms: u64 = NEVER, "max.compaction.lag.ms", Bounds::Int(1, i64::MAX);

    /// The part of a log, 0 to 1, that must be dirty before the cleaner takes it.
    min_cleanable_dirty_ratio: f64 = 0.5, "min.cleanable.dirty.ratio", Bounds::Ratio;

    /// Milliseconds between the removal of a segment from the log and that of its files.
    file_delete_delay_ms: u64 = 60_000, "file.delete.delay.ms", Bounds::Int(0, i64::MAX);

    /// What happens to old records.
    cleanup_policy: CleanupPolicy = CleanupPolicy::DELETE, "cleanup.policy", Bounds::Any;

    /// The codec that batches are stored in.
    compression_type: CompressionType = CompressionType::Producer, "compression.type", Bounds::Any;

    /// Level of gzip where a leader compresses: 1 to 9, or -1 for its default.
    compression_gzip_level: i32 = -1, "compression.gzip.level", Bounds::IntNotZero(-1, 9);

    /// Level of lz4 where a leader compresses: 1 to 17.
    compression_lz4_level: i32 = 9, "compression.lz4.level", Bounds::Int(1, 17);

    /// Level of zstd where a leader compresses: -131072 to 22.
    compression_zstd_level: i32 = 3, "compression.zstd.level", Bounds::Int(-131_072, 22);

    /// Whether a new segment's file gets its full length at once.
    preallocate: bool = false, "preallocate", Bounds::Any;

    /// Whether records keep the producer's time or get the leader's.
    message_timestamp_type: TimestampType = TimestampType::CreateTime, "message.timestamp.type",
        Bounds::Any;

    /// Milliseconds by which a record's time may lie before the leader's clock.
    message_timestamp_before_max_ms: u64 = NEVER, "message.timestamp.before.max.ms",
        Bounds::Int(0, i64::MAX);

    /// Milliseconds by which a record's time may lie after the leader's clock.
    message_timestamp_after_max_ms: u64 = 3_600_000, "message.timestamp.after.max.ms",
        Bounds::Int(0, i64::MAX);
}

/// Sets the settings of a log; [`build`](Self::build) checks them.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct LogConfigBuilder(Settings);

impl LogConfigBuilder {
    /// Sets settings from Kafka's keys and texts; surrounding spaces do not count.
    ///
    /// Keys of Kafka's that concern other parts of a broker ([`LogConfig::OTHER_KEYS`]) are
    /// passed over.
    ///
    /// # Errors
    ///
    /// `Unknown` with the nearest known key, `Value` for a text that is not of its kind or
    /// outside its bounds.
    pub fn properties<'a>(
        mut self,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        for (key, text) in properties {
            if !self.set(key, text.trim())? && !LogConfig::OTHER_KEYS.contains(&key) {
                let nearest = nearest(key, LogConfig::KEYS);
                return Err(ConfigError::Unknown { key: key.to_owned(), nearest });
            }
        }
        Ok(self)
    }

    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// `Value` with the key outside its bounds, `Conflict` where the compaction lags cross.
    pub fn build(self) -> Result<LogConfig, ConfigError> {
        self.check()?;
        if self.0.min_compaction_lag_ms > self.0.max_compaction_lag_ms {
            let (key, other) = ("min.compaction.lag.ms", "max.compaction.lag.ms");
            return Err(ConfigError::Conflict { key, other });
        }
        Ok(LogConfig(Arc::new(self.0)))
    }
}

impl LogConfig {
    /// Topic keys of Kafka's that a log does not read: accepted and passed over.
    pub const OTHER_KEYS: &'static [&'static str] = keys::OTHER;

    /// Kafka's defaults with these keys of Kafka's set.
    ///
    /// # Errors
    ///
    /// As [`LogConfigBuilder::properties`] and [`LogConfigBuilder::build`].
    pub fn from_properties<'a>(
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        Self::builder().properties(properties)?.build()
    }

    /// Bytes at which a segment is full, with the override of tests.
    #[must_use]
    pub fn roll_bytes(&self) -> u32 {
        self.internal_segment_bytes().unwrap_or_else(|| self.segment_bytes())
    }

    /// What a segment needs of the settings.
    #[must_use]
    pub fn segment(&self) -> SegmentConfig {
        SegmentConfig::new()
            .index_interval_bytes(self.index_interval_bytes())
            .max_index_bytes(self.segment_index_bytes())
            .preallocate_bytes(self.preallocate().then(|| self.roll_bytes()))
    }

    /// Milliseconds of message time after which a segment rolls: for a compacted log at most its
    /// compaction lag.
    #[must_use]
    pub fn roll_ms(&self) -> u64 {
        if self.cleanup_policy().compacts() {
            self.segment_ms().min(self.max_compaction_lag_ms())
        } else {
            self.segment_ms()
        }
    }

    /// The jitter of a new segment, from a random number.
    ///
    /// Source: `LogConfig.randomSegmentJitter` in Kafka.
    #[must_use]
    pub fn roll_jitter_ms(&self, random: u32) -> u64 {
        match self.segment_jitter_ms().min(self.segment_ms()) {
            0 => 0,
            bound => u64::from(random >> 1) % bound,
        }
    }

    /// The level for a codec where a leader compresses; `None` for codecs without levels.
    #[must_use]
    pub fn compression_level(&self, codec: Codec) -> Option<i32> {
        match codec {
            Codec::Gzip => Some(self.compression_gzip_level()),
            Codec::Lz4 => Some(self.compression_lz4_level()),
            Codec::Zstd => Some(self.compression_zstd_level()),
            _ => None,
        }
    }
}

const I32_MAX: i64 = 0x7fff_ffff;
const DAY_MS: u64 = 86_400_000;
const NEVER: u64 = 0x7fff_ffff_ffff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_kafkas() {
        let config = LogConfig::default();
        assert_eq!(config.segment_bytes(), 1_073_741_824);
        assert_eq!(config.max_message_bytes(), 1_048_588);
        assert_eq!(config.retention_ms(), Some(604_800_000));
        assert_eq!(config.retention_bytes(), None);
        assert_eq!(LogConfig::builder().build().unwrap(), config);
    }

    #[test]
    fn every_key_is_set_from_text() {
        for key in LogConfig::KEYS {
            let mut builder = LogConfig::builder();
            let text = match *key {
                "cleanup.policy" => "compact, delete",
                "compression.type" => "zstd",
                "preallocate" => "TRUE",
                "message.timestamp.type" => "LogAppendTime",
                "min.cleanable.dirty.ratio" => "0.25",
                "compression.gzip.level" | "compression.lz4.level" => "4",
                _ => "2000000",
            };
            let set = if key.ends_with("zstd.level") { "-7" } else { text };
            assert!(builder.set(key, set).unwrap(), "{key}");
            assert_ne!(builder.build().unwrap(), LogConfig::default(), "{key}");
        }
    }

    #[test]
    fn negative_retention_keeps_everything() {
        let keeps = |key, text| LogConfig::from_properties([(key, text)]);
        assert_eq!(keeps("retention.ms", "-1").unwrap().retention_ms(), None);
        assert_eq!(keeps("retention.bytes", "-5").unwrap().retention_bytes(), None);
        assert!(matches!(
            keeps("retention.ms", "-2"),
            Err(ConfigError::Value { key: "retention.ms", .. })
        ));
    }

    /// FR-051, second input.
    #[test]
    fn a_segment_time_of_zero_is_refused_with_its_key() {
        let refused = LogConfig::builder().segment_ms(0).build().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`segment.ms` is 0, expected a whole number from 1 to 9223372036854775807"
        );
        assert_eq!(LogConfig::default().roll_jitter_ms(u32::MAX), 0);
    }

    #[test]
    fn values_outside_their_bounds_name_the_key() {
        for (key, text) in [
            ("segment.bytes", "1048575"),
            ("segment.bytes", "2147483648"),
            ("segment.index.bytes", "3"),
            ("index.interval.bytes", "-1"),
            ("flush.messages", "0"),
            ("max.decompressed.message.bytes", "2147483640"),
            ("min.cleanable.dirty.ratio", "1.01"),
            ("min.cleanable.dirty.ratio", "NaN"),
            ("cleanup.policy", "compact,remove"),
            ("compression.type", "none"),
            ("compression.gzip.level", "0"),
            ("preallocate", "yes"),
            ("segment.ms", "1h"),
            ("message.timestamp.type", "createtime"),
        ] {
            let refused = LogConfig::from_properties([(key, text)]).unwrap_err();
            assert!(refused.to_string().starts_with(&format!("`{key}` is {text}")), "{refused}");
        }
    }

    #[test]
    fn crossing_compaction_lags_conflict() {
        let lags = LogConfig::builder().min_compaction_lag_ms(9).max_compaction_lag_ms(8);
        assert!(matches!(lags.build(), Err(ConfigError::Conflict { .. })));
    }

    #[test]
    fn jitter_is_below_its_bound() {
        let config = LogConfig::builder().segment_jitter_ms(10).build().unwrap();
        for random in [0, 1, 7, u32::MAX / 2, u32::MAX] {
            assert!(config.roll_jitter_ms(random) < 10);
        }
    }

    #[test]
    fn compacted_logs_roll_within_the_compaction_lag() {
        let lag = LogConfig::builder().max_compaction_lag_ms(5);
        assert_eq!(lag.clone().build().unwrap().roll_ms(), 7 * DAY_MS);
        let compacted = lag.cleanup_policy(CleanupPolicy::COMPACT).build().unwrap();
        assert_eq!(compacted.roll_ms(), 5);
    }
}
