//! A whole batch, borrowed.

use core::mem::offset_of;

use super::BatchHeader;
use crate::{Codec, CorruptKind, Corruption, Position, Records, crc32c};

/// One whole v2 batch in a buffer, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    header: &'a BatchHeader,
    bytes: &'a [u8],
    position: Position,
}

impl<'a> Batch<'a> {
    /// Reads the batch at the start of `bytes`, which is byte `at` of its file; later bytes are
    /// left alone. Checks shape, not content.
    ///
    /// # Errors
    ///
    /// As [`BatchHeader::parse`], and `Truncated` when the batch is longer than `bytes`.
    pub fn parse(bytes: &'a [u8], at: Position) -> Result<Self, Corruption> {
        let header = BatchHeader::parse(bytes, at)?;
        let need = usize::try_from(header.size_bytes()).unwrap_or(usize::MAX);
        let have = bytes.len();
        let bytes = bytes.get(..need).ok_or(CorruptKind::Truncated { need, have }.at(at))?;
        Ok(Self { header, bytes, position: at })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &'a BatchHeader {
        self.header
    }

    /// The whole batch as stored.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The first byte of the batch in its file or buffer.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The bytes after the header: records, or one compressed stream of them.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(BatchHeader::LEN..).unwrap_or_default()
    }

    /// The first byte of the payload in its file or buffer.
    #[must_use]
    pub fn payload_position(&self) -> Position {
        self.position.saturating_add_len(BatchHeader::LEN)
    }

    /// The CRC-32C of the bytes as they are.
    #[must_use]
    pub fn compute_crc(&self) -> u32 {
        let covered = offset_of!(BatchHeader, attributes);
        crc32c(self.bytes.get(covered..).unwrap_or_default())
    }

    /// Compares the stored CRC with the bytes.
    ///
    /// # Errors
    ///
    /// `Crc` at the CRC field.
    pub fn verify_crc(&self) -> Result<(), Corruption> {
        let (stored, computed) = (self.header.crc(), self.compute_crc());
        if stored == computed {
            return Ok(());
        }
        let at = self.position.saturating_add_len(offset_of!(BatchHeader, crc));
        Err(CorruptKind::Crc { stored, computed }.at(at))
    }

    /// The records of an uncompressed batch, borrowed from the buffer. A batch that counts no
    /// record has none, whatever its codec.
    ///
    /// # Errors
    ///
    /// `UnknownCodec`, `RecordCount`, and `NotInflated` where the batch is compressed: inflate
    /// it first, then use [`Records::new`].
    pub fn records(&self) -> Result<Records<'a>, Corruption> {
        if self.header.is_empty() {
            return Records::new(self.header, &[], self.payload_position());
        }
        match self.codec()? {
            Codec::None => Records::new(self.header, self.payload(), self.payload_position()),
            codec => Err(CorruptKind::NotInflated { codec }.at(self.payload_position())),
        }
    }

    /// The codec, or `UnknownCodec` at the attributes.
    pub(crate) fn codec(&self) -> Result<Codec, Corruption> {
        let attributes = self.header.attributes();
        attributes.codec().ok_or_else(|| {
            let at = self.position.saturating_add_len(offset_of!(BatchHeader, attributes));
            CorruptKind::UnknownCodec { id: attributes.codec_id() }.at(at)
        })
    }
}
