//! A range of a log file that is read by position, by many threads at once.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::{FileAction, FileError};

/// An open log file, or the part of one that is a segment of its own after a split.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: File,
    path: PathBuf,
    start: u32,
    len: u32,
}

impl LogFile {
    /// Opens `len` bytes from `start` on; positions count from there.
    pub(crate) fn open(path: &Path, start: u32, len: u32) -> Result<Self, FileError> {
        let file = File::open(path).map_err(|e| FileError::io(path, FileAction::Open, e))?;
        Ok(Self { file, path: path.to_path_buf(), start, len })
    }

    /// Bytes of the range.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fills the buffer from `position` on; fewer bytes only where the range or file ends.
    pub(crate) fn read_at(&self, buffer: &mut [u8], position: u32) -> Result<usize, FileError> {
        let left = usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let want = buffer.len().min(left);
        let buffer = buffer.get_mut(..want).unwrap_or_default();
        let at = u64::from(self.start).saturating_add(position.into());
        read_full(&self.file, buffer, at)
            .map_err(|e| FileError::io(&self.path, FileAction::Read, e))
    }
}

fn read_full(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<usize> {
    let mut done = 0_usize;
    while !buffer.is_empty() {
        match file.read_at(buffer, at) {
            Ok(0) => break,
            Ok(count) => {
                buffer = buffer.get_mut(count..).unwrap_or_default();
                at = at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
                done = done.saturating_add(count);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
