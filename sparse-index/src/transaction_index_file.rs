//! The transaction index of a segment as a file. Format: `docs/format/transaction-index.md`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use alluvium_record_format::Offset;
use zerocopy::IntoBytes;

use crate::entry::{StoredTxn, TXN_ENTRY_LEN};
use crate::index_file::{checked_len, open_to_read};
use crate::{AbortedTxn, CollectedTxns, IndexError, Refusal, TransactionIndex};

/// The transaction index of one segment: the aborted transactions whose marker lies in it.
///
/// The file is made by the first append, so most segments have none. The entries are kept in
/// memory from the opening on, 32 bytes each; no descriptor stays open. All methods take
/// `&self`. Writers keep each other out; a reader never waits for the disk, only while an entry
/// is put into the list.
#[derive(Debug)]
pub struct TransactionIndexFile {
    base: Offset,
    /// Who holds the lock may change the file, and the entries after it.
    path: Mutex<PathBuf>,
    txns: RwLock<Vec<AbortedTxn>>,
}

impl TransactionIndexFile {
    /// Opens the index at `path`: empty where there is no file.
    ///
    /// A tail shorter than an entry, as a torn write leaves it, is left out; the next append
    /// writes over it.
    ///
    /// # Errors
    ///
    /// `Corrupt` for an entry of unknown version, or one that ends below `base`: reset the index
    /// and rebuild it from the log. `Io`.
    pub fn open(path: &Path, base: Offset) -> Result<Self, IndexError> {
        let bytes = read_if_there(path)?;
        let index = TransactionIndex::new(base, &bytes);
        index.sanity_check().map_err(|source| IndexError::corrupt(path, source))?;
        let txns = index.iter().collect::<Result<_, _>>();
        let txns = txns.map_err(|source| IndexError::corrupt(path, source))?;
        Ok(Self { base, path: Mutex::new(path.to_path_buf()), txns: RwLock::new(txns) })
    }

    /// Opens the index at `path` as an empty one, whatever the file holds: for recovery, which
    /// appends all of it again.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn open_reset(path: &Path, base: Offset) -> Result<Self, IndexError> {
        cut(path, 0)?;
        Ok(Self { base, path: Mutex::new(path.to_path_buf()), txns: RwLock::default() })
    }

    /// Appends an aborted transaction. Creates the file if there is none.
    ///
    /// # Errors
    ///
    /// `Refused` with `OutOfOrder` where its last offset is not above that of the last entry.
    /// `Io`, `DiskFull`: the entry is not there; part of it may be in the file, and is written
    /// over by the next append.
    pub fn append(&self, txn: AbortedTxn) -> Result<(), IndexError> {
        let path = self.lock();
        if let Some(last) = self.last_entry().filter(|last| txn.last_offset <= last.last_offset) {
            let refusal = Refusal::OutOfOrder { last: last.last_offset, found: txn.last_offset };
            return Err(IndexError::refused(&path, refusal));
        }
        let at = byte_of(self.len());
        let io = |source| IndexError::io("write", &path, at, source);
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(&*path).map_err(io)?;
        file.write_all_at(StoredTxn::from(txn).as_bytes(), at).map_err(io)?;
        self.write().push(txn);
        Ok(())
    }

    /// Drops the entries from the first one on that ends at `offset` or above, and cuts the
    /// file there.
    ///
    /// # Errors
    ///
    /// `Io`: the entries are as before.
    pub fn truncate_to(&self, offset: Offset) -> Result<(), IndexError> {
        let path = self.lock();
        let kept = self.read().iter().position(|txn| txn.last_offset >= offset);
        let Some(kept) = kept else { return Ok(()) };
        cut(&path, byte_of(kept))?;
        self.write().truncate(kept);
        Ok(())
    }

    /// Drops all entries, and makes the file empty if there is one.
    ///
    /// # Errors
    ///
    /// `Io`: the entries are as before.
    pub fn reset(&self) -> Result<(), IndexError> {
        let path = self.lock();
        cut(&path, 0)?;
        self.write().clear();
        Ok(())
    }

    /// Makes the entries so far durable, if there is a file. Nobody waits for it.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn flush(&self) -> Result<(), IndexError> {
        let path = self.lock().clone();
        let Some(file) = open_if_there(&path)? else { return Ok(()) };
        file.sync_all().map_err(|source| IndexError::io("flush", &path, 0, source))
    }

    /// Notes that the file was renamed, or its directory.
    pub fn set_path(&self, path: PathBuf) {
        *self.lock() = path;
    }

    /// Collects the aborted transactions that touch the offsets `fetch_offset..upper_bound`;
    /// see [`TransactionIndex::collect`].
    #[must_use]
    pub fn collect(&self, fetch_offset: Offset, upper_bound: Offset) -> CollectedTxns {
        let mut collected = CollectedTxns::default();
        for txn in self.read().iter() {
            if collected.add(*txn, fetch_offset, upper_bound) {
                break;
            }
        }
        collected
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> Vec<AbortedTxn> {
        self.read().clone()
    }

    /// The last entry.
    #[must_use]
    pub fn last_entry(&self) -> Option<AbortedTxn> {
        self.read().last().copied()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// The base offset of the segment.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base
    }

    fn lock(&self) -> MutexGuard<'_, PathBuf> {
        self.path.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<AbortedTxn>> {
        self.txns.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<AbortedTxn>> {
        self.txns.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts the file at byte `at`, if there is one.
fn cut(path: &Path, at: u64) -> Result<(), IndexError> {
    let Some(file) = open_if_there(path)? else { return Ok(()) };
    file.set_len(at).map_err(|source| IndexError::io("resize", path, at, source))
}

fn open_if_there(path: &Path) -> Result<Option<File>, IndexError> {
    match OpenOptions::new().write(true).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(IndexError::io("open", path, 0, source)),
    }
}

/// The byte where entry `index` begins.
fn byte_of(index: usize) -> u64 {
    u64::try_from(index.saturating_mul(TXN_ENTRY_LEN)).unwrap_or(u64::MAX)
}

fn read_if_there(path: &Path) -> Result<Vec<u8>, IndexError> {
    let file = match open_to_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(IndexError::io("open", path, 0, source)),
    };
    let len = checked_len(path, &file, TXN_ENTRY_LEN)?;
    let mut bytes = Vec::new();
    let read = file.take(len).read_to_end(&mut bytes);
    read.map_err(|source| IndexError::io("read", path, 0, source))?;
    Ok(bytes)
}
