//! Walks the entries of a log file through a buffer: every byte is read once.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_record_format::{
    BatchHeader, CorruptKind, Corruption, Entry, Position, Prefix, crc32c_append,
};

use crate::error::{IoOp, SegmentError};
use crate::io::Io;

/// Walks the entries of a range of a log file, in order, each one whole.
///
/// Reads blocks of 256 KiB with `pread`; a larger entry takes as much memory as it has bytes in
/// the file. The shape of every entry is judged by record-format, so a file and a buffer of the
/// same bytes get the same verdict. The content is not checked: see `Batch::verify_crc`.
///
/// Cost: one `pread` per 256 KiB, and a copy of the entry that crosses from one block to the
/// next. No allocation per entry.
///
/// Source: `FileLogInputStream` in Kafka, which lets an unknown magic pass.
#[derive(Debug)]
pub struct BatchWalker {
    io: Io,
    file: Arc<File>,
    path: PathBuf,
    buffer: Vec<u8>,
    /// The file's byte at the start of the buffer.
    buffer_at: u32,
    /// Bytes of the buffer that hold file content.
    filled: usize,
    /// The next entry, in the buffer.
    next: usize,
    end: u32,
    after_v2: bool,
    verify: bool,
    tail: Option<Corruption>,
    failed: bool,
}

impl BatchWalker {
    /// Walks all of a file, whatever its name.
    ///
    /// # Errors
    ///
    /// `Io` or `Gone` if it cannot be opened, `TooLarge` above 2 GiB.
    pub fn open(path: &Path) -> Result<Self, SegmentError> {
        let io = Io::new();
        let file = io.open(path, false).map_err(|e| SegmentError::file(IoOp::Open, path, e))?;
        let len = file.metadata().map_err(|e| SegmentError::file(IoOp::Stat, path, e))?.len();
        let end = file_size(path, len)?;
        Ok(Self::new(io, Arc::new(file), path.into(), (0, end)))
    }

    /// Walks the bytes `range` of a file. An entry must start at the first of them.
    pub(crate) fn new(io: Io, file: Arc<File>, path: PathBuf, range: (u32, u32)) -> Self {
        let (start, end) = range;
        Self {
            io,
            file,
            path,
            buffer: Vec::new(),
            buffer_at: start,
            filled: 0,
            next: 0,
            end,
            after_v2: false,
            verify: false,
            tail: None,
            failed: false,
        }
    }

    /// Checks the checksum of each batch of magic 2 too, before it is given out. A batch of more
    /// than 8 MiB is checked in pieces before it is held in memory as a whole, so a length field
    /// that lies costs no memory.
    #[must_use]
    pub fn verifying(self) -> Self {
        Self { verify: true, ..self }
    }

