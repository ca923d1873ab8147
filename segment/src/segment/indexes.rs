//! The indexes of a segment: opened on first use, and dropped when they do not fit the log.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_sparse_index::{
    AbortedTxn, CollectedTxns, IndexError, OffsetEntry, OffsetIndex, OffsetIndexFile,
    OffsetNeighbours, TimeEntry, TimeIndex, TimeIndexFile, TransactionIndex, TransactionIndexFile,
};
use arc_swap::Guard;

use super::Segment;
use crate::error::{IoOp, SegmentError};
use crate::exact::ExactEntries;
use crate::headers::BatchAt;
use crate::names::FileKind;
use crate::walk::to_usize;

/// An index, and what may be done with it.
#[derive(Debug)]
pub(crate) enum Hints<I> {
    /// Mapped, of a segment of ours: can be written to.
    Mapped(I),
    /// A copy in memory of a small one of ours that is sealed: only for reading.
    Sealed(I),
    /// A copy in memory of one in a directory that is not ours.
    Foreign { base: Offset, bytes: Vec<u8> },
}

pub(crate) type TimeHints = Hints<TimeIndexFile>;

/// The offset index, and what reads have learned of it.
#[derive(Debug)]
pub(crate) struct OffsetHints {
    index: Hints<OffsetIndexFile>,
    exact: ExactEntries,
}

impl<I> Hints<I> {
    /// The index, to write to.
    pub(crate) const fn mapped(&self) -> Option<&I> {
        match self {
            Self::Mapped(index) => Some(index),
            Self::Sealed(_) | Self::Foreign { .. } => None,
        }
    }

    /// The index, if it is ours.
    pub(crate) const fn ours(&self) -> Option<&I> {
        match self {
            Self::Mapped(index) | Self::Sealed(index) => Some(index),
            Self::Foreign { .. } => None,
        }
    }

    const fn is_sealed_copy(&self) -> bool {
        matches!(self, Self::Sealed(_))
    }
}

impl OffsetHints {
    fn of(index: Hints<OffsetIndexFile>) -> Self {
        Self { index, exact: ExactEntries::default() }
    }

    /// The index, to write to.
    pub(crate) const fn mapped(&self) -> Option<&OffsetIndexFile> {
        self.index.mapped()
    }

    /// The index, if it is ours.
    pub(crate) const fn ours(&self) -> Option<&OffsetIndexFile> {
        self.index.ours()
    }

    const fn is_sealed_copy(&self) -> bool {
        self.index.is_sealed_copy()
    }

    /// The entries around `target`.
    pub(crate) fn lookup_near(&self, target: Offset) -> OffsetNeighbours {
        match &self.index {
            Hints::Mapped(index) | Hints::Sealed(index) => index.lookup_near(target),
            Hints::Foreign { base, bytes } => OffsetIndex::new(*base, bytes).lookup_near(target),
        }
    }

    /// Whether a read found the entry in `slot` to be exact, in this generation of the segment.
    pub(crate) fn is_exact(&self, slot: usize, generation: u32) -> bool {
        self.exact.contains(slot, generation)
    }

    /// Remembers that the entry in `slot` is exact. Nothing is known of a segment that others
    /// write to.
    pub(crate) fn learn_exact(&self, slot: usize, generation: u32) {
        if let Some(index) = self.ours() {
            self.exact.insert(slot, generation, index.len().max(index.max_entries()));
        }
    }

    pub(crate) fn last_entry(&self) -> Option<OffsetEntry> {
        match &self.index {
            Hints::Mapped(index) | Hints::Sealed(index) => index.last_entry(),
            Hints::Foreign { base, bytes } => OffsetIndex::new(*base, bytes).last_entry(),
        }
    }

    pub(crate) fn upper_bound_offset(&self, position: Position, size_bytes: u32) -> Option<Offset> {
        match &self.index {
            Hints::Mapped(index) | Hints::Sealed(index) => {
                index.upper_bound_offset(position, size_bytes)
            }
            Hints::Foreign { base, bytes } => {
                OffsetIndex::new(*base, bytes).upper_bound_offset(position, size_bytes)
            }
        }
    }

    pub(crate) fn entry(&self, slot: usize) -> Option<OffsetEntry> {
        match &self.index {
            Hints::Mapped(index) | Hints::Sealed(index) => index.entry(slot),
            Hints::Foreign { base, bytes } => OffsetIndex::new(*base, bytes).entry(slot),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.index {
            Hints::Mapped(index) | Hints::Sealed(index) => index.len(),
            Hints::Foreign { base, bytes } => OffsetIndex::new(*base, bytes).len(),
        }
    }
}

impl TimeHints {
    pub(crate) fn lookup(&self, target: Timestamp) -> Option<TimeEntry> {
        match self {
            Self::Mapped(index) | Self::Sealed(index) => index.lookup(target),
            Self::Foreign { base, bytes } => TimeIndex::new(*base, bytes).lookup(target),
        }
    }

