//! Walks the entries of a log, and goes on behind damage.

use std::path::Path;

use alluvium_record_format::{
    BatchHeader, CorruptKind, Corruption, Entry, Offset, Position, Prefix, Timestamp,
};

use crate::console::Console;
use crate::error::CliError;
use crate::log_file::{LogFile, MAX_LOG_BYTES, Window};
use crate::resync::{self, Rest};

/// What the head of an entry says, whatever its magic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// First byte of the entry in its file.
    pub(crate) position: u64,
    /// Bytes of the entry.
    pub(crate) size: u64,
    /// Offset of the first record, or of the last one for magic 0 and 1, which do not say.
    pub(crate) base_offset: Offset,
    /// Offset of the last record.
    pub(crate) last_offset: Offset,
    /// The largest timestamp that the entry states.
    pub(crate) max_timestamp: Option<Timestamp>,
    /// The header, for magic 2.
    pub(crate) header: Option<BatchHeader>,
}

/// Messages of magic 0 and 1 were never larger; a length that says so takes no memory.
const MAX_LEGACY_BYTES: u64 = 64 * 1024 * 1024;

/// A step of the walk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A whole entry, by its length field.
    Entry(Head),
    /// Bytes that are no entry; the walk goes on at the next sound batch, if there is one.
    Damage {
        /// First byte of the damage.
        at: u64,
        /// What is wrong there.
        corruption: Corruption,
        /// Where the walk goes on.
        rest: Rest,
    },
    /// The file ends inside an entry.
    Tail {
        /// First byte of the tail.
        at: u64,
        /// Bytes of the tail, up to the end.
        left: u64,
        /// Whether all of them are zero.
        is_zero: bool,
    },
    /// The end.
    End,
}

impl Step {
    /// Names damage on standard error. Says whether the walk goes on.
    pub(crate) fn name(self, path: &Path, console: &mut Console) -> Result<bool, CliError> {
        match self {
            Self::Entry(_) => {}
            Self::Damage { at, corruption, rest } => {
                let kind = corruption.kind();
                let goes_on = match rest {
                    Rest::Batch(next) => format!("{} bytes are skipped", next - at),
                    Rest::Zeros => "only zeros follow".to_owned(),
                    Rest::Noise => "no batch follows".to_owned(),
                };
                let byte = u64::from(corruption.position().get());
                console.damage(path, byte, format_args!("{kind}; {goes_on}"))?;
            }
            Self::Tail { at, left, .. } => {
                console.damage(
                    path,
                    at,
                    format_args!("the last {left} bytes are no whole batch"),
                )?;
            }
            Self::End => return Ok(false),
        }
        Ok(true)
    }
}

/// A walk over the entries of a log, in order.
#[derive(Debug)]
pub(crate) struct Walk<'f> {
    window: Window<'f>,
    /// Bytes of the entry that was given out last.
    given: u64,
    after_v2: bool,
}

impl<'f> Walk<'f> {
    /// Walks from byte `start`, where an entry must begin, to the end of the file, or to where
    /// the largest log ends.
    pub(crate) fn new(file: &'f LogFile, start: u64) -> Self {
        let end = file.len().min(MAX_LOG_BYTES);
        Self { window: Window::new(file, start, end), given: 0, after_v2: false }
    }

    /// The byte behind the entry that was given out last.
    pub(crate) fn position(&self) -> u64 {
        self.window.position() + self.given
    }

    /// Has the next step go on at a byte inside the entry that was given out last, or at its end.
    pub(crate) fn go_on_at(&mut self, byte: u64) {
        self.given = byte.saturating_sub(self.window.position()).min(self.given);
    }

    /// Moves on to the next entry.
    pub(crate) fn step(&mut self) -> Result<Step, CliError> {
        self.window.advance(std::mem::take(&mut self.given));
        let (at, left) = (self.window.position(), self.window.left());
        if left == 0 {
            return Ok(Step::End);
        }
        match peek_head(&mut self.window)? {
            None => self.tail(at, left),
            Some(Err(corruption)) => self.damage(at, corruption),
            Some(Ok(head)) if head.header.is_none() && self.after_v2 => {
                let magic = self.window.peek(Prefix::LEN)?.get(16).copied().unwrap_or_default();
                let kind = CorruptKind::magic(magic.cast_signed());
                self.damage(at, kind.at(position_of(at + 16)))
            }
            Some(Ok(head)) => {
                self.after_v2 |= head.header.is_some();
                self.given = head.size;
                Ok(Step::Entry(head))
            }
        }
    }

