//! Kinds of values, and how Kafka writes them.

use std::path::PathBuf;

use alluvium_record_format::{Codec, TimestampType};

use super::{ConfigError, Expected};

/// What happens to old records: `cleanup.policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CleanupPolicy {
    compacts: bool,
    deletes: bool,
}

impl CleanupPolicy {
    /// Old segments go by age and size.
    pub const DELETE: Self = Self { compacts: false, deletes: true };
    /// The last record of each key stays.
    pub const COMPACT: Self = Self { compacts: true, deletes: false };
    /// Both.
    pub const COMPACT_AND_DELETE: Self = Self { compacts: true, deletes: true };
    /// Neither: only deleting records by offset removes anything.
    pub const NONE: Self = Self { compacts: false, deletes: false };

    /// Whether the cleaner keeps the last record of each key alone.
    #[must_use]
    pub const fn compacts(self) -> bool {
        self.compacts
    }

    /// Whether segments go by age and size.
    #[must_use]
    pub const fn deletes(self) -> bool {
        self.deletes
    }
}

/// The codec that a leader stores: `compression.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompressionType {
    /// As the producer sent it.
    #[default]
    Producer,
    /// This codec, whatever the producer sent; [`Codec::None`] is Kafka's `uncompressed`.
    Codec(Codec),
}

/// The range of a setting.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bounds {
    Int(i64, i64),
    IntNotZero(i64, i64),
    /// Milliseconds from one run to the next; 0 is only one run, and so is any number below it.
    Period,
    Ratio,
    /// Above 0, or no limit at all.
    Rate,
    Any,
}

impl Bounds {
    fn expected(self) -> Expected {
        match self {
            Self::Int(min, max) => Expected::Integer { min, max },
            Self::IntNotZero(min, max) => Expected::NonZeroInteger { min, max },
            Self::Period => Expected::Integer { min: i64::MIN, max: i64::MAX },
            Self::Rate => Expected::Positive,
            Self::Ratio | Self::Any => Expected::Ratio,
        }
    }

    fn allow(self, raw: i64) -> bool {
        match self {
            Self::Int(min, max) => (min..=max).contains(&raw),
            Self::IntNotZero(min, max) => raw != 0 && (min..=max).contains(&raw),
            Self::Rate => raw > 0,
            Self::Period | Self::Ratio | Self::Any => true,
        }
    }
}

