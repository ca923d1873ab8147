//! The bytes that all entries begin with. Layout: `docs/format/record-batch.md#entries`.

use core::mem::{offset_of, size_of};

use zerocopy::big_endian::{I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{BatchHeader, CorruptKind, Corruption, Offset, Position};

/// The first 17 bytes of every entry, whatever its magic.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Prefix {
    offset: I64,       // 0: base offset (v2), offset of the last message (v0, v1)
    length: I32,       // 8: bytes after this field
    epoch_or_crc: U32, // 12: leader epoch (v2), CRC-32 (v0, v1)
    magic: i8,         // 16
}

const _: () = assert!(size_of::<Prefix>() == Prefix::LEN);

impl Prefix {
    /// Bytes of the prefix.
    pub const LEN: usize = 17;

    /// Bytes before those that the length field counts.
    pub const OVERHEAD: usize = 12;

    /// The smallest length field of any entry: a message of magic 0 without key and value.
    pub const MIN_LENGTH: i32 = 14;

    /// The smallest length field of a message of magic 1.
    pub const MIN_LENGTH_V1: i32 = 22;

    /// Reads the prefix and checks the length field and the magic byte (0, 1 or 2).
    ///
    /// # Errors
    ///
    /// `Truncated` below 17 bytes, `BatchLength`, `Magic`.
    pub fn parse(bytes: &[u8], at: Position) -> Result<&Self, Corruption> {
        let (prefix, _) = Self::ref_from_prefix(bytes).map_err(|_short| {
            CorruptKind::Truncated { need: Self::LEN, have: bytes.len() }.at(at)
        })?;
        let min = match prefix.magic {
            1 => Self::MIN_LENGTH_V1,
            2 => BatchHeader::MIN_BATCH_LENGTH,
            _ => Self::MIN_LENGTH,
        };
        let found = prefix.length.get();
        if found < min {
            let length_at = at.saturating_add_len(offset_of!(Self, length));
            return Err(CorruptKind::BatchLength { found, min }.at(length_at));
        }
        match prefix.magic {
            0..=2 => Ok(prefix),
            _ => Err(prefix.refused(at)),
        }
    }

    /// The error of an entry whose magic cannot be where it is.
    pub(super) fn refused(&self, at: Position) -> Corruption {
        let magic_at = at.saturating_add_len(offset_of!(Self, magic));
        CorruptKind::Magic { found: self.magic }.at(magic_at)
    }

    /// The first field: base offset of a batch, offset of the last message of an entry of
    /// magic 0 or 1.
    #[must_use]
    pub fn offset(&self) -> Offset {
        Offset::new(self.offset.get())
    }

    /// Bytes of the whole entry.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        u64::try_from(self.length.get()).unwrap_or(0).saturating_add(12)
    }

    /// 0, 1 or 2.
    #[must_use]
    pub const fn magic(&self) -> i8 {
        self.magic
    }

    /// The CRC-32 of an entry of magic 0 or 1, as stored.
    #[must_use]
    pub fn legacy_crc(&self) -> u32 {
        self.epoch_or_crc.get()
    }
}
