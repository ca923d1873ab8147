//! The one writer of a segment.

mod ahead;
mod append;
mod roll;
mod truncate;

use std::io::ErrorKind;
use std::sync::Arc;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_sparse_index::{DueEntries, IndexError, IndexRule, Refusal};

use crate::config::SegmentConfig;
use crate::error::{IoOp, SegmentError};
use crate::names::{FileKind, SegmentFileName, Suffix};
use crate::partition_dir::PartitionDir;
use crate::segment::{OffsetHints, Segment, TimeHints};

use ahead::BlocksAhead;
pub(crate) use ahead::has_blocks_ahead;
pub use roll::{RollInput, RollReason};

/// When a segment object came to be, as its log wants to count: for rolling by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Birth {
    /// The present time.
    pub now: Timestamp,
    /// Milliseconds by which it rolls early, drawn once per segment so that not all logs roll at
    /// once (`segment.jitter.ms`).
    pub roll_jitter_ms: i64,
}

impl Birth {
    /// A segment made or opened `now`, without jitter.
    #[must_use]
    pub const fn at(now: Timestamp) -> Self {
        Self { now, roll_jitter_ms: 0 }
    }

    /// Sets the jitter.
    #[must_use]
    pub const fn roll_jitter_ms(self, ms: i64) -> Self {
        Self { roll_jitter_ms: ms, ..self }
    }
}

/// The one writer of a segment, and what only the writer knows.
///
/// Readers share the [`Segment`] behind it and never wait for it. Dropped without
/// [`ActiveSegment::seal`], it leaves the files as a crash would, with blocks on the disk behind
/// the end of the log, if there are any: recovery gives them back, or the next writer that is
/// sealed.
#[derive(Debug)]
pub struct ActiveSegment {
    segment: Arc<Segment>,
    config: SegmentConfig,
    birth: Birth,
    first_timestamp: FirstTimestamp,
    rule: IndexRule,
    /// The last offset of the last batch.
    last_offset: Option<Offset>,
    indexes: Option<Indexes>,
    /// Neither index was full when it was looked at, and none has got an entry since.
    indexes_have_room: bool,
    /// An index did not take an entry: both are built again when the segment is sealed.
    indexes_lag: bool,
    /// Appends go around the page cache.
    uncached: bool,
    ahead: BlocksAhead,
    /// Memory for the entries of one append.
    due: Vec<DueEntries>,
}

/// The largest timestamp of the first batch.
#[derive(Clone, Copy, Debug)]
enum FirstTimestamp {
    /// Nobody asked yet.
    Unknown,
    Known(Option<Timestamp>),
}

/// The indexes of an active segment: open, with room.
#[derive(Clone, Debug)]
struct Indexes {
    offset: Arc<OffsetHints>,
    time: Arc<TimeHints>,
}

impl ActiveSegment {
    /// Makes the files of an empty segment. Indexes are made with the first entry.
    ///
    /// Left-over index files of the same name are removed, and an empty `.log` is taken over.
    ///
    /// # Errors
    ///
    /// `ReadOnly`; `Io` with `AlreadyExists` if there is a `.log` with bytes in it, or one that is
    /// no file.
    pub fn create(
        dir: &Arc<PartitionDir>,
        base: Offset,
        config: SegmentConfig,
        birth: Birth,
    ) -> Result<Self, SegmentError> {
        Self::create_suffixed(dir, base, Suffix::None, config, birth)
    }