    pub(crate) fn last_entry(&self) -> Option<TimeEntry> {
        match self {
            Self::Mapped(index) | Self::Sealed(index) => index.last_entry(),
            Self::Foreign { base, bytes } => TimeIndex::new(*base, bytes).last_entry(),
        }
    }

    pub(crate) fn entry(&self, slot: usize) -> Option<TimeEntry> {
        match self {
            Self::Mapped(index) | Self::Sealed(index) => index.entry(slot),
            Self::Foreign { base, bytes } => TimeIndex::new(*base, bytes).entry(slot),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Mapped(index) | Self::Sealed(index) => index.len(),
            Self::Foreign { base, bytes } => TimeIndex::new(*base, bytes).len(),
        }
    }
}

/// What is known of how entries were made: values of `Segment::index_style`.
mod style {
    /// Nobody looked.
    pub(super) const UNKNOWN: u8 = 0;
    /// Old brokers wrote one entry per append call: its first byte, its last offset. All entries
    /// were checked against the log.
    pub(super) const PER_APPEND: u8 = 1;
}

impl Segment {
    /// An upper bound of the offsets in `size_bytes` from `position` on: the offset of the first
    /// index entry behind them, `None` if there is none. For the list of aborted transactions.
    ///
    /// # Errors
    ///
    /// `Index` if the index cannot be opened.
    pub fn upper_bound_offset(
        &self,
        position: Position,
        size_bytes: u32,
    ) -> Result<Option<Offset>, SegmentError> {
        let hints = self.offset_hints()?;
        Ok(hints.as_ref().and_then(|hints| hints.upper_bound_offset(position, size_bytes)))
    }

    /// The entry of the offset index with the largest offset that is not above `target`: a hint
    /// where to begin, which reads compare with the log. `None` below the first entry.
    ///
    /// Binary search, no I/O beyond page faults once the index is open.
    ///
    /// Source: `OffsetIndex.lookup` in Kafka; `docs/format/offset-index.md#lookup`.
    ///
    /// # Errors
    ///
    /// `Index` if the index cannot be opened.
    pub fn index_entry(&self, target: Offset) -> Result<Option<OffsetEntry>, SegmentError> {
        let hints = self.offset_hints()?;
        Ok(hints.as_ref().and_then(|hints| hints.lookup_near(target).floor))
    }

    /// The aborted transactions whose marker lies in this segment and that touch
    /// `fetch_offset..upper_bound`. If the list is not complete, go on with the next segment.
    ///
    /// Source: `LogSegment.collectAbortedTxns` in Kafka.
    ///
    /// # Errors
    ///
    /// `Index` if the index is damaged or cannot be read.
    pub fn collect_aborted(
        &self,
        fetch_offset: Offset,
        upper_bound: Offset,
    ) -> Result<CollectedTxns, SegmentError> {
        let index = self.transactions()?;
        Ok(index.as_ref().map(|index| index.collect(fetch_offset, upper_bound)).unwrap_or_default())
    }

    /// All aborted transactions whose marker lies in this segment.
    ///
    /// # Errors
    ///
    /// `Index` if the index is damaged or cannot be read.
    pub fn aborted(&self) -> Result<Vec<AbortedTxn>, SegmentError> {
        let index = self.transactions()?;
        Ok(index.as_ref().map(|index| index.entries()).unwrap_or_default())
    }

    /// Adds an aborted transaction. The first one makes the file.
    ///
    /// # Errors
    ///
    /// `ReadOnly`; `Index` if the transaction does not follow the last one, or cannot be written.
    pub fn append_aborted(&self, txn: AbortedTxn) -> Result<(), SegmentError> {
        self.dir.lock()?;
        let _alone = self.maintenance.lock();
        let guard = self.transactions()?;
        let Some(index) = guard.as_ref() else { return Ok(()) };
        let is_first = index.is_empty();
        let path = self.path(FileKind::TransactionIndex);
        let position = u64::try_from(index.len() * TransactionIndex::ENTRY_LEN).unwrap_or(u64::MAX);
        self.dir
            .io()
            .announce_write(&path, position)
            .map_err(|source| SegmentError::file(IoOp::Write, &path, source))?;
        index.set_path(path);
        self.transaction_index.mark_unsynced();
        let appended = index.append(txn).map_err(SegmentError::index);
        if is_first {
            self.dir.names_changed();
        }
        appended
    }

