//! Text files of Kafka: a version line, a count line, one entry a line.

use std::str::FromStr;

use alluvium_record_format::Position;

use crate::{Damage, DamageKind};

/// The largest text file that is read: 250,000 partitions of the longest topic name.
pub(crate) const MAX_TEXT_BYTES: u64 = 64 << 20;

/// One line without its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) text: &'a str,
    number: u32,
    position: Position,
}

impl<'a> Line<'a> {
    pub(crate) const fn damage(&self, kind: DamageKind) -> Damage {
        Damage::at_line(self.number, self.position, kind)
    }

    /// The line as `N` fields with whitespace between them.
    ///
    /// As in Kafka, whitespace before the first field is an empty field, so a fault; after the
    /// last it is nothing.
    pub(crate) fn fields<const N: usize>(&self) -> Result<[&'a str; N], Damage> {
        let fields: Vec<_> = self
            .text
            .trim_end_matches(is_space)
            .split(is_space)
            .enumerate()
            .filter_map(|(i, field)| (i == 0 || !field.is_empty()).then_some(field))
            .collect();
        let found = if self.text.starts_with(is_space) { 0 } else { fields.len() };
        match <[&str; N]>::try_from(fields) {
            Ok(fields) if found == N => Ok(fields),
            _ => Err(self.damage(DamageKind::FieldCount { found, need: N })),
        }
    }

    pub(crate) fn number<T: FromStr>(&self, text: &str, field: &'static str) -> Result<T, Damage> {
        text.parse().map_err(|_not_a_number| self.damage(DamageKind::Number { field }))
    }
}

/// Iterates over the text lines of a file.
#[derive(Clone, Debug)]
pub(crate) struct Lines<'a>(ByteLines<'a>);

impl<'a> Lines<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(ByteLines::new(bytes))
    }

    /// The next line, or a fault that names what should be there.
    pub(crate) fn expect(&mut self, field: &'static str) -> Result<Line<'a>, Damage> {
        let missing = DamageKind::Missing { field };
        let end = Position::saturating_from_len(self.0.position);
        let number = self.0.number.saturating_add(1);
        self.next().unwrap_or(Err(Damage::at_line(number, end, missing)))
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let ByteLine { bytes, number, position } = self.0.next()?;
        let damage = Damage::at_line(number, position, DamageKind::NotUtf8);
        Some(match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Line { text, number, position }),
            Err(_) => Err(damage),
        })
    }
}

/// One line of bytes without its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteLine<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) number: u32,
    pub(crate) position: Position,
}

/// Iterates over lines that end in `\n`, `\r\n` or `\r`; the last one needs no end.
#[derive(Clone, Debug)]
pub(crate) struct ByteLines<'a> {
    rest: &'a [u8],
    position: usize,
    number: u32,
}

impl<'a> ByteLines<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, position: 0, number: 0 }
    }
}

impl<'a> Iterator for ByteLines<'a> {
    type Item = ByteLine<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|&b| b == b'\n' || b == b'\r');
        let (bytes, after) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let rest = match after {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => after,
        };
        self.number = self.number.saturating_add(1);
        let position = Position::saturating_from_len(self.position);
        let used = self.rest.len().saturating_sub(rest.len());
        self.position = self.position.saturating_add(used);
        self.rest = rest;
        Some(ByteLine { bytes, number: self.number, position })
    }
}

/// Reads a file of a version line (0), a count line and entries.
///
/// An empty file and one of a version line alone have no entries: Kafka creates the first.
pub(crate) fn read_entries<'a, T>(
    bytes: &'a [u8],
    mut read: impl FnMut(&Line<'a>) -> Result<T, Damage>,
) -> Result<Vec<T>, Damage> {
    let mut lines = Lines::new(bytes);
    let Some(version) = lines.next().transpose()? else { return Ok(Vec::new()) };
    let found: i64 = version.number(version.text, "version")?;
    if found != 0 {
        return Err(version.damage(DamageKind::Version { found }));
    }
    let Some(count) = lines.next().transpose()? else { return Ok(Vec::new()) };
    let stated: i64 = count.number(count.text, "entry count")?;
    let entries = lines.map(|line| read(&line?)).collect::<Result<Vec<_>, _>>()?;
    if i64::try_from(entries.len()) != Ok(stated) {
        let found = entries.len();
        return Err(count.damage(DamageKind::EntryCount { stated, found }));
    }
    Ok(entries)
}

/// The text of such a file.
pub(crate) fn write_entries(lines: impl ExactSizeIterator<Item = String>) -> String {
    let mut text = format!("0\n{}\n", lines.len());
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Whitespace as in a regular expression of Java.
const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}
