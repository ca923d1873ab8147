//! What the offset and the time index file share: one mapped file of entries of a fixed size.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use alluvium_record_format::{CorruptKind, Corruption, Position};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::map::{Map, MapPermit, View};
use crate::offset_index::check_length;
use crate::{IndexError, Refusal};

/// A mapped index file. One writer at a time, kept apart by a lock; readers take none.
///
/// No descriptor stays open: what needs one opens the file by its path again, and checks that
/// it is still the same file with the length that it was left with.
#[derive(Debug)]
pub(crate) struct IndexFile {
    map: Map,
    entry_len: usize,
    writer: Mutex<Writer>,
}

/// What only the writer needs.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// Bytes that certainly have blocks on disk.
    reserved: Range<u64>,
}

impl IndexFile {
    /// Creates the file with as many whole entries as fit `max_bytes`.
    pub(crate) fn create(
        path: &Path,
        entry_len: usize,
        max_bytes: u32,
        permit: &MapPermit,
    ) -> Result<Self, IndexError> {
        let len = whole_entries(max_bytes, entry_len);
        if len == 0 {
            let min = u64::try_from(entry_len).unwrap_or(u64::MAX);
            let (bytes, max) = (u64::from(max_bytes), MAX_FILE_BYTES);
            return Err(IndexError::refused(path, Refusal::Length { bytes, min, max }));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|source| IndexError::io("create", path, 0, source))?;
        file.set_len(len).map_err(|source| IndexError::io("resize", path, 0, source))?;
        Self::over(path, &file, len, entry_len, len, permit)
    }

    /// Opens the file as long as it is, with room to grow to `max_bytes`. No entry is valid
    /// until it is published.
    pub(crate) fn open(
        path: &Path,
        entry_len: usize,
        max_bytes: u32,
        permit: &MapPermit,
    ) -> Result<Self, IndexError> {
        let file = open_existing(path)?;
        let len = checked_len(path, &file, entry_len)?;
        Self::over(path, &file, len, entry_len, whole_entries(max_bytes, entry_len), permit)
    }

    fn over(
        path: &Path,
        file: &File,
        len: u64,
        entry_len: usize,
        max_len: u64,
        permit: &MapPermit,
    ) -> Result<Self, IndexError> {
        let (len, max_len) = (usize_of(len), usize_of(max_len));
        let identity = identity_of(path, file)?;
        let map = Map::new(file, len, max_len, permit.clone())
            .map_err(|source| IndexError::io("map", path, 0, source))?;
        let writer = Writer { path: path.to_path_buf(), identity, reserved: 0..0 };
        Ok(Self { map, entry_len, writer: Mutex::new(writer) })
    }

    /// Opens the file of a sealed segment: reads a small one into memory, maps a larger one.
    pub(crate) fn open_sealed(
        path: &Path,
        entry_len: usize,
        permit: &MapPermit,
    ) -> Result<Self, IndexError> {
        let file = open_to_read(path).map_err(|source| IndexError::io("open", path, 0, source))?;
        let len = checked_len(path, &file, entry_len)?;
        if len > SEALED_IN_MEMORY_BYTES {
            return Self::open(path, entry_len, 0, permit);
        }
        let len = usize_of(len);
        let mut words = vec![0_u64; len.div_ceil(size_of::<u64>())];
        if let Some(bytes) = words.as_mut_bytes().get_mut(..len) {
            file.read_exact_at(bytes, 0)
                .map_err(|source| IndexError::io("read", path, 0, source))?;
        }
        let identity = identity_of(path, &file)?;
        let writer = Writer { path: path.to_path_buf(), identity, reserved: 0..0 };
        let map = Map::in_memory(words.into_boxed_slice(), len);
        Ok(Self { map, entry_len, writer: Mutex::new(writer) })
    }