    /// The entry that was given out last.
    pub(crate) fn entry(&mut self, head: &Head) -> Result<Result<Entry<'_>, Corruption>, CliError> {
        peek_entry(&mut self.window, head)
    }

    fn damage(&mut self, at: u64, corruption: Corruption) -> Result<Step, CliError> {
        let rest = resync::next_batch(self.window.file(), at, self.window.end())?;
        let next = match rest {
            Rest::Batch(next) => next,
            Rest::Zeros | Rest::Noise => self.window.end(),
        };
        self.window.advance(next - at);
        Ok(Step::Damage { at, corruption, rest })
    }

    /// The bytes up to the end are no whole entry, but a wrong length may hide sound ones.
    fn tail(&mut self, at: u64, left: u64) -> Result<Step, CliError> {
        let rest = resync::next_batch(self.window.file(), at, at + left)?;
        if let Rest::Batch(next) = rest {
            let bytes = self.window.peek(BatchHeader::LEN)?;
            let need = Prefix::parse(bytes, position_of(at)).map_or(0, Prefix::size_bytes);
            let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
            let corruption = CorruptKind::truncated(size(need), size(left)).at(position_of(at));
            self.window.advance(next - at);
            return Ok(Step::Damage { at, corruption, rest });
        }
        self.window.advance(left);
        Ok(Step::Tail { at, left, is_zero: rest == Rest::Zeros })
    }
}

/// The head of the entry at the window, by the rules of Kafka's file reader; the window stays.
///
/// `None` at the end: no whole entry is left. The inner error is damage at the window.
///
/// Source: `FileLogInputStream.nextBatch` in Kafka.
pub(crate) fn peek_head(
    window: &mut Window<'_>,
) -> Result<Option<Result<Head, Corruption>>, CliError> {
    let (position, left) = (window.position(), window.left());
    if left <= Prefix::LEN as u64 {
        return Ok(None);
    }
    let at = position_of(position);
    let bytes = window.peek(BatchHeader::LEN)?;
    let prefix = match Prefix::parse(bytes, at) {
        Ok(prefix) => prefix,
        Err(corruption) => return Ok(Some(Err(corruption))),
    };
    let (size, offset) = (prefix.size_bytes(), prefix.offset());
    if size > left {
        return Ok(None);
    }
    let mut head = Head {
        position,
        size,
        base_offset: offset,
        last_offset: offset,
        max_timestamp: None,
        header: None,
    };
    if prefix.magic() == 2 {
        match BatchHeader::parse(bytes, at) {
            Ok(header) => {
                head.last_offset = header.last_offset();
                head.max_timestamp = header.max_timestamp();
                head.header = Some(*header);
            }
            Err(corruption) => return Ok(Some(Err(corruption))),
        }
    } else if size <= MAX_LEGACY_BYTES
        && let Ok(Entry::Legacy(entry)) = peek_legacy(window, size, at)?
    {
        head.max_timestamp = entry.timestamp();
    }
    Ok(Some(Ok(head)))
}

/// A message of magic 0 or 1 states its time behind the prefix.
fn peek_legacy<'w>(
    window: &'w mut Window<'_>,
    size: u64,
    at: Position,
) -> Result<Result<Entry<'w>, Corruption>, CliError> {
    Ok(Entry::parse(window.peek(usize::try_from(size).unwrap_or(usize::MAX))?, at))
}

/// The whole entry at the window, of which `head` is the head.
pub(crate) fn peek_entry<'w>(
    window: &'w mut Window<'_>,
    head: &Head,
) -> Result<Result<Entry<'w>, Corruption>, CliError> {
    let size = usize::try_from(head.size).unwrap_or(usize::MAX);
    Ok(Entry::parse(window.peek(size)?, position_of(head.position)))
}

/// A byte of a file as the formats count it. Behind 4 GiB, where no log reaches, the last one.
pub(crate) fn position_of(byte: u64) -> Position {
    Position::new(u32::try_from(byte).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_ends_where_the_largest_log_does() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        let log = LogFile::open(file.path()).unwrap();
        let mut walk = Walk::new(&log, MAX_LOG_BYTES - 100);
        let zeros = walk.step().unwrap();
        assert!(matches!(zeros, Step::Damage { rest: Rest::Zeros, .. }), "{zeros:?}");
        assert!(matches!(walk.step().unwrap(), Step::End));
        assert_eq!(walk.position(), MAX_LOG_BYTES);
    }

    #[test]
    fn a_walk_ends_where_the_file_was_cut_meanwhile() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let log = LogFile::open(file.path()).unwrap();
        let mut walk = Walk::new(&log, 0);
        file.as_file().set_len(0).unwrap();
        let gone = walk.step().unwrap();
        assert!(matches!(gone, Step::Damage { at: 0, rest: Rest::Zeros, .. }), "{gone:?}");
        assert!(matches!(walk.step().unwrap(), Step::End));
    }
}
