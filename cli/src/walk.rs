//! The entries of a log by their heads.

use alluvium_record_format::{BatchHeader, Corruption, Entry, Offset, Position, Prefix};

use crate::error::CliError;
use crate::log_file::Window;

/// What the head of an entry says, whatever its magic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// First byte of the entry in its file.
    pub(crate) position: u64,
    /// Bytes of the entry.
    pub(crate) size: u64,
    /// Offset of the last record.
    pub(crate) last_offset: Offset,
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
    let mut head = Head { position, size, last_offset: offset };
    if prefix.magic() == 2 {
        match BatchHeader::parse(bytes, at) {
            Ok(header) => head.last_offset = header.last_offset(),
            Err(corruption) => return Ok(Some(Err(corruption))),
        }
    }
    Ok(Some(Ok(head)))
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