    /// The entries as they are now.
    pub(crate) fn view(&self) -> View<'_> {
        self.map.view()
    }

    /// Number of valid entries.
    pub(crate) fn len(&self) -> usize {
        self.entries_in(self.map.view().valid_bytes())
    }

    /// Entries for which the file has room.
    pub(crate) fn capacity(&self) -> usize {
        self.entries_in(self.map.file_bytes())
    }

    /// Entries for which the file can ever be given room.
    pub(crate) const fn max_capacity(&self) -> usize {
        self.entries_in(self.map.reserved_bytes())
    }

    /// Bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        u64_of(self.map.file_bytes())
    }

    /// Sets the number of valid entries of a file that was just opened.
    pub(crate) fn publish(&self, entries: usize) {
        let bytes = entries.saturating_mul(self.entry_len);
        self.map.publish(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// The entries that whole slots of the file could hold.
    pub(crate) fn slots(&self) -> View<'_> {
        self.publish(self.capacity());
        self.map.view()
    }

    /// Shuts other writers out.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shuts other writers out, to change the entries: not in an index that is only read.
    pub(crate) fn writer(&self) -> Result<MutexGuard<'_, Writer>, IndexError> {
        let writer = self.lock();
        if self.map.is_in_memory() { Err(writer.refused(Refusal::Sealed)) } else { Ok(writer) }
    }

    /// Notes that the file was renamed.
    pub(crate) fn set_path(&self, path: PathBuf) {
        self.lock().path = path;
    }

    /// Makes sure that blocks stand ready for one more entry, so that no store can fail.
    /// Returns the byte where it goes, or `None` where the file has no room. Where it needs new
    /// blocks, it finds out whether the file was shortened: call it before any look at the map.
    pub(crate) fn reserve_slot(&self, writer: &mut Writer) -> Result<Option<usize>, IndexError> {
        let at = self.map.view().valid_bytes();
        let end = at.saturating_add(self.entry_len);
        if end > self.map.file_bytes() {
            return Ok(None);
        }
        self.reserve_range(writer, at, end)?;
        Ok(Some(at))
    }

    /// Makes sure that blocks stand ready for `entries` more, as many as the file has room for.
    pub(crate) fn reserve_slots(
        &self,
        writer: &mut Writer,
        entries: usize,
    ) -> Result<(), IndexError> {
        let at = self.map.view().valid_bytes();
        let end = at.saturating_add(entries.saturating_mul(self.entry_len));
        self.reserve_range(writer, at, end.min(self.map.file_bytes()))
    }

    fn reserve_range(&self, writer: &mut Writer, at: usize, end: usize) -> Result<(), IndexError> {
        let (at, end) = (u64_of(at), u64_of(end));
        if at < end && (writer.reserved.start > at || writer.reserved.end < end) {
            self.reserve_blocks(writer, at, end)?;
        }
        Ok(())
    }

    /// Stores an 8-byte entry in a reserved slot and shows it to readers.
    pub(crate) fn push64(&self, at: usize, word: u64) {
        if let Some(slot) = self.map.slot64(at) {
            slot.store(word.to_be(), core::sync::atomic::Ordering::Relaxed);
            self.publish(self.entries_in(at).saturating_add(1));
        }
    }

    /// Stores a 12-byte entry in a reserved slot and shows it to readers.
    pub(crate) fn push32(&self, at: usize, words: [u32; 3]) {
        if let Some(slot) = self.map.slot32::<3>(at) {
            for (slot, word) in slot.iter().zip(words) {
                slot.store(word.to_be(), core::sync::atomic::Ordering::Relaxed);
            }
            self.publish(self.entries_in(at).saturating_add(1));
        }
    }

    /// Keeps the first `entries`. The length of the file stays.
    pub(crate) fn take_back(&self, entries: usize) {
        let bytes = entries.saturating_mul(self.entry_len);
        self.map.take_back(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Makes the file as long as the whole entries in `bytes`; never shorter than its entries.
    /// Returns whether the length changed.
    pub(crate) fn resize(&self, writer: &mut Writer, bytes: u32) -> Result<bool, IndexError> {
        let min = u64_of(self.map.view().valid_bytes());
        let max = u64_of(self.map.reserved_bytes());
        let len = whole_entries(bytes, self.entry_len);
        if len < min || len > max {
            return Err(writer.refused(Refusal::Length { bytes: len, min, max }));
        }
        if len == self.file_bytes() {
            return Ok(false);
        }
        let file = self.reopen(writer)?;
        self.map.resize(&file, usize_of(len)).map_err(|source| writer.io("resize", len, source))?;
        writer.reserved.end = writer.reserved.end.min(len);
        Ok(true)
    }

    /// Cuts the file behind its last entry.
    pub(crate) fn trim(&self, writer: &mut Writer) -> Result<bool, IndexError> {
        let valid_bytes = self.map.view().valid_bytes();
        self.resize(writer, u32::try_from(valid_bytes).unwrap_or(u32::MAX))
    }

    /// Makes the entries and the length durable. Other writers go on meanwhile.
    pub(crate) fn flush(&self) -> Result<(), IndexError> {
        let writer = self.lock();
        let (file, path) = (self.reopen(&writer)?, writer.path.clone());
        drop(writer);
        // On Linux this writes back pages that were changed through a map as well.
        file.sync_all().map_err(|source| IndexError::io("flush", &path, 0, source))
    }

    /// Checks that the file is the one that was opened, with the length that it was left with.
    pub(crate) fn check_backing(&self, writer: &Writer) -> Result<(), IndexError> {
        self.reopen(writer).map(drop)
    }

    /// Checks that the file holds whole entries alone.
    pub(crate) fn check_whole(&self) -> Result<(), Corruption> {
        let bytes = self.map.file_bytes();
        let spare = bytes.checked_rem(self.entry_len).unwrap_or(0);
        check_length(bytes.saturating_sub(spare), spare, self.entry_len)
    }

    /// Adds the path to damage that was found.
    pub(crate) fn corrupt_if_err(&self, found: Result<(), Corruption>) -> Result<(), IndexError> {
        found.map_err(|source| IndexError::corrupt(&self.lock().path, source))
    }

    /// Reserves blocks for the entries from byte `from` to `until` at least, more of them the
    /// fuller the index.
    fn reserve_blocks(&self, writer: &mut Writer, from: u64, until: u64) -> Result<(), IndexError> {
        let step = from.clamp(MIN_RESERVED_BYTES, MAX_RESERVED_BYTES);
        let end = from.saturating_add(step).max(until).next_multiple_of(MIN_RESERVED_BYTES);
        let end = end.min(self.file_bytes());
        let file = self.reopen(writer)?;
        reserve(&file, from, end.saturating_sub(from))
            .map_err(|source| writer.io("extend", from, source))?;
        writer.reserved = from..end;
        Ok(())
    }

    fn reopen(&self, writer: &Writer) -> Result<File, IndexError> {
        let file = open_existing(&writer.path)?;
        let metadata = file.metadata().map_err(|source| writer.io("open", 0, source))?;
        let path = || writer.path.clone();
        if (metadata.dev(), metadata.ino()) != writer.identity {
            return Err(IndexError::Replaced { path: path() });
        }
        let (expected, found) = (self.file_bytes(), metadata.len());
        if found != expected {
            return Err(IndexError::Changed { path: path(), expected, found });
        }
        Ok(file)
    }

    const fn entries_in(&self, bytes: usize) -> usize {
        match bytes.checked_div(self.entry_len) {
            Some(entries) => entries,
            None => 0,
        }
    }
}

impl Writer {
    pub(crate) fn refused(&self, refusal: Refusal) -> IndexError {
        IndexError::refused(&self.path, refusal)
    }

    fn io(&self, action: &'static str, at: u64, source: io::Error) -> IndexError {
        IndexError::io(action, &self.path, at, source)
    }
}

/// `max_bytes` rounded down to whole entries.
pub(crate) fn whole_entries(max_bytes: u32, entry_len: usize) -> u64 {
    let (max_bytes, entry_len) = (u64::from(max_bytes).min(MAX_FILE_BYTES), u64_of(entry_len));
    max_bytes.saturating_sub(max_bytes.checked_rem(entry_len).unwrap_or(0))
}

/// Gives bytes `from` to `from + len` blocks on disk. Does not change the length of the file.
fn reserve(file: &File, from: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, len) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            // The file system cannot: make it find blocks by writing. The bytes from here on
            // hold no valid entry.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                return file.write_all_at(&vec![0; usize_of(len)], from);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn open_existing(path: &Path) -> Result<File, IndexError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|source| IndexError::io("open", path, 0, source))
}