    /// Empties the transaction index: its entries come again, from recovery.
    ///
    /// # Errors
    ///
    /// `ReadOnly`, `Index`.
    pub fn reset_aborted(&self) -> Result<(), SegmentError> {
        self.dir.lock()?;
        let _alone = self.maintenance.lock();
        let mut gate = self.transaction_index.hold();
        let path = self.path(FileKind::TransactionIndex);
        let index = TransactionIndexFile::open_reset(&path, self.base);
        let index = index.map_err(SegmentError::index)?;
        self.transaction_index.put_held(&mut gate, index);
        self.transaction_index.mark_unsynced();
        Ok(())
    }

    /// Drops the aborted transactions whose marker is at `offset` or above.
    pub(crate) fn truncate_aborted(&self, offset: Offset) -> Result<(), SegmentError> {
        let _alone = self.maintenance.lock();
        let guard = self.transactions()?;
        let Some(index) = guard.as_ref().filter(|index| !index.is_empty()) else { return Ok(()) };
        index.set_path(self.path(FileKind::TransactionIndex));
        self.transaction_index.mark_unsynced();
        index.truncate_to(offset).map_err(SegmentError::index)
    }

    /// Opens both indexes and keeps them open.
    pub(crate) fn pin_indexes(&self) -> Result<(Arc<OffsetHints>, Arc<TimeHints>), SegmentError> {
        let gone = || SegmentError::Gone { path: self.path(FileKind::OffsetIndex) };
        let offset = Guard::into_inner(self.offset_hints()?).ok_or_else(gone)?;
        let time = Guard::into_inner(self.time_hints()?).ok_or_else(gone)?;
        self.offset_index.pin();
        self.time_index.pin();
        Ok((offset, time))
    }

    /// Lets the pool close the indexes.
    pub(crate) fn unpin_indexes(&self) {
        self.offset_index.unpin(self.dir.pool());
        self.time_index.unpin(self.dir.pool());
    }

    /// Lets go of indexes that were opened only to read.
    pub(crate) fn drop_index_copies(&self) {
        self.offset_index.drop_if(OffsetHints::is_sealed_copy);
        self.time_index.drop_if(Hints::is_sealed_copy);
    }

    pub(crate) fn mark_transactions_unsynced(&self) {
        self.transaction_index.mark_unsynced();
    }

    pub(crate) fn mark_indexes_unsynced(&self) {
        self.offset_index.mark_unsynced();
        self.time_index.mark_unsynced();
    }

    pub(crate) fn transactions(
        &self,
    ) -> Result<Guard<Option<Arc<TransactionIndexFile>>>, SegmentError> {
        self.transaction_index.get(self.dir.pool(), || {
            self.check_alive()?;
            let dir = self.dir.pin();
            let path = dir.join(self.name(FileKind::TransactionIndex).to_string());
            TransactionIndexFile::open(&path, self.base).map_err(SegmentError::index)
        })
    }

    /// The offset index.
    pub(crate) fn offset_hints(&self) -> Result<Guard<Option<Arc<OffsetHints>>>, SegmentError> {
        let open = || self.open_offset_index();
        match self.offset_index.get(self.dir.pool(), open) {
            Err(error) if is_lost(&error) => {
                self.make_lost_indexes()?;
                self.offset_index.get(self.dir.pool(), open)
            }
            other => other,
        }
    }

    /// The time index.
    pub(crate) fn time_hints(&self) -> Result<Guard<Option<Arc<TimeHints>>>, SegmentError> {
        let open = || self.open_time_index();
        match self.time_index.get(self.dir.pool(), open) {
            Err(error) if is_lost(&error) => {
                self.make_lost_indexes()?;
                self.time_index.get(self.dir.pool(), open)
            }
            other => other,
        }
    }

    fn make_lost_indexes(&self) -> Result<(), SegmentError> {
        // Looked at while nobody renames it.
        let held = self.log.hold();
        let log = self.path(FileKind::Log);
        if !log.exists() {
            return Err(SegmentError::Gone { path: log });
        }
        drop(held);
        self.rebuild_indexes().map(drop)
    }

