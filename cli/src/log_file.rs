//! Reads files in order through one buffer, with `pread` alone: no map, no write, no lock.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use alluvium_record_format::Offset;

use crate::error::CliError;

/// Bytes of one read. Larger ones are no faster from the page cache.
const CHUNK_BYTES: usize = 256 * 1024;

/// The largest log file that Kafka opens: nothing behind it is looked at.
pub(crate) const MAX_LOG_BYTES: u64 = 0x7fff_ffff;

/// The smallest batch takes 61 bytes of at most 2 GiB, and its index entry 8.
const MAX_INDEX_BYTES: u64 = 256 * 1024 * 1024;

/// A file opened for reading, with the name that the caller gave it.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl LogFile {
    /// Opens `path` for reading. Only regular files: a pipe would keep us waiting, a device never
    /// ends.
    pub(crate) fn open(path: &Path) -> Result<Self, CliError> {
        let metadata = fs::metadata(path).map_err(CliError::io("open", path))?;
        if metadata.is_dir() {
            return Err(CliError::io("read", path)(io::ErrorKind::IsADirectory.into()));
        }
        if !metadata.is_file() {
            let kind = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return Err(CliError::io("read", path)(kind));
        }
        let file = File::open(path).map_err(CliError::io("open", path))?;
        let metadata = file.metadata().map_err(CliError::io("open", path))?;
        Ok(Self { path: path.to_path_buf(), file, len: metadata.len() })
    }

    /// The name as the caller gave it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The base offset that the name begins with.
    pub(crate) fn base_offset(&self) -> Option<Offset> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        name.split('.').next()?.parse().ok().map(Offset::new)
    }

    /// Bytes of the file when it was opened.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// When the file was last changed, in milliseconds since the epoch.
    pub(crate) fn modified_ms(&self) -> Result<i64, CliError> {
        let metadata = self.file.metadata().map_err(CliError::io("look at", &self.path))?;
        let (seconds, nanos) = (metadata.mtime(), metadata.mtime_nsec());
        Ok(seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000))
    }

    /// The bytes of an index file, or its first 256 MiB: more than the entries of any log take,
    /// so that the rest could only be padding or damage.
    pub(crate) fn read_index(&self) -> Result<Vec<u8>, CliError> {
        let len = self.len.min(MAX_INDEX_BYTES);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let count = self.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Reads from byte `at` until `buffer` is full or the file ends; says how much it got.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, CliError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CliError::io("read", &self.path)(error)),
            }
        }
        Ok(filled)
    }
}

/// A window that moves over a file from a first byte to an end.
///
/// Holds one chunk, or one entry where that is larger: never more than the bytes that are there.
#[derive(Debug)]
pub(crate) struct Window<'f> {
    file: &'f LogFile,
    buffer: Vec<u8>,
    /// Bytes of the buffer that come from the file.
    filled: usize,
    /// The byte of the buffer at which the window stands.
    start: usize,
    /// The byte of the file at which the window stands.
    position: u64,
    end: u64,
}

impl<'f> Window<'f> {
    /// A window at byte `start` that sees nothing from byte `end` on.
    pub(crate) fn new(file: &'f LogFile, start: u64, end: u64) -> Self {
        let end = end.min(file.len());
        Self { file, buffer: Vec::new(), filled: 0, start: 0, position: start, end }
    }

    /// The file under the window.
    pub(crate) fn file(&self) -> &'f LogFile {
        self.file
    }

    /// The byte of the file at which the window stands.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The byte behind the last one that the window may see.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes from the window to the end.
    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.position)
    }

    /// The next `len` bytes, or fewer where the end comes first.
    pub(crate) fn peek(&mut self, len: usize) -> Result<&[u8], CliError> {
        let want = usize::try_from(self.left()).unwrap_or(usize::MAX).min(len);
        if self.filled - self.start < want {
            self.fill(want)?;
        }
        let have = (self.filled - self.start).min(want);
        Ok(&self.buffer[self.start..self.start + have])
    }

    /// Moves on by `len` bytes, without reading them where they are not in the buffer yet.
    pub(crate) fn advance(&mut self, len: u64) {
        self.position = self.position.saturating_add(len);
        let buffered = (self.filled - self.start) as u64;
        if len < buffered {
            self.start += usize::try_from(len).unwrap_or(0);
        } else {
            (self.start, self.filled) = (0, 0);
        }
    }

    fn fill(&mut self, want: usize) -> Result<(), CliError> {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        let size = want.max(CHUNK_BYTES).min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        let at = self.position + self.filled as u64;
        self.filled += self.file.read_at(&mut self.buffer[self.filled..size], at)?;
        Ok(())
    }
}
