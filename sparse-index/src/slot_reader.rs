//! Reads single entries of an index file that is not open.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::IndexError;
use crate::index_file::{checked_len, open_to_read, u64_of, usize_of};

/// Reads single slots of an index file that is not open.
pub(crate) struct SlotReader<'a> {
    path: &'a Path,
    file: File,
    slots: usize,
}

impl<'a> SlotReader<'a> {
    pub(crate) fn open(path: &'a Path, entry_len: usize) -> Result<Self, IndexError> {
        let file = open_to_read(path).map_err(|source| IndexError::io("open", path, 0, source))?;
        let len = usize_of(checked_len(path, &file, entry_len)?);
        Ok(Self { path, file, slots: len.checked_div(entry_len).unwrap_or(0) })
    }

    /// Whole slots of the file.
    pub(crate) const fn slots(&self) -> usize {
        self.slots
    }

    /// The bytes of slot `slot`.
    pub(crate) fn read<const N: usize>(&self, slot: usize) -> Result<[u8; N], IndexError> {
        let mut bytes = [0; N];
        let at = u64_of(slot.saturating_mul(N));
        let result = self.file.read_exact_at(&mut bytes, at);
        result.map_err(|source| IndexError::io("read", self.path, at, source))?;
        Ok(bytes)
    }
}
