//! A range of a log file that is read by position, by many threads at once.

use std::fs::File;
use std::path::{Path, PathBuf};

use alluvium_segment::Io;

use crate::{FileAction, FileError};

/// An open log file, or the part of one that is a segment of its own after a split.
#[derive(Debug)]
pub(crate) struct LogFile {
    io: Io,
    file: File,
    path: PathBuf,
    start: u32,
    len: u32,
}

impl LogFile {
    /// Opens `len` bytes from `start` on; positions count from there.
    pub(crate) fn open(io: &Io, path: &Path, start: u32, len: u32) -> Result<Self, FileError> {
        let file = io.open(path, false).map_err(|e| FileError::io(path, FileAction::Open, e))?;
        Ok(Self { io: io.clone(), file, path: path.to_path_buf(), start, len })
    }

    /// Bytes of the range.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Fills the buffer from `position` on; fewer bytes only where the range or file ends.
    pub(crate) fn read_at(&self, buffer: &mut [u8], position: u32) -> Result<usize, FileError> {
        let left = usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let want = buffer.len().min(left);
        let buffer = buffer.get_mut(..want).unwrap_or_default();
        let at = u64::from(self.start).saturating_add(position.into());
        self.io
            .read_full(&self.file, &|| self.path.clone(), buffer, at)
            .map_err(|e| FileError::io(&self.path, FileAction::Read, e))
    }
}
