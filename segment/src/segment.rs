//! One segment, shared by all who read it.

mod files;
mod indexes;
mod locate;
mod read;
mod rebuild;
mod residency;
mod tail;
mod time;
mod views;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use alluvium_record_format::{Offset, Position};
use alluvium_sparse_index::{TimeEntry, TransactionIndexFile};
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::active::Birth;
use crate::config::SegmentConfig;
use crate::error::{IoOp, SegmentError};
use crate::index_slot::IndexSlot;
use crate::names::{FileKind, SegmentFileName, Suffix};
use crate::partition_dir::PartitionDir;
use crate::pool::{HeldFile, PooledFile};
use crate::published::{Published, TakingBack};
use crate::shared_file::FileShare;
use crate::walk::{BatchWalker, file_size};

pub(crate) use indexes::{OffsetHints, TimeHints};
pub use tail::Tail;
use time::FirstRecord;
pub use time::FoundRecord;
pub use views::{OffsetIndexView, TimeIndexView};

/// One segment of a log: batches in a `.log` file, found through its indexes.
///
/// Shared by `Arc`; every method takes `&self`, and none waits for the one writer, which is an
/// [`ActiveSegment`](crate::ActiveSegment). Readers see whole appends alone: the size moves after
/// the bytes are written. Files are opened on first use and closed when others need the room.
///
/// Source: `LogSegment` in Kafka; `docs/format/segment.md`.
#[derive(Debug)]
pub struct Segment {
    dir: Arc<PartitionDir>,
    base: Offset,
    config: Mutex<SegmentConfig>,
    /// Of each file, in the order of [`FileKind::SEGMENT`].
    suffixes: [AtomicU8; 4],
    log: Arc<PooledFile>,
    /// How many bytes hold batches. The file may be longer: preallocated, or being written.
    published: Published,
    /// An [`ActiveSegment`](crate::ActiveSegment) exists for it.
    active: AtomicBool,
    /// That of its latest writer.
    birth: Mutex<Option<Birth>>,
    /// Its files were removed: what has their names now is another segment's.
    deleted: AtomicBool,
    offset_index: Arc<IndexSlot<OffsetHints>>,
    time_index: Arc<IndexSlot<TimeHints>>,
    transaction_index: Arc<IndexSlot<TransactionIndexFile>>,
    index_style: AtomicU8,
    /// Held by who rebuilds the indexes or changes the transaction index.
    maintenance: Mutex<()>,
    largest: Mutex<Largest>,
    first_record: ArcSwapOption<FirstRecord>,
}

/// What is known of the largest timestamp.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Largest {
    /// Nothing yet: look into the time index.
    Unknown,
    /// The entry that the time index ends or would end with; `None` without any timestamp.
    Known(Option<TimeEntry>),
}

impl Segment {
    /// Opens an existing segment. Reads its length and nothing else. If it is open already, the
    /// same object is returned: there is one for each segment.
    ///
    /// # Errors
    ///
    /// `Gone` without a `.log` file, `TooLarge` above 2 GiB, `Io`.
    pub fn open(
        dir: &Arc<PartitionDir>,
        base: Offset,
        config: SegmentConfig,
    ) -> Result<Arc<Self>, SegmentError> {
        Self::open_suffixed(dir, base, Suffix::None, config)
    }

    /// Opens a segment whose files have a suffix.
    ///
    /// # Errors
    ///
    /// As [`Segment::open`].
    pub fn open_suffixed(
        dir: &Arc<PartitionDir>,
        base: Offset,
        suffix: Suffix,
        config: SegmentConfig,
    ) -> Result<Arc<Self>, SegmentError> {
        let name = SegmentFileName::new(base, FileKind::Log).with_suffix(suffix);
        let path = dir.file_path(name);
        let metadata =
            std::fs::metadata(&path).map_err(|e| SegmentError::file(IoOp::Stat, &path, e))?;
        if !metadata.is_file() {
            let source = std::io::ErrorKind::IsADirectory.into();
            return Err(SegmentError::io(IoOp::Open, path, 0, source));
        }
        let size = file_size(&path, metadata.len())?;
        dir.segment(base, suffix, || {
            let opened = Self::new(dir, base, suffix, config, size);
            #[cfg(alluvium_mutant)]
            if crate::mutant::is("unsynced-leftovers") {
                return Ok(opened);
            }
            // A process that was killed may have written them, and nobody has synced them since.
            opened.mark_indexes_unsynced();
            opened.mark_transactions_unsynced();
            Ok(opened)
        })
    }

    pub(crate) fn new(
        dir: &Arc<PartitionDir>,
        base: Offset,
        suffix: Suffix,
        config: SegmentConfig,
        size: u32,
    ) -> Self {
        Self {
            dir: Arc::clone(dir),
            base,
            config: Mutex::new(config),
            suffixes: std::array::from_fn(|_| AtomicU8::new(suffix.to_u8())),
            log: Arc::default(),
            published: Published::new(size),
            active: AtomicBool::new(false),
            birth: Mutex::new(None),
            deleted: AtomicBool::new(false),
            offset_index: Arc::default(),
            time_index: Arc::default(),
            transaction_index: Arc::default(),
            index_style: AtomicU8::new(0),
            maintenance: Mutex::new(()),
            largest: Mutex::new(Largest::Unknown),
            first_record: ArcSwapOption::empty(),
        }
    }

