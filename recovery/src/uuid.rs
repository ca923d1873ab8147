//! The ids of topics and directories.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A 128-bit id, written as 22 characters of URL-safe base64.
///
/// Source: `Uuid` in Kafka.
///
/// # Examples
///
/// ```
/// # use alluvium_recovery::Uuid;
/// let id = Uuid::parse("SARZD8pLQCWFzC50IQEB4g").unwrap();
/// assert_eq!(id.to_string(), "SARZD8pLQCWFzC50IQEB4g");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// The id that stands for "none".
    pub const ZERO: Self = Self([0; 16]);

    /// Wraps the 16 bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    #[must_use]
    pub const fn bytes(&self) -> [u8; 16] {
        self.0
    }

    /// Reads the text form, with or without the padding that base64 allows.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_suffix("==").unwrap_or(text);
        let bytes = URL_SAFE_NO_PAD.decode(digits).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Whether Kafka keeps the id for its own use: the first hundred.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        u128::from_be_bytes(self.0) < 100
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}