    pub(super) fn open_offset_index(&self) -> Result<OffsetHints, SegmentError> {
        self.check_alive()?;
        let dir = self.dir.pin();
        let path = dir.join(self.name(FileKind::OffsetIndex).to_string());
        if let Some(permit) = self.dir.permit() {
            if !self.is_active() && is_small(&path) {
                let index = OffsetIndexFile::open_sealed(&path, self.base, permit);
                return index
                    .map(|index| OffsetHints::of(Hints::Sealed(index)))
                    .map_err(SegmentError::index);
            }
            let max_bytes = self.config().max_index_bytes;
            let opened = OffsetIndexFile::open(&path, self.base, max_bytes, permit);
            let index = self
                .or_create(opened, || OffsetIndexFile::create(&path, self.base, max_bytes, permit));
            return index
                .map(|index| OffsetHints::of(Hints::Mapped(index)))
                .map_err(SegmentError::index);
        }
        let mut bytes = self.copy_index(&path, OffsetIndex::ENTRY_LEN)?;
        let kept = OffsetIndex::new(self.base, &bytes).without_padding().len();
        bytes.truncate(kept * OffsetIndex::ENTRY_LEN);
        Ok(OffsetHints::of(Hints::Foreign { base: self.base, bytes }))
    }

    fn open_time_index(&self) -> Result<TimeHints, SegmentError> {
        self.check_alive()?;
        let dir = self.dir.pin();
        let path = dir.join(self.name(FileKind::TimeIndex).to_string());
        if let Some(permit) = self.dir.permit() {
            if !self.is_active() && is_small(&path) {
                let index = TimeIndexFile::open_sealed(&path, self.base, permit);
                return index.map(Hints::Sealed).map_err(SegmentError::index);
            }
            let max_bytes = self.config().max_index_bytes;
            let opened = TimeIndexFile::open(&path, self.base, max_bytes, permit);
            let index = self
                .or_create(opened, || TimeIndexFile::create(&path, self.base, max_bytes, permit));
            return index.map(Hints::Mapped).map_err(SegmentError::index);
        }
        let mut bytes = self.copy_index(&path, TimeIndex::ENTRY_LEN)?;
        let kept = TimeIndex::new(self.base, &bytes).without_padding().len();
        bytes.truncate(kept * TimeIndex::ENTRY_LEN);
        Ok(Hints::Foreign { base: self.base, bytes })
    }

    /// Makes the index of an active segment where there is none.
    fn or_create<T>(
        &self,
        opened: Result<T, IndexError>,
        create: impl FnOnce() -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        match opened {
            Err(IndexError::Io { source, .. })
                if self.is_active() && source.kind() == io::ErrorKind::NotFound =>
            {
                let created = create();
                self.dir.names_changed();
                created
            }
            other => other,
        }
    }

    /// The bytes of an index of somebody else; none where there is no file. Never more than the
    /// log can have entries, however long the file is.
    fn copy_index(&self, path: &Path, entry_len: usize) -> Result<Vec<u8>, SegmentError> {
        let io = self.dir.io();
        let file = match io.open(path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(SegmentError::file(IoOp::Open, path, error)),
        };
        let stat = file.metadata().map_err(|e| SegmentError::file(IoOp::Stat, path, e))?;
        let entries = to_usize(self.size_bytes()) / MIN_ENTRY_BYTES + 1;
        let len = usize::try_from(stat.len()).unwrap_or(usize::MAX).min(entries * entry_len);
        let mut bytes = vec![0; len];
        let count = io
            .read_full(&file, &|| path.into(), &mut bytes, 0)
            .map_err(|e| SegmentError::file(IoOp::Read, path, e))?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Whether `batch`, which lies where `entry` points, is the one that the entry means.
    pub(crate) fn fits(&self, entry: OffsetEntry, batch: &BatchAt) -> Result<bool, SegmentError> {
        if batch.base_offset > entry.offset {
            return Ok(false);
        }
        if entry.offset <= batch.last_offset {
            return Ok(true);
        }
        // Wrong, or written by an old broker for a whole append call: then the batch starts the
        // call and the offset ends it.
        if self.index_style.load(Ordering::Acquire) == style::UNKNOWN
            && self.every_entry_ends_a_batch()?
        {
            self.index_style.store(style::PER_APPEND, Ordering::Release);
        }
        Ok(self.index_style.load(Ordering::Acquire) == style::PER_APPEND)
    }
}

/// Whether an index is small enough to be read into memory instead of being mapped.
fn is_small(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.len() <= SMALL_INDEX_BYTES)
}

/// Whether the index must be made again: it is not there, or no index at all.
fn is_lost(error: &SegmentError) -> bool {
    match error {
        SegmentError::Index { source: IndexError::Corrupt { .. } } => true,
        SegmentError::Index { source: IndexError::Io { source, .. } } => {
            source.kind() == io::ErrorKind::NotFound
        }
        _ => false,
    }
}

/// A page: what sparse-index reads into memory.
const SMALL_INDEX_BYTES: u64 = 4096;

/// The smallest entry of a log: a message of magic 0.
const MIN_ENTRY_BYTES: usize = 26;