    /// The next entry, or `None` at the end of the range or where it ends inside an entry.
    ///
    /// # Errors
    ///
    /// `Corrupt` at bytes that are no entry: a bad length, an unknown magic, magic 0 or 1 after
    /// a batch of magic 2, or a bad checksum if these are checked. The walk ends there, with
    /// [`BatchWalker::position`] at the entry. `Io`, after which it may be called again.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, SegmentError> {
        let Some(len) = self.entry_len()? else { return Ok(None) };
        let at = self.position();
        let start = self.next;
        let verify = self.verify;
        let entry = Entry::parse(&self.buffer[start..start + len], at);
        let entry = entry.and_then(|entry| match &entry {
            Entry::Batch(batch) if verify => batch.verify_crc().map(|()| entry),
            _ => Ok(entry),
        });
        match entry {
            Ok(entry) => {
                self.next += len;
                Ok(Some(entry))
            }
            Err(corruption) => {
                self.failed = true;
                Err(SegmentError::corrupt(&*self.path, corruption))
            }
        }
    }

    /// The byte after the last entry that was given out.
    #[must_use]
    pub fn position(&self) -> Position {
        Position::new(self.buffer_at).saturating_add_len(self.next)
    }

    /// The end of the range.
    #[must_use]
    pub const fn end(&self) -> Position {
        Position::new(self.end)
    }

    /// Why the walk ended before the end of the range, if it ended inside an entry. An entry
    /// with 17 bytes or fewer left to it is never looked at.
    #[must_use]
    pub const fn tail(&self) -> Option<Corruption> {
        self.tail
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes sure that the next entry is in the buffer. `None` where there is no whole one.
    fn entry_len(&mut self) -> Result<Option<usize>, SegmentError> {
        if self.failed || self.tail.is_some() {
            return Ok(None);
        }
        let at = self.position();
        let left = to_usize(self.end.saturating_sub(at.get()));
        if left <= Prefix::LEN {
            return Ok(self.end_in_entry(at, Prefix::LEN + 1, left));
        }
        if !self.fill(Prefix::LEN)? {
            return Ok(self.end_in_entry(at, Prefix::LEN, self.filled - self.next));
        }
        let prefix = Prefix::parse(&self.buffer[self.next..self.filled], at);
        let prefix = match prefix {
            Ok(prefix) if self.after_v2 && prefix.magic() < 2 => {
                let magic_at = at.saturating_add_len(Prefix::LEN - 1);
                Err(CorruptKind::magic(prefix.magic()).at(magic_at))
            }
            other => other,
        };
        let prefix = prefix.map_err(|corruption| {
            self.failed = true;
            SegmentError::corrupt(&*self.path, corruption)
        })?;
        let need = usize::try_from(prefix.size_bytes()).unwrap_or(usize::MAX);
        let is_v2 = prefix.magic() == 2;
        if need <= left && self.verify && is_v2 && need > LARGE_BYTES {
            self.verify_large(at, need)?;
        }
        if need > left || !self.fill(need)? {
            let have = left.min(need - 1);
            return Ok(self.end_in_entry(at, need, have));
        }
        self.after_v2 |= is_v2;
        Ok(Some(need))
    }

    /// Checks a large batch through the buffer, which does not grow.
    fn verify_large(&mut self, at: Position, need: usize) -> Result<(), SegmentError> {
        if !self.fill(BatchHeader::LEN)? {
            return Ok(());
        }
        let header = BatchHeader::parse(&self.buffer[self.next..self.filled], at);
        let header = *header.map_err(|damage| SegmentError::corrupt(&*self.path, damage))?;
        let mut buffer = vec![0; BLOCK_BYTES];
        let mut done = CRC_START;
        let mut computed = 0;
        while done < need {
            let len = buffer.len().min(need - done);
            let from = u64::from(at.get()) + done as u64;
            let count = self.read(&mut buffer[..len], from)?;
            if count == 0 {
                return Ok(());
            }
            computed = crc32c_append(computed, &buffer[..count]);
            done += count;
        }
        if computed == header.crc() {
            return Ok(());
        }
        self.failed = true;
        let damage =
            CorruptKind::crc(header.crc(), computed).at(at.saturating_add_len(Prefix::LEN));
        Err(SegmentError::corrupt(&*self.path, damage))
    }

    fn read(&self, buffer: &mut [u8], from: u64) -> Result<usize, SegmentError> {
        let path = || self.path.clone();
        self.io.read_full(&self.file, &path, buffer, from).map_err(|source| {
            let at = u32::try_from(from).unwrap_or(u32::MAX);
            SegmentError::io(IoOp::Read, &*self.path, at, source)
        })
    }

    /// Ends the walk; it is the plain end of the range if nothing is left.
    fn end_in_entry(&mut self, at: Position, need: usize, have: usize) -> Option<usize> {
        if at.get() < self.end {
            self.tail = Some(CorruptKind::truncated(need, have).at(at));
        }
        None
    }

    /// Makes sure that `need` bytes from the next entry on are in the buffer; false where the
    /// file is shorter than the range.
    fn fill(&mut self, need: usize) -> Result<bool, SegmentError> {
        let have = self.filled - self.next;
        if have >= need {
            return Ok(true);
        }
        self.buffer.copy_within(self.next..self.filled, 0);
        self.buffer_at = self.position().get();
        self.next = 0;
        self.filled = have;
        let left = to_usize(self.end.saturating_sub(self.buffer_at));
        let want = need.max(BLOCK_BYTES).min(left);
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        let from = u64::from(self.buffer_at) + have as u64;
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.read(&mut buffer[have..want], from);
        self.buffer = buffer;
        self.filled += read?;
        Ok(self.filled >= need)
    }
}

/// The length of a log file as the size of a segment.
pub(crate) fn file_size(path: &Path, len: u64) -> Result<u32, SegmentError> {
    match u32::try_from(len) {
        Ok(size) if size <= MAX_SEGMENT_BYTES => Ok(size),
        _ => {
            let max = u64::from(MAX_SEGMENT_BYTES);
            Err(SegmentError::TooLarge { path: path.into(), found: len, max })
        }
    }
}

pub(crate) fn to_usize(bytes: u32) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The largest log file: positions in indexes are signed 32-bit numbers.
pub(crate) const MAX_SEGMENT_BYTES: u32 = i32::MAX.unsigned_abs();

/// Bytes per `pread`.
const BLOCK_BYTES: usize = 256 * 1024;

/// A batch above this size is checked before memory is given to it.
const LARGE_BYTES: usize = 8 * 1024 * 1024;

/// The first byte that the checksum covers: the attributes.
const CRC_START: usize = 21;
