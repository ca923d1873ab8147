//! Keys and values, short enough for a line.

use std::fmt::{self, Write};

/// The first characters of a key or value: as text where it is text, else in hexadecimal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preview<'a> {
    bytes: Option<&'a [u8]>,
    width: usize,
}

impl<'a> Preview<'a> {
    /// The first `width` characters of `bytes`, `None` for null.
    pub(crate) const fn new(bytes: Option<&'a [u8]>, width: usize) -> Self {
        Self { bytes, width }
    }
}

impl fmt::Display for Preview<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bytes) = self.bytes else { return f.write_str("null") };
        let is_cut = match str::from_utf8(bytes) {
            Ok(text) => {
                f.write_char('"')?;
                for character in text.chars().take(self.width) {
                    write!(f, "{}", character.escape_debug())?;
                }
                f.write_char('"')?;
                text.chars().nth(self.width).is_some()
            }
            Err(_not_text) => {
                f.write_str("0x")?;
                for byte in bytes.iter().take(self.width / 2) {
                    write!(f, "{byte:02x}")?;
                }
                bytes.len() > self.width / 2
            }
        };
        if is_cut {
            write!(f, "... ({} bytes)", bytes.len())?;
        }
        Ok(())
    }
}
