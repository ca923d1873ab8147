//! One entry of magic 0 or 1: a message, or a wrapper with a compressed set of them.

use super::LegacyRecord;
use crate::{Codec, CorruptKind, Corruption, Offset, Position, Prefix, Timestamp, TimestampType};

/// A message of magic 0 or 1, perhaps a compressed wrapper of more.
///
/// Shape alone is checked: the entry is whole and has room for its fixed fields. The lengths of
/// key and value are looked at by [`record`](Self::record), the content by
/// [`verify_crc`](Self::verify_crc).
#[derive(Clone, Copy, Debug)]
pub struct LegacyEntry<'a> {
    prefix: &'a Prefix,
    bytes: &'a [u8],
    position: Position,
}

impl<'a> LegacyEntry<'a> {
    /// Reads the entry at the start of `bytes`, which is byte `at` of its file; later bytes are
    /// left alone.
    ///
    /// # Errors
    ///
    /// As [`Prefix::parse`], `Magic` for magic 2, and `Truncated` when the entry is longer than
    /// `bytes`.
    pub fn parse(bytes: &'a [u8], at: Position) -> Result<Self, Corruption> {
        let prefix = Prefix::parse(bytes, at)?;
        if prefix.magic() == 2 {
            let magic_at = at.saturating_add_len(MAGIC_AT);
            return Err(CorruptKind::Magic { found: prefix.magic() }.at(magic_at));
        }
        let need = usize::try_from(prefix.size_bytes()).unwrap_or(usize::MAX);
        let have = bytes.len();
        let bytes = bytes.get(..need).ok_or(CorruptKind::Truncated { need, have }.at(at))?;
        Ok(Self { prefix, bytes, position: at })
    }

    /// The 17 bytes at the start.
    #[must_use]
    pub const fn prefix(&self) -> &'a Prefix {
        self.prefix
    }

    /// The whole entry as stored.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The first byte of the entry in its file or buffer.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// 0 or 1.
    #[must_use]
    pub const fn magic(&self) -> i8 {
        self.prefix.magic()
    }

    /// The offset as stored: the message's own, or that of the last message in a wrapper.
    #[must_use]
    pub fn offset(&self) -> Offset {
        self.prefix.offset()
    }

    /// The codec of a wrapper, none for a plain message; `None` for ids 5 to 7.
    #[must_use]
    pub fn codec(&self) -> Option<Codec> {
        Codec::from_id(self.codec_id())
    }

    /// The codec bits, 0 to 7.
    pub(super) fn codec_id(&self) -> u8 {
        self.attributes() & CODEC_MASK
    }

    /// Where the timestamp comes from; `None` for magic 0, which has none.
    #[must_use]
    pub fn timestamp_type(&self) -> Option<TimestampType> {
        let append_time = self.attributes() & APPEND_TIME != 0;
        let kind =
            if append_time { TimestampType::LogAppendTime } else { TimestampType::CreateTime };
        (self.magic() == 1).then_some(kind)
    }

    /// The timestamp, of a wrapper the largest in it; `None` for -1 and for magic 0.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        Some(self.timestamp_raw()).filter(|raw| *raw != -1).map(Timestamp::new)
    }

    /// The timestamp as stored, -1 for magic 0.
    #[must_use]
    pub fn timestamp_raw(&self) -> i64 {
        let stored = self.bytes.get(TIMESTAMP_AT..).and_then(<[u8]>::first_chunk);
        stored.filter(|_| self.magic() == 1).map_or(-1, |bytes| i64::from_be_bytes(*bytes))
    }

    /// The stored CRC-32, over everything from the magic on.
    #[must_use]
    pub fn crc(&self) -> u32 {
        self.prefix.legacy_crc()
    }

    /// The CRC-32 of the bytes as they are.
    #[must_use]
    pub fn compute_crc(&self) -> u32 {
        crc32fast::hash(self.bytes.get(MAGIC_AT..).unwrap_or_default())
    }

    /// Compares the stored CRC with the bytes.
    ///
    /// # Errors
    ///
    /// `Crc` at the CRC field.
    pub fn verify_crc(&self) -> Result<(), Corruption> {
        let (stored, computed) = (self.crc(), self.compute_crc());
        if stored == computed {
            return Ok(());
        }
        let at = self.position.saturating_add_len(CRC_AT);
        Err(CorruptKind::Crc { stored, computed }.at(at))
    }

    /// The message itself, which of a wrapper is the compressed set. [`inflate`](Self::inflate)
    /// gives the messages.
    ///
    /// # Errors
    ///
    /// `RecordLength` or `RecordCut` where key or value do not fit.
    pub fn record(&self) -> Result<LegacyRecord<'a>, Corruption> {
        LegacyRecord::of(*self).map_err(|kind| kind.at(self.position))
    }

    /// Key and value.
    pub(super) fn fields(&self) -> Result<[Option<&'a [u8]>; 2], CorruptKind> {
        let at = if self.magic() == 0 { TIMESTAMP_AT } else { TIMESTAMP_AT + 8 };
        let (key, rest) = read_field(self.bytes.get(at..).unwrap_or_default())?;
        // Bytes after the value are left alone, as Kafka leaves them.
        let (value, _rest) = read_field(rest)?;
        Ok([key, value])
    }

    fn attributes(&self) -> u8 {
        self.bytes.get(ATTRIBUTES_AT).copied().unwrap_or(0)
    }
}

/// A length of 32 bits and so many bytes; any negative length is null.
fn read_field(bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8]), CorruptKind> {
    let (length, rest) = bytes.split_first_chunk().ok_or(CorruptKind::RecordCut)?;
    let length = i32::from_be_bytes(*length);
    let Ok(len) = usize::try_from(length) else { return Ok((None, rest)) };
    let bad = CorruptKind::RecordLength { found: i64::from(length), have: rest.len() };
    let (field, rest) = rest.split_at_checked(len).ok_or(bad)?;
    Ok((Some(field), rest))
}

/// Bytes of the fields in an entry.
const CRC_AT: usize = 12;
const MAGIC_AT: usize = 16;
const ATTRIBUTES_AT: usize = 17;
const TIMESTAMP_AT: usize = 18;

/// Bits of the attributes.
const CODEC_MASK: u8 = 0x07;
const APPEND_TIME: u8 = 0x08;
