//! A buffer that slides over a log file.

use alluvium_record_format::{crc32_append, crc32c, crc32c_append};

use super::LogFile;
use crate::FileError;

/// Bytes of one read: as large as it stays in the cache between read and checksum.
pub(super) const BLOCK_BYTES: usize = 256 << 10;

/// Gives out bytes of a log file by position. Cheap when positions rise.
#[derive(Debug)]
pub(super) struct Window<'f> {
    file: &'f LogFile,
    buffer: Vec<u8>,
    /// The file's byte at the start of the buffer.
    start: u32,
    filled: usize,
}

impl<'f> Window<'f> {
    pub(super) const fn new(file: &'f LogFile) -> Self {
        Self { file, buffer: Vec::new(), start: 0, filled: 0 }
    }

    pub(super) const fn file(&self) -> &'f LogFile {
        self.file
    }

    /// Bytes of memory that it holds.
    #[cfg(test)]
    pub(super) const fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// At least `need` bytes from `position` on, fewer only where the file ends. Reads `block`
    /// bytes, or more, where they are not in the buffer.
    pub(super) fn bytes(
        &mut self,
        position: u32,
        need: usize,
        block: usize,
    ) -> Result<&[u8], FileError> {
        let offset = position.checked_sub(self.start).map_or(usize::MAX, to_usize);
        let end = offset.saturating_add(need);
        if offset <= self.filled && end <= self.filled {
            return Ok(self.buffer.get(offset..self.filled).unwrap_or_default());
        }
        self.slide(position, offset, need.max(block))?;
        Ok(self.buffer.get(..self.filled).unwrap_or_default())
    }

    /// The CRC-32C of `len` bytes from `position` on, in blocks; `None` where the file ends first.
    pub(super) fn crc32c(&mut self, position: u32, len: usize) -> Result<Option<u32>, FileError> {
        if len <= BLOCK_BYTES {
            let bytes = self.bytes(position, len, BLOCK_BYTES)?;
            return Ok(bytes.get(..len).map(crc32c));
        }
        self.crc_in_blocks(position, len, crc32c_append)
    }

    /// The CRC-32 of `len` bytes from `position` on, in blocks; `None` where the file ends first.
    pub(super) fn crc32(&mut self, position: u32, len: usize) -> Result<Option<u32>, FileError> {
        self.crc_in_blocks(position, len, crc32_append)
    }

    fn crc_in_blocks(
        &mut self,
        position: u32,
        len: usize,
        append: fn(u32, &[u8]) -> u32,
    ) -> Result<Option<u32>, FileError> {
        let (mut crc, mut at, mut left) = (0, position, len);
        while left > 0 {
            let bytes = self.bytes(at, left.min(BLOCK_BYTES), BLOCK_BYTES)?;
            let part = bytes.get(..left.min(bytes.len())).unwrap_or_default();
            if part.is_empty() {
                return Ok(None);
            }
            crc = append(crc, part);
            left = left.saturating_sub(part.len());
            at = at.saturating_add(u32::try_from(part.len()).unwrap_or(u32::MAX));
        }
        Ok(Some(crc))
    }

    /// Moves the buffer to `position`, keeping what is read already, and fills it up to `want`.
    fn slide(&mut self, position: u32, offset: usize, want: usize) -> Result<(), FileError> {
        let kept = self.filled.saturating_sub(offset);
        if kept > 0 {
            self.buffer.copy_within(offset..self.filled, 0);
        }
        self.start = position;
        self.filled = kept;
        let left = to_usize(self.file.len().saturating_sub(position));
        // Whole blocks, however much was kept.
        let want = kept.saturating_add(want).min(left.max(kept));
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        let from = position.saturating_add(u32::try_from(kept).unwrap_or(u32::MAX));
        let target = self.buffer.get_mut(kept..want).unwrap_or_default();
        self.filled = kept.saturating_add(self.file.read_at(target, from)?);
        Ok(())
    }
}

pub(super) fn to_usize(bytes: u32) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