    /// The offset that names it. All offsets in it are at or above.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base
    }

    /// Bytes of batches in it now.
    #[must_use]
    pub fn size_bytes(&self) -> u32 {
        self.published.size()
    }

    /// Its directory.
    #[must_use]
    pub const fn dir(&self) -> &Arc<PartitionDir> {
        &self.dir
    }

    /// Where one of its files is now, whether it exists or not.
    ///
    /// # Panics
    ///
    /// For [`FileKind::Snapshot`], which belongs to no segment.
    #[must_use]
    pub fn path(&self, kind: FileKind) -> PathBuf {
        self.dir.file_path(self.name(kind))
    }

    /// Walks its batches from byte `from` on, where a batch must start, up to the present size.
    ///
    /// # Errors
    ///
    /// `Gone`, `Io` if the log cannot be opened.
    pub fn walk(&self, from: Position) -> Result<BatchWalker, SegmentError> {
        let file = self.log_file()?;
        let io = self.dir.io().clone();
        let range = (from.get(), self.size_bytes());
        Ok(BatchWalker::new(io, file, self.path(FileKind::Log), range))
    }

    /// The open log file. Stays readable after the segment is closed or deleted.
    ///
    /// # Errors
    ///
    /// `Gone` if it is no longer there: look the segment up again. `Io`.
    pub fn log_file(&self) -> Result<Arc<File>, SegmentError> {
        self.log.get(self.dir.pool(), || self.open_log())
    }

    /// The open log file, for readers beside each other.
    fn log_share(&self) -> Result<FileShare, SegmentError> {
        self.log.get_share(self.dir.pool(), || self.open_log())
    }

    /// The open log file, which stays where it is as long as the guard lives.
    pub(crate) fn log_for_write(&self) -> Result<HeldFile<'_>, SegmentError> {
        self.log.get_held(self.dir.pool(), || self.open_log())
    }

    /// Opens the log at its present place. The caller keeps it from being renamed.
    fn open_log(&self) -> Result<File, SegmentError> {
        self.check_alive()?;
        let dir = self.dir.pin();
        let path = dir.join(self.name(FileKind::Log).to_string());
        let write = !self.dir.is_read_only();
        self.dir.io().open(&path, write).map_err(|e| SegmentError::file(IoOp::Open, &path, e))
    }

    /// Whether its files were removed.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Refuses to open a file by a name that may be another segment's by now.
    pub(crate) fn check_alive(&self) -> Result<(), SegmentError> {
        if self.is_deleted() {
            return Err(SegmentError::Gone { path: self.path(FileKind::Log) });
        }
        Ok(())
    }

    /// The present name of one of its files.
    pub(crate) fn name(&self, kind: FileKind) -> SegmentFileName {
        let suffix = Suffix::from_u8(self.suffixes[slot(kind)].load(Ordering::Acquire));
        SegmentFileName::new(self.base, kind).with_suffix(suffix)
    }

    /// The suffix of its log.
    pub(crate) fn suffix(&self) -> Suffix {
        Suffix::from_u8(self.suffixes[slot(FileKind::Log)].load(Ordering::Acquire))
    }

    /// Tells the open indexes where they are now.
    pub(crate) fn dir_renamed(&self) {
        if let Some(index) = self.offset_index.opened().as_ref().and_then(|open| open.ours()) {
            index.set_path(self.path(FileKind::OffsetIndex));
        }
        if let Some(index) = self.time_index.opened().as_ref().and_then(|open| open.ours()) {
            index.set_path(self.path(FileKind::TimeIndex));
        }
        if let Some(index) = self.transaction_index.opened() {
            index.set_path(self.path(FileKind::TransactionIndex));
        }
    }

    pub(crate) const fn log(&self) -> &Arc<PooledFile> {
        &self.log
    }

    /// What its latest writer was given, for the next one to go on counting; `None` where this
    /// object had none.
    #[must_use]
    pub fn birth(&self) -> Option<Birth> {
        *self.birth.lock()
    }

    pub(crate) fn set_birth(&self, birth: Birth) {
        *self.birth.lock() = Some(birth);
    }

    pub(crate) fn config(&self) -> SegmentConfig {
        *self.config.lock()
    }

    pub(crate) fn set_config(&self, config: SegmentConfig) {
        *self.config.lock() = config;
    }

    pub(crate) fn publish_size(&self, size: u32) {
        self.published.show(size);
    }

    pub(crate) fn set_largest(&self, entry: Option<TimeEntry>) {
        *self.largest.lock() = Largest::Known(entry);
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Runs `change` while nobody can become its writer or rebuild its indexes.
    pub(crate) fn while_sealed<T>(
        &self,
        change: impl FnOnce() -> Result<T, SegmentError>,
    ) -> Result<T, SegmentError> {
        let _alone = self.maintenance.lock();
        if !self.claim_held() {
            return Err(SegmentError::Busy { path: self.path(FileKind::Log) });
        }
        let changed = change();
        self.release();
        changed
    }

    /// Takes the right to write to it, once nobody rebuilds its indexes; false if somebody has
    /// it.
    pub(crate) fn claim(&self) -> bool {
        let _alone = self.maintenance.lock();
        self.claim_held()
    }

    fn claim_held(&self) -> bool {
        !self.active.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn release(&self) {
        self.active.store(false, Ordering::Release);
    }

    /// Tells readers that what they found may be cut off meanwhile, until the guard is dropped.
    pub(crate) fn begin_truncation(&self) -> TakingBack<'_> {
        self.published.take_back()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.dir.forget(self.base);
    }
}

/// The place of a file among those of a segment.
fn slot(kind: FileKind) -> usize {
    match kind {
        FileKind::Log => 0,
        FileKind::OffsetIndex => 1,
        FileKind::TimeIndex => 2,
        FileKind::TransactionIndex => 3,
        FileKind::Snapshot => panic!("a snapshot is no file of a segment"),
    }
}
