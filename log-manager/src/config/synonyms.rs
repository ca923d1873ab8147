//! Broker keys that set what a topic key or another broker key sets.

use super::value::{Bounds, Setting};
use super::{ConfigError, I32_MAX};

/// What a synonym sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// A topic key.
    Log(&'static str),
    /// A broker key.
    Broker(&'static str),
}

impl Target {
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Log(key) | Self::Broker(key) => key,
        }
    }
}

/// How a synonym's text becomes that of the setting.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    /// As it is.
    Same,
    /// As it is, and only a whole number where a finer synonym wins.
    Period,
    /// Whole hours, at least so many, as milliseconds.
    Hours(i64),
    /// How long records are kept, in units of so many milliseconds. Any negative number is for
    /// ever.
    Kept(i64),
}

impl Unit {
    /// The text of the setting. Kafka refuses to keep records for no time at all, unless a finer
    /// synonym `wins`.
    ///
    /// Source: `KafkaConfig.getLogRetentionTimeMillis` in Kafka.
    fn convert(self, key: &'static str, text: &str, wins: bool) -> Result<String, ConfigError> {
        let (bounds, factor) = match self {
            Self::Same => return Ok(text.to_owned()),
            Self::Period if wins => return Ok(text.to_owned()),
            Self::Period => (Bounds::Period, 1),
            Self::Hours(min) => (Bounds::Int(min, I32_MAX), 3_600_000),
            Self::Kept(factor) => {
                let (min, max) =
                    if factor == 1 { (i64::MIN, i64::MAX) } else { (!I32_MAX, I32_MAX) };
                (if wins { Bounds::IntNotZero(min, max) } else { Bounds::Int(min, max) }, factor)
            }
        };
        let count: i64 = Setting::parse(key, text, &bounds)?;
        Ok(if count < 0 { "-1".to_owned() } else { (count * factor).to_string() })
    }
}

/// A synonym: the row of [`SYNONYMS`] and the place in it, the finest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Synonym {
    pub(super) row: usize,
    pub(super) rank: usize,
}

impl Synonym {
    pub(super) fn of(key: &str) -> Option<Self> {
        SYNONYMS.iter().enumerate().find_map(|(row, (names, _))| {
            let rank = names.iter().position(|(name, _)| *name == key)?;
            Some(Self { row, rank })
        })
    }

    /// The key itself.
    pub(super) const fn key(self) -> &'static str {
        SYNONYMS[self.row].0[self.rank].0
    }

    /// Sets through `set` what this text says. An error names the synonym and its text.
    pub(super) fn apply(
        self,
        text: &str,
        wins: bool,
        set: impl FnOnce(Target, &str) -> Result<bool, ConfigError>,
    ) -> Result<(), ConfigError> {
        let (names, target) = &SYNONYMS[self.row];
        let (key, unit) = names[self.rank];
        let Err(refused) = set(*target, &unit.convert(key, text, wins)?) else { return Ok(()) };
        Err(match refused {
            ConfigError::Value { expected, .. } => {
                ConfigError::Value { key, value: text.to_owned(), expected }
            }
            other => other,
        })
    }
}

const fn same(name: &'static str) -> (&'static str, Unit) {
    (name, Unit::Same)
}

/// Broker keys in order of precedence, beside what they set.
pub(super) const SYNONYMS: &[(&[(&str, Unit)], Target)] = &[
    (&[same("log.dirs"), same("log.dir")], Target::Broker("log.dirs")),
    (&[same("log.segment.bytes")], Target::Log("segment.bytes")),
    (&[same("log.roll.ms"), ("log.roll.hours", Unit::Hours(1))], Target::Log("segment.ms")),
    (
        &[same("log.roll.jitter.ms"), ("log.roll.jitter.hours", Unit::Hours(0))],
        Target::Log("segment.jitter.ms"),
    ),
    (&[same("log.index.size.max.bytes")], Target::Log("segment.index.bytes")),
    (&[same("log.index.interval.bytes")], Target::Log("index.interval.bytes")),
    (&[same("log.flush.interval.messages")], Target::Log("flush.messages")),
    (
        &[same("log.flush.interval.ms"), ("log.flush.scheduler.interval.ms", Unit::Period)],
        Target::Log("flush.ms"),
    ),
    (&[same("log.retention.bytes")], Target::Log("retention.bytes")),
    (
        &[
            ("log.retention.ms", Unit::Kept(1)),
            ("log.retention.minutes", Unit::Kept(60_000)),
            ("log.retention.hours", Unit::Kept(3_600_000)),
        ],
        Target::Log("retention.ms"),
    ),
    (&[same("message.max.bytes")], Target::Log("max.message.bytes")),
    (&[same("max.decompressed.message.bytes")], Target::Log("max.decompressed.message.bytes")),
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
