//! Walks the entries of a log file through a buffer: every byte is read once.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_record_format::{
    BatchHeader, CorruptClass, CorruptKind, Corruption, Entry, Position, Prefix, Walker,
    crc32c_append,
};

use crate::error::{IoOp, SegmentError};
use crate::io::Io;

/// Walks the entries of a range of a log file, in order, each one whole.
///
/// Reads blocks of 256 KiB with `pread`; a larger entry takes as much memory as it has bytes in
/// the file. Where entries begin and end is decided by record-format's `Walker`, so a file and a
/// buffer of the same bytes get the same verdict. The content is not checked, unless by
/// [`BatchWalker::verifying`]; but a batch of more than 8 MiB is checked in pieces before memory
/// is given to it, so a length field that lies costs none.
///
/// Cost: one `pread` per 256 KiB, and a copy of the entry that crosses from one block to the
/// next. No allocation per entry.
///
/// Source: `FileLogInputStream` in Kafka, which lets an unknown magic pass.
#[derive(Debug)]
pub struct BatchWalker {
    source: Source,
    walker: Walker,
    end: u32,
    buffer: Vec<u8>,
    /// The file's byte at the start of the buffer.
    buffer_at: u32,
    /// Bytes of the buffer that hold file content.
    filled: usize,
    verify: bool,
    tail: Option<Corruption>,
    failed: bool,
}

/// Where the bytes come from.
#[derive(Debug)]
struct Source {
    io: Io,
    file: Arc<File>,
    path: PathBuf,
    /// Pages that a read brings in go again.
    uncached: bool,
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
            source: Source { io, file, path, uncached: false },
            walker: Walker::new(Position::new(start), Position::new(end)),
            end,
            buffer: Vec::new(),
            buffer_at: start,
            filled: 0,
            verify: false,
            tail: None,
            failed: false,
        }
    }

    /// Checks the checksum of each entry too, before it is given out.
    #[must_use]
    pub fn verifying(self) -> Self {
        Self { verify: true, ..self }
    }

    /// Reads around the page cache: pages that are in memory stay, others do not come in.
    ///
    /// See [`read_uncached`](crate::page_cache::read_uncached).
    #[must_use]
    pub fn uncached(mut self) -> Self {
        self.source.uncached = true;
        self
    }

    /// The next entry, or `None` at the end of the range or where it ends inside an entry.
    ///
    /// # Errors
    ///
    /// `Corrupt` at bytes that are no entry: a bad length, an unknown magic, magic 0 or 1 after
    /// a batch of magic 2, or a bad checksum if these are checked. The walk ends there, with
    /// [`BatchWalker::position`] at the entry. `Io`, after which it may be called again.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, SegmentError> {
        let Some((len, after)) = self.load()? else { return Ok(None) };
        let at = self.walker.position();
        let start = self.next();
        let entry = Entry::parse(&self.buffer[start..start + len], at);
        let verify = self.verify;
        match entry
            .and_then(|entry| if verify { entry.verify_crc() } else { Ok(()) }.map(|()| entry))
        {
            Ok(entry) => {
                self.walker = after;
                Ok(Some(entry))
            }
            Err(damage) => {
                self.failed = true;
                Err(SegmentError::corrupt(&*self.source.path, damage))
            }
        }
    }

    /// The byte after the last entry that was given out.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.walker.position()
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
        &self.source.path
    }

    /// The next entry, in the buffer.
    fn next(&self) -> usize {
        to_usize(self.walker.position().get() - self.buffer_at)
    }

    /// Brings the next entry into the buffer. Its length, and the walker behind it; `None` where
    /// there is no whole one.
    fn load(&mut self) -> Result<Option<(usize, Walker)>, SegmentError> {
        let at = self.walker.position();
        let left = to_usize(self.end.saturating_sub(at.get()));
        if self.failed || self.tail.is_some() || left == 0 {
            return Ok(None);
        }
        if left <= Prefix::LEN {
            return Ok(self.end_inside(Prefix::LEN + 1, left));
        }
        if !self.fill(Prefix::LEN)? {
            return Ok(self.end_inside(Prefix::LEN, self.filled - self.next()));
        }
        let mut after = self.walker.clone();
        let (need, magic) = match after.step(&self.buffer[self.next()..self.filled]) {
            Ok(Some(prefix)) => (size_of_entry(prefix), prefix.magic()),
            Ok(None) => return Ok(None),
            Err(damage) if damage.class() == CorruptClass::Incomplete => {
                self.tail = Some(damage);
                return Ok(None);
            }
            Err(damage) => return Err(self.fail(damage)),
        };
        if need > LARGE_BYTES && need > self.filled - self.next() {
            let read = |buffer: &mut [u8], from| self.source.read(buffer, from);
            let checked = check_large(&read, at, need, magic)?;
            checked.map_err(|damage| self.fail(damage))?;
        }
        if !self.fill(need)? {
            return Ok(self.end_inside(need, self.filled - self.next()));
        }
        Ok(Some((need, after)))
    }

    fn fail(&mut self, damage: Corruption) -> SegmentError {
        self.failed = true;
        SegmentError::corrupt(&*self.source.path, damage)
    }

    /// Ends the walk: so many bytes would be needed, so many are there.
    fn end_inside<T>(&mut self, need: usize, have: usize) -> Option<T> {
        self.tail = Some(CorruptKind::truncated(need, have).at(self.walker.position()));
        None
    }

    /// Makes sure that `need` bytes from the next entry on are in the buffer; false where the
    /// file is shorter than the range.
    fn fill(&mut self, need: usize) -> Result<bool, SegmentError> {
        let next = self.next();
        let have = self.filled - next;
        if have >= need {
            return Ok(true);
        }
        self.buffer.copy_within(next..self.filled, 0);
        self.buffer_at = self.walker.position().get();
        self.filled = have;
        let left = to_usize(self.end.saturating_sub(self.buffer_at));
        let want = need.max(BLOCK_BYTES).min(left);
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        let from = u64::from(self.buffer_at) + have as u64;
        self.filled += self.source.read(&mut self.buffer[have..want], from)?;
        Ok(self.filled >= need)
    }
}

