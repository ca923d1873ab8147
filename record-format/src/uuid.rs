//! Identifiers of 128 bits.

use core::fmt;

/// An identifier of 128 bits, of a topic or a directory. Shown as Kafka shows it: 22 characters
/// of URL-safe base64.
///
/// # Examples
///
/// ```
/// # use alluvium_record_format::Uuid;
/// let id = Uuid::from_bytes([0x4c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff]);
/// assert_eq!(id.to_string(), "TAAAAAAAAAAAAAAAAAAA_w");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// The identifier with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Reads the text form, with or without the two `=` of padding that base64 allows.
    ///
    /// # Examples
    ///
    /// ```
    /// # use alluvium_record_format::Uuid;
    /// let id = Uuid::parse("SARZD8pLQCWFzC50IQEB4g").unwrap();
    /// assert_eq!(id.to_string(), "SARZD8pLQCWFzC50IQEB4g");
    /// assert_eq!(Uuid::parse("SARZD8pLQCWFzC50IQEB"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_suffix("==").unwrap_or(text);
        if digits.len() != TEXT_LEN {
            return None;
        }
        // 22 digits hold 132 bits: the last four of them are padding.
        let mut value = 0_u128;
        for (index, character) in digits.bytes().enumerate() {
            let digit = u128::from(digit(character)?);
            let is_last = index == TEXT_LEN.saturating_sub(1);
            value = if is_last { value << 2 | digit >> 4 } else { value << 6 | digit };
        }
        Some(Self(value.to_be_bytes()))
    }

    /// The bytes as stored.
    #[must_use]
    pub const fn into_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.chunks(3) {
            let [a, b, c] = [0, 1, 2].map(|at| chunk.get(at).copied().unwrap_or(0));
            let digits = [a >> 2, (a << 4 | b >> 4) & 63, (b << 2 | c >> 6) & 63, c & 63];
            for digit in digits.into_iter().take(chunk.len().saturating_add(1)) {
                write!(f, "{}", character(digit))?;
            }
        }
        Ok(())
    }
}

/// Characters of the text form, without padding.
const TEXT_LEN: usize = 22;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The six bits of a character.
fn digit(character: u8) -> Option<u8> {
    let index = DIGITS.iter().position(|&known| known == character)?;
    u8::try_from(index).ok()
}

/// The character of six bits.
fn character(digit: u8) -> char {
    DIGITS.get(usize::from(digit)).copied().map_or('?', char::from)
}
