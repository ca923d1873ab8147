//! Java's properties format: `meta.properties`, `server.properties`.

use std::fmt::Write;

use crate::text::{ByteLine, ByteLines};
use crate::{Damage, DamageKind};

/// Keys and values in the order of their file.
///
/// Reads all that `java.util.Properties` reads: comments, continued lines, escapes, Latin-1.
///
/// # Examples
///
/// ```
/// # use alluvium_recovery::Properties;
/// let properties = Properties::parse(b"# broker\nlog.dirs = /a,\\\n  /b\n")?;
/// assert_eq!(properties.value("log.dirs"), Some("/a,/b"));
/// # Ok::<(), alluvium_recovery::Damage>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    entries: Vec<(String, String)>,
}

impl Properties {
    /// No keys.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Reads a properties file.
    ///
    /// # Errors
    ///
    /// [`DamageKind::Escape`] alone: any other text is some key with some value.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let mut entries = Vec::new();
        let mut lines = ByteLines::new(bytes);
        while let Some(line) = lines.next() {
            let text = trim_start(line.bytes);
            if matches!(text.first(), None | Some(b'#' | b'!')) {
                continue;
            }
            let text = join_continued(text, &mut lines);
            let (key, value) = split_key(&text);
            entries.push((unescape(key, &line)?, unescape(value, &line)?));
        }
        Ok(Self { entries })
    }

    /// The content of a file of these keys, escaped so that any reader agrees: ASCII alone.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.entries {
            escape(key, true, &mut text);
            text.push('=');
            escape(value, false, &mut text);
            text.push('\n');
        }
        text
    }

    /// Sets a key: in its place where it is there, else at the end.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        match self.entries.iter_mut().rfind(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.entries.push((key.to_owned(), value)),
        }
    }

    /// The value of a key; of several, the last.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.iter().rfind(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// All keys and values in file order; a key may stand more than once.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// The line with those that it is continued on: each but the last ends in an odd number of
/// backslashes.
fn join_continued(first: &[u8], lines: &mut ByteLines<'_>) -> Vec<u8> {
    let mut text = first.to_vec();
    while text.iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1 {
        text.pop();
        let Some(next) = lines.next() else { break };
        text.extend_from_slice(trim_start(next.bytes));
    }
    text
}

/// Splits at the first `=`, `:` or whitespace that is not escaped.
fn split_key(text: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let end = text.iter().position(|&b| {
        let ends = !escaped && (is_space(b) || matches!(b, b'=' | b':'));
        escaped = b == b'\\' && !escaped;
        ends
    });
    let (key, rest) = text.split_at(end.unwrap_or(text.len()));
    let rest = trim_start(rest);
    (key, trim_start(rest.strip_prefix(b"=").or(rest.strip_prefix(b":")).unwrap_or(rest)))
}

/// Latin-1 with escapes to text; the escapes are UTF-16 units.
fn unescape(bytes: &[u8], line: &ByteLine<'_>) -> Result<String, Damage> {
    let bad = || Damage::at_line(line.number, line.position, DamageKind::Escape);
    let mut units: Vec<u16> = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            units.push(byte.into());
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else { break };
        rest = after;
        units.push(match escape {
            b't' => b'\t'.into(),
            b'n' => b'\n'.into(),
            b'r' => b'\r'.into(),
            b'f' => 0x0c,
            b'u' => {
                let (digits, after) = rest.split_at_checked(4).ok_or_else(bad)?;
                rest = after;
                hexadecimal(digits).ok_or_else(bad)?
            }
            other => other.into(),
        });
    }
    Ok(String::from_utf16_lossy(&units))
}

fn hexadecimal(digits: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(digits).ok()?;
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}

fn escape(text: &str, is_key: bool, out: &mut String) {
    let mut leading = true;
    for c in text.chars() {
        match c {
            ' ' if is_key || leading => out.push_str("\\ "),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\x0c' => out.push_str("\\f"),
            '=' | ':' | '#' | '!' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04X}");
                }
            }
        }
        leading = false;
    }
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|&b| !is_space(b)).unwrap_or(bytes.len());
    bytes.get(start..).unwrap_or_default()
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}