impl Source {
    fn read(&self, buffer: &mut [u8], from: u64) -> Result<usize, SegmentError> {
        let path = || self.path.clone();
        let read = if self.uncached {
            self.io.read_full_uncached(&self.file, &path, buffer, from)
        } else {
            self.io.read_full(&self.file, &path, buffer, from)
        };
        read.map_err(|source| {
            let at = u32::try_from(from).unwrap_or(u32::MAX);
            SegmentError::io(IoOp::Read, &*self.path, at, source)
        })
    }
}

/// Fills a buffer from a byte of a file on; returns how many bytes were there.
pub(crate) trait ReadAt: Fn(&mut [u8], u64) -> Result<usize, SegmentError> {}

impl<F: Fn(&mut [u8], u64) -> Result<usize, SegmentError>> ReadAt for F {}

/// Checks a large entry at `at`, of `need` bytes, without holding it in memory. Messages of
/// magic 0 and 1 are only held against a limit.
///
/// A file that ends early is no damage here: the caller finds out.
pub(crate) fn check_large(
    read: &dyn ReadAt,
    at: Position,
    need: usize,
    magic: i8,
) -> Result<Result<(), Corruption>, SegmentError> {
    if magic != 2 {
        let kind = CorruptKind::too_large(need, MAX_LEGACY_BYTES);
        return Ok(if need > MAX_LEGACY_BYTES { Err(kind.at(at)) } else { Ok(()) });
    }
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut stored = 0;
    let mut computed = 0;
    let mut done = 0;
    while done < need {
        let len = buffer.len().min(need - done);
        let from = u64::from(at.get()) + done as u64;
        let count = read(&mut buffer[..len], from)?;
        if count < len {
            return Ok(Ok(()));
        }
        let covered = if done == 0 {
            match BatchHeader::parse(&buffer, at) {
                Ok(header) => stored = header.crc(),
                Err(damage) => return Ok(Err(damage)),
            }
            CRC_START
        } else {
            0
        };
        computed = crc32c_append(computed, &buffer[covered..count]);
        done += count;
    }
    let kind = CorruptKind::crc(stored, computed);
    let damage = kind.at(at.saturating_add_len(Prefix::LEN));
    Ok(if stored == computed { Ok(()) } else { Err(damage) })
}

/// Bytes of a whole entry.
fn size_of_entry(prefix: &Prefix) -> usize {
    usize::try_from(prefix.size_bytes()).unwrap_or(usize::MAX)
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

/// An entry above this size is checked before memory is given to it.
pub(crate) const LARGE_BYTES: usize = 8 * 1024 * 1024;

/// The largest message of magic 0 or 1: its checksum is not computed in pieces.
const MAX_LEGACY_BYTES: usize = 128 * 1024 * 1024;

/// The first byte that the checksum covers: the attributes.
const CRC_START: usize = 21;
