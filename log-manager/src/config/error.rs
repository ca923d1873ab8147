//! Why settings were refused.

use std::fmt;

/// Why a setting was refused; names Kafka's key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No setting has this key.
    #[error("`{key}` is no setting of a log{}", hint(*nearest))]
    #[non_exhaustive]
    Unknown {
        /// The key as given.
        key: String,
        /// The known key that is spelled most like it, if one is near.
        nearest: Option<&'static str>,
    },
    /// The value is not of its kind, or outside its bounds.
    #[error("`{key}` is {}, expected {expected}", shown(value))]
    #[non_exhaustive]
    Value {
        /// Kafka's key.
        key: &'static str,
        /// The value as given.
        value: String,
        /// What is accepted.
        expected: Expected,
    },
    /// Two settings contradict each other.
    #[error("`{key}` is above `{other}`")]
    #[non_exhaustive]
    Conflict {
        /// The key whose value is too large.
        key: &'static str,
        /// The key whose value is too small.
        other: &'static str,
    },
}

/// What a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// A whole number within bounds, both included.
    #[non_exhaustive]
    Integer {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
    /// As `Integer`, but not zero.
    #[non_exhaustive]
    NonZeroInteger {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
    /// A number from 0 to 1.
    Ratio,
    /// A number above 0.
    Positive,
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Paths of directories, with commas between.
    Paths,
    /// Any of these words, with commas between.
    ListOf(&'static [&'static str]),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::NonZeroInteger { min, max } => {
                write!(f, "a whole number from {min} to {max} that is not 0")
            }
            Self::Ratio => f.write_str("a number from 0 to 1"),
            Self::Positive => f.write_str("a number above 0"),
            Self::Boolean => f.write_str("true or false"),
            Self::Paths => f.write_str("paths of directories, with commas between"),
            Self::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Self::ListOf(words) => write!(f, "a list of {}", words.join(", ")),
        }
    }
}

fn shown(value: &str) -> &str {
    if value.is_empty() { "empty" } else { value }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|key| format!(", did you mean `{key}`?")).unwrap_or_default()
}