    /// As [`ActiveSegment::create`], for files that will take the place of others.
    ///
    /// # Errors
    ///
    /// As [`ActiveSegment::create`].
    pub fn create_suffixed(
        dir: &Arc<PartitionDir>,
        base: Offset,
        suffix: Suffix,
        config: SegmentConfig,
        birth: Birth,
    ) -> Result<Self, SegmentError> {
        dir.lock()?;
        let name = SegmentFileName::new(base, FileKind::Log).with_suffix(suffix);
        let path = dir.file_path(name);
        let io = dir.io();
        let fail = |op| {
            let path = path.clone();
            move |source| SegmentError::file(op, &path, source)
        };
        // Looked at before it is opened: to open a pipe waits, and a device may do anything.
        if std::fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(fail(IoOp::Create)(ErrorKind::AlreadyExists.into()));
        }
        let file = io.open_or_create(&path).map_err(fail(IoOp::Create))?;
        let found = file.metadata().map_err(fail(IoOp::Stat))?.len();
        if found > 0 {
            return Err(fail(IoOp::Create)(ErrorKind::AlreadyExists.into()));
        }
        remove_indexes(dir, name)?;
        if let Some(bytes) = config.preallocate_bytes {
            io.set_len(&file, &|| path.clone(), bytes.into()).map_err(fail(IoOp::SetLen))?;
        }
        dir.names_changed();
        let make = || Ok(Segment::new(dir, base, suffix, config, 0));
        let segment = dir.segment(base, suffix, make)?;
        segment.log().adopt(dir.pool(), file);
        segment.set_largest(None);
        Self::over(segment, config, birth)
    }

    /// Opens an existing segment to go on writing to it.
    ///
    /// # Errors
    ///
    /// As [`ActiveSegment::reopen`] and [`Segment::open`].
    pub fn open(
        dir: &Arc<PartitionDir>,
        base: Offset,
        config: SegmentConfig,
        birth: Birth,
    ) -> Result<Self, SegmentError> {
        dir.lock()?;
        Self::reopen(Segment::open(dir, base, config)?, config, birth)
    }

    /// Goes on writing to a segment that was sealed.
    ///
    /// # Errors
    ///
    /// `Busy` if it has a writer; `ReadOnly`; `Corrupt` if there are bytes behind the last whole
    /// batch, which [`Segment::recover`] cuts off: an append behind them would never be found.
    pub fn reopen(
        segment: Arc<Segment>,
        config: SegmentConfig,
        birth: Birth,
    ) -> Result<Self, SegmentError> {
        segment.dir().lock()?;
        let tail = segment.tail()?;
        if let Some(damage) = tail.damage {
            return Err(SegmentError::corrupt(segment.path(FileKind::Log), damage));
        }
        let last_offset = Offset::new(tail.next_offset.get().saturating_sub(1));
        let not_empty = segment.size_bytes() > 0;
        let largest = if not_empty { segment.max_timestamp()? } else { None };
        let mut active = Self::over(segment, config, birth)?;
        active.ahead = BlocksAhead::of_reopened(&config);
        active.last_offset = not_empty.then_some(last_offset);
        active.rule = IndexRule::resume(config.index_interval_bytes, largest);
        Ok(active)
    }

    fn over(
        segment: Arc<Segment>,
        config: SegmentConfig,
        birth: Birth,
    ) -> Result<Self, SegmentError> {
        if !segment.claim() {
            return Err(SegmentError::Busy { path: segment.path(FileKind::Log) });
        }
        segment.set_config(config);
        segment.set_birth(birth);
        segment.drop_index_copies();
        Ok(Self {
            segment,
            config,
            birth,
            first_timestamp: FirstTimestamp::Unknown,
            rule: IndexRule::new(config.index_interval_bytes),
            last_offset: None,
            indexes: None,
            indexes_have_room: false,
            indexes_lag: false,
            uncached: false,
            ahead: BlocksAhead::of(&config),
            due: Vec::new(),
        })
    }

    /// Ends the segment: gives the time index its final entry and cuts all files to what is in
    /// them. Syncs nothing. Readers go on with the same object.
    ///
    /// Source: `LogSegment.onBecomeInactiveSegment` in Kafka; `docs/format/segment.md#seal`.
    ///
    /// # Errors
    ///
    /// `Io`, `Index`. The segment is then as a crash would leave it.
    pub fn seal(mut self) -> Result<Arc<Segment>, SegmentError> {
        let indexes = self.indexes()?.clone();
        if let (Some(time), Some(entry)) = (indexes.time.mapped(), self.rule.max_timestamp()) {
            match time.append_final(entry) {
                Err(error) if error.refusal().is_some() => self.indexes_lag = true,
                other => drop(other.map_err(SegmentError::index)?),
            }
        }
        if let Some(offset) = indexes.offset.mapped() {
            offset.trim_to_valid_size().map_err(SegmentError::index)?;
        }
        if let Some(time) = indexes.time.mapped() {
            time.trim_to_valid_size().map_err(SegmentError::index)?;
        }
        drop(indexes);
        self.segment.mark_indexes_unsynced();
        self.cut_to_size()?;
        let segment = Arc::clone(&self.segment);
        let lag = self.indexes_lag;
        drop(self);
        if lag {
            segment.rebuild_indexes()?;
        }
        Ok(segment)
    }

    /// The segment, to share with readers.
    #[must_use]
    pub const fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The offset after its last batch; its base offset while it is empty.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        let after = |last: Offset| Offset::new(last.get().saturating_add(1));
        self.last_offset.map_or(self.segment.base_offset(), after)
    }

    /// Its settings.
    #[must_use]
    pub const fn config(&self) -> SegmentConfig {
        self.config
    }

    /// Opens the indexes, or makes them, with room for appends.
    fn indexes(&mut self) -> Result<&Indexes, SegmentError> {
        if self.indexes.is_none() {
            self.indexes = Some(self.open_indexes()?);
        }
        self.indexes
            .as_ref()
            .ok_or_else(|| SegmentError::Gone { path: self.segment.path(FileKind::OffsetIndex) })
    }

    fn open_indexes(&self) -> Result<Indexes, SegmentError> {
        let (offset, time) = self.segment.pin_indexes()?;
        let max_bytes = self.config.max_index_bytes;
        if let Some(index) = offset.mapped() {
            has_room(index.resize(max_bytes))?;
        }
        if let Some(index) = time.mapped() {
            has_room(index.resize(max_bytes))?;
        }
        Ok(Indexes { offset, time })
    }

    /// Cuts the log file behind the last batch, if it is longer or has blocks there.
    fn cut_to_size(&mut self) -> Result<(), SegmentError> {
        let segment = &self.segment;
        // Held, as for a write: the pool, syncing beside it, would take the cut for durable.
        let file = segment.log_for_write()?;
        let path = segment.path(FileKind::Log);
        let size = u64::from(segment.size_bytes());
        let found = file.metadata().map_err(|e| SegmentError::file(IoOp::Stat, &path, e))?;
        if found.len() == size && !self.ahead.are_given(&found) {
            return Ok(());
        }
        let cut = segment.dir().io().set_len(&file, &|| path.clone(), size);
        segment.log().mark_unsynced();
        drop(file);
        cut.map_err(|source| SegmentError::file(IoOp::SetLen, &path, source))?;
        self.ahead = BlocksAhead::of(&self.config);
        Ok(())
    }
}

impl Drop for ActiveSegment {
    fn drop(&mut self) {
        self.indexes = None;
        self.segment.unpin_indexes();
        self.segment.release();
    }
}

/// What came of making room. More entries than the maximum now allows are no failure: the index
/// is full then.
fn has_room(resized: Result<bool, IndexError>) -> Result<(), SegmentError> {
    match resized {
        Err(error) if !matches!(error.refusal(), Some(Refusal::Length { .. })) => {
            Err(SegmentError::index(error))
        }
        _ => Ok(()),
    }
}

/// Removes left-over indexes of the segment with this log.
fn remove_indexes(dir: &PartitionDir, log: SegmentFileName) -> Result<(), SegmentError> {
    for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TransactionIndex] {
        let path = dir.file_path(SegmentFileName { kind, ..log });
        match dir.io().remove(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(SegmentError::file(IoOp::Remove, &path, error));
            }
            _ => {}
        }
    }
    Ok(())
}
