//! The transaction index of a segment as a file. Format: `docs/format/transaction-index.md`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use alluvium_record_format::Offset;
use zerocopy::IntoBytes;

use crate::entry::{StoredTxn, TXN_ENTRY_LEN};
use crate::index_file::checked_len;
use crate::{AbortedTxn, CollectedTxns, IndexError, Refusal, TransactionIndex};

/// The transaction index of one segment: the aborted transactions whose marker lies in it.
///
/// The file is made by the first append, so most segments have none. The entries are kept in
/// memory from the opening on, 32 bytes each; no descriptor stays open. All methods take
/// `&self`; writers and readers exclude each other for the time that a list is changed.
#[derive(Debug)]
pub struct TransactionIndexFile {
    base: Offset,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    path: PathBuf,
    txns: Vec<AbortedTxn>,
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
        let state = State { path: path.to_path_buf(), txns };
        Ok(Self { base, state: RwLock::new(state) })
    }

    /// Opens the index at `path` as an empty one, whatever the file holds: for recovery, which
    /// appends all of it again.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn open_reset(path: &Path, base: Offset) -> Result<Self, IndexError> {
        let state = State { path: path.to_path_buf(), txns: Vec::new() };
        let index = Self { base, state: RwLock::new(state) };
        index.reset()?;
        Ok(index)
    }

    /// Appends an aborted transaction. Creates the file if there is none.
    ///
    /// # Errors
    ///
    /// `Refused` with `OutOfOrder` where its last offset is not above that of the last entry.
    /// `Io`, `DiskFull`: the entry is not there; part of it may be in the file, and is written
    /// over by the next append.
    pub fn append(&self, txn: AbortedTxn) -> Result<(), IndexError> {
        let mut state = self.write();
        if let Some(last) = state.txns.last().filter(|last| txn.last_offset <= last.last_offset) {
            let refusal = Refusal::OutOfOrder { last: last.last_offset, found: txn.last_offset };
            return Err(IndexError::refused(&state.path, refusal));
        }
        let at = state.end();
        let io = |source| IndexError::io("write", &state.path, at, source);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&state.path)
            .map_err(io)?;
        file.write_all_at(StoredTxn::from(txn).as_bytes(), at).map_err(io)?;
        state.txns.push(txn);
        Ok(())
    }

    /// Drops the entries from the first one on that ends at `offset` or above, and cuts the
    /// file there.
    ///
    /// # Errors
    ///
    /// `Io`: the entries are as before.
    pub fn truncate_to(&self, offset: Offset) -> Result<(), IndexError> {
        let mut state = self.write();
        let kept = state.txns.iter().position(|txn| txn.last_offset >= offset);
        kept.map_or(Ok(()), |kept| state.cut(kept))
    }

    /// Drops all entries, and makes the file empty if there is one.
    ///
    /// # Errors
    ///
    /// `Io`: the entries are as before.
    pub fn reset(&self) -> Result<(), IndexError> {
        self.write().cut(0)
    }

    /// Makes the entries durable, if there is a file.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn flush(&self) -> Result<(), IndexError> {
        let state = self.read();
        let Some(file) = state.open_if_there()? else { return Ok(()) };
        file.sync_all().map_err(|source| IndexError::io("flush", &state.path, 0, source))
    }

    /// Notes that the file was renamed, or its directory.
    pub fn set_path(&self, path: PathBuf) {
        self.write().path = path;
    }

    /// Collects the aborted transactions that touch the offsets `fetch_offset..upper_bound`;
    /// see [`TransactionIndex::collect`].
    #[must_use]
    pub fn collect(&self, fetch_offset: Offset, upper_bound: Offset) -> CollectedTxns {
        let mut collected = CollectedTxns::default();
        for txn in &self.read().txns {
            if collected.add(*txn, fetch_offset, upper_bound) {
                break;
            }
        }
        collected
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> Vec<AbortedTxn> {
        self.read().txns.clone()
    }

    /// The last entry.
    #[must_use]
    pub fn last_entry(&self) -> Option<AbortedTxn> {
        self.read().txns.last().copied()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().txns.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read().txns.is_empty()
    }

    /// The base offset of the segment.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The byte behind the last entry.
    fn end(&self) -> u64 {
        byte_of(self.txns.len())
    }

    fn cut(&mut self, kept: usize) -> Result<(), IndexError> {
        if let Some(file) = self.open_if_there()? {
            let at = byte_of(kept);
            file.set_len(at).map_err(|source| IndexError::io("resize", &self.path, at, source))?;
        }
        self.txns.truncate(kept);
        Ok(())
    }

    fn open_if_there(&self) -> Result<Option<File>, IndexError> {
        match OpenOptions::new().write(true).open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(IndexError::io("open", &self.path, 0, source)),
        }
    }
}

/// The byte where entry `index` begins.
fn byte_of(index: usize) -> u64 {
    u64::try_from(index.saturating_mul(TXN_ENTRY_LEN)).unwrap_or(u64::MAX)
}

fn read_if_there(path: &Path) -> Result<Vec<u8>, IndexError> {
    let file = match File::open(path) {
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