/// A kind of value.
pub(super) trait Setting: Sized {
    /// Reads Kafka's text.
    fn parse(key: &'static str, text: &str, bounds: &Bounds) -> Result<Self, ConfigError>;

    /// Checks a value that was set in code.
    fn check(&self, key: &'static str, bounds: &Bounds) -> Result<(), ConfigError>;
}

fn refuse(key: &'static str, value: &impl ToString, expected: Expected) -> ConfigError {
    ConfigError::Value { key, value: value.to_string(), expected }
}

/// Reads a whole number within bounds, -1 for a rate without limit.
fn integer(key: &'static str, text: &str, bounds: Bounds) -> Result<i64, ConfigError> {
    if let Bounds::Rate = bounds {
        let rate = double(text).filter(|rate| *rate > 0.0);
        return rate.map(whole).ok_or_else(|| refuse(key, &text, bounds.expected()));
    }
    match text.parse() {
        Ok(raw) if matches!(bounds, Bounds::Period) => Ok(0.max(raw)),
        Ok(raw) if bounds.allow(raw) => Ok(raw),
        _ => Err(refuse(key, &text, bounds.expected())),
    }
}

/// A decimal number as Java writes it: there may be the letter of its type behind, and what is no
/// number has one spelling. Hexadecimal ones are not read.
fn double(text: &str) -> Option<f64> {
    let digits = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    let is_decimal = digits.ends_with(|last: char| last.is_ascii_digit() || last == '.');
    let is_named = matches!(text.trim_start_matches(['+', '-']), "Infinity" | "NaN");
    if is_decimal { digits.parse().ok() } else { text.parse().ok().filter(|_| is_named) }
}

/// A rate as a whole number, at least 1; -1 for one that no disk comes to.
#[expect(clippy::cast_possible_truncation, reason = "above 0 and below 2^63 where it is cast")]
fn whole(rate: f64) -> i64 {
    if rate < NO_LIMIT { rate.ceil() as i64 } else { -1 }
}

macro_rules! integer_setting {
    ($type:ty) => {
        impl Setting for $type {
            fn parse(key: &'static str, text: &str, bounds: &Bounds) -> Result<Self, ConfigError> {
                let raw = integer(key, text, *bounds)?;
                Self::try_from(raw).map_err(|_range| refuse(key, &text, bounds.expected()))
            }

            fn check(&self, key: &'static str, bounds: &Bounds) -> Result<(), ConfigError> {
                match i64::try_from(*self) {
                    Ok(raw) if bounds.allow(raw) => Ok(()),
                    _ => Err(refuse(key, self, bounds.expected())),
                }
            }
        }

        impl Setting for Option<$type> {
            fn parse(key: &'static str, text: &str, bounds: &Bounds) -> Result<Self, ConfigError> {
                let raw = integer(key, text, *bounds)?;
                Ok(<$type>::try_from(raw).ok())
            }

            fn check(&self, key: &'static str, bounds: &Bounds) -> Result<(), ConfigError> {
                self.map_or(Ok(()), |value| value.check(key, bounds))
            }
        }
    };
}

integer_setting!(u32);
integer_setting!(i64);
integer_setting!(u64);
integer_setting!(i32);

impl Setting for f64 {
    fn parse(key: &'static str, text: &str, _bounds: &Bounds) -> Result<Self, ConfigError> {
        match double(text) {
            Some(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
            _ => Err(refuse(key, &text, Expected::Ratio)),
        }
    }

    fn check(&self, key: &'static str, _bounds: &Bounds) -> Result<(), ConfigError> {
        if (0.0..=1.0).contains(self) {
            return Ok(());
        }
        Err(refuse(key, self, Expected::Ratio))
    }
}

impl Setting for bool {
    fn parse(key: &'static str, text: &str, _bounds: &Bounds) -> Result<Self, ConfigError> {
        match text.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(refuse(key, &text, Expected::Boolean)),
        }
    }

    fn check(&self, _key: &'static str, _bounds: &Bounds) -> Result<(), ConfigError> {
        Ok(())
    }
}

impl Setting for CleanupPolicy {
    fn parse(key: &'static str, text: &str, _bounds: &Bounds) -> Result<Self, ConfigError> {
        let mut policy = Self::NONE;
        if text.is_empty() {
            return Ok(policy);
        }
        for word in text.split(',') {
            match word.trim() {
                "compact" => policy.compacts = true,
                "delete" => policy.deletes = true,
                _ => return Err(refuse(key, &text, Expected::ListOf(&["compact", "delete"]))),
            }
        }
        Ok(policy)
    }

    fn check(&self, _key: &'static str, _bounds: &Bounds) -> Result<(), ConfigError> {
        Ok(())
    }
}

impl Setting for CompressionType {
    fn parse(key: &'static str, text: &str, _bounds: &Bounds) -> Result<Self, ConfigError> {
        match text {
            "producer" => Ok(Self::Producer),
            "uncompressed" => Ok(Self::Codec(Codec::None)),
            "gzip" => Ok(Self::Codec(Codec::Gzip)),
            "snappy" => Ok(Self::Codec(Codec::Snappy)),
            "lz4" => Ok(Self::Codec(Codec::Lz4)),
            "zstd" => Ok(Self::Codec(Codec::Zstd)),
            _ => Err(refuse(key, &text, Expected::OneOf(COMPRESSION_TYPES))),
        }
    }

    fn check(&self, _key: &'static str, _bounds: &Bounds) -> Result<(), ConfigError> {
        Ok(())
    }
}

impl Setting for TimestampType {
    fn parse(key: &'static str, text: &str, _bounds: &Bounds) -> Result<Self, ConfigError> {
        match text {
            "CreateTime" => Ok(Self::CreateTime),
            "LogAppendTime" => Ok(Self::LogAppendTime),
            _ => Err(refuse(key, &text, Expected::OneOf(&["CreateTime", "LogAppendTime"]))),
        }
    }

    fn check(&self, _key: &'static str, _bounds: &Bounds) -> Result<(), ConfigError> {
        Ok(())
    }
}

impl Setting for Vec<PathBuf> {
    /// Of a path that is there twice the first counts.
    fn parse(key: &'static str, text: &str, _bounds: &Bounds) -> Result<Self, ConfigError> {
        let mut paths = Self::new();
        for path in text.split(',').map(str::trim).map(PathBuf::from) {
            if path.as_os_str().is_empty() {
                return Err(refuse(key, &text, Expected::Paths));
            }
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    fn check(&self, key: &'static str, _bounds: &Bounds) -> Result<(), ConfigError> {
        if self.is_empty() {
            return Err(refuse(key, &"", Expected::Paths));
        }
        Ok(())
    }
}

/// 2^62 bytes a second.
const NO_LIMIT: f64 = 4_611_686_018_427_387_904.0;
const COMPRESSION_TYPES: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