/// Opens a file to read it; does not wait where it is a pipe.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

fn identity_of(path: &Path, file: &File) -> Result<(u64, u64), IndexError> {
    let metadata = file.metadata().map_err(|source| IndexError::io("open", path, 0, source))?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The length of the file, if an index can have it.
pub(crate) fn checked_len(path: &Path, file: &File, entry_len: usize) -> Result<u64, IndexError> {
    let metadata = file.metadata().map_err(|source| IndexError::io("open", path, 0, source))?;
    let len = metadata.len();
    if len > MAX_FILE_BYTES {
        let at = Position::new(u32::try_from(MAX_FILE_BYTES).unwrap_or(u32::MAX));
        let kind = CorruptKind::index_length(len, entry_len);
        return Err(IndexError::corrupt(path, kind.at(at)));
    }
    Ok(len)
}

pub(crate) fn u64_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

pub(crate) fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Kafka's limit: the length is a signed 32-bit number there.
const MAX_FILE_BYTES: u64 = 0x7fff_ffff;

/// Up to this length a sealed index is read into memory: a map would take as much.
const SEALED_IN_MEMORY_BYTES: u64 = 4 << 10;

/// The least that is reserved ahead of the write cursor: a page.
const MIN_RESERVED_BYTES: u64 = 4 << 10;

/// The most that is reserved ahead of the write cursor.
const MAX_RESERVED_BYTES: u64 = 64 << 10;
