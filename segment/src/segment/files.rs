//! Durability, names, times and the end of a segment's files.

use std::fs::{FileTimes, metadata};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use alluvium_record_format::Timestamp;

use super::{Segment, slot};
use crate::error::{IoOp, SegmentError};
use crate::names::{FileKind, Suffix};

impl Segment {
    /// Makes everything durable that was appended before the call: log, offset index, time
    /// index, transaction index. Takes no part in appends and may run beside them. A new file
    /// also needs [`PartitionDir::sync_names`](crate::PartitionDir::sync_names).
    ///
    /// # Errors
    ///
    /// `Io` or `Index` if a sync fails: the bytes may be lost although a later sync succeeds, so
    /// from now on every append and flush of this segment fails with `InDoubt`.
    pub fn flush(&self) -> Result<(), SegmentError> {
        self.flush_log()?;
        self.flush_indexes().inspect_err(|_| self.log.mark_in_doubt())
    }

    /// As [`flush`](Self::flush) for the batches alone, by one sync: recovery makes the indexes
    /// again. Two syncs of one segment must not run at a time.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn flush_log(&self) -> Result<(), SegmentError> {
        let path = || self.path(FileKind::Log);
        self.dir.lock()?;
        self.log.sync(self.dir.pool(), &path, || self.open_log())
    }

    fn flush_indexes(&self) -> Result<(), SegmentError> {
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TransactionIndex] {
            let unsynced = match kind {
                FileKind::OffsetIndex => self.offset_index.take_unsynced(),
                FileKind::TimeIndex => self.time_index.take_unsynced(),
                _ => self.transaction_index.take_unsynced(),
            };
            if unsynced {
                self.sync_index(kind)?;
            }
        }
        Ok(())
    }

    /// Syncs an index by its name: that writes what was stored through a map as well.
    fn sync_index(&self, kind: FileKind) -> Result<(), SegmentError> {
        let dir = self.dir.pin();
        let path = dir.join(self.name(kind).to_string());
        let io = self.dir.io();
        match io.open(&path, true) {
            Ok(file) => io
                .sync(&file, &|| path.clone())
                .map_err(|source| SegmentError::file(IoOp::Sync, &path, source)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(SegmentError::file(IoOp::Open, &path, error)),
        }
    }

    /// Renames all files to the same names with another suffix: log, offset index, time index,
    /// transaction index, in this order. Those who read it go on. Durable after
    /// [`PartitionDir::sync_names`](crate::PartitionDir::sync_names).
    ///
    /// # Errors
    ///
    /// `ReadOnly`; `Gone` if there is no log; `Io`. Files that were renamed before stay so.
    pub fn rename(&self, suffix: Suffix) -> Result<(), SegmentError> {
        FileKind::SEGMENT.into_iter().try_for_each(|kind| self.rename_file(kind, suffix))
    }

    /// Renames one of its files. An index that does not exist is passed over.
    pub(crate) fn rename_file(&self, kind: FileKind, suffix: Suffix) -> Result<(), SegmentError> {
        self.dir.lock()?;
        match kind {
            FileKind::Log => {
                let _gate = self.log.hold();
                self.rename_held(kind, suffix).map(drop)
            }
            FileKind::OffsetIndex => {
                let gate = self.offset_index.hold();
                let path = self.rename_held(kind, suffix)?;
                let opened = gate.upgrade();
                if let Some(index) = opened.as_ref().and_then(|hints| hints.ours()) {
                    index.set_path(path);
                }
                Ok(())
            }
            FileKind::TimeIndex => {
                let gate = self.time_index.hold();
                let path = self.rename_held(kind, suffix)?;
                let opened = gate.upgrade();
                if let Some(index) = opened.as_ref().and_then(|hints| hints.ours()) {
                    index.set_path(path);
                }
                Ok(())
            }
            FileKind::TransactionIndex => {
                let gate = self.transaction_index.hold();
                let path = self.rename_held(kind, suffix)?;
                if let Some(index) = gate.upgrade() {
                    index.set_path(path);
                }
                Ok(())
            }
            FileKind::Snapshot => Ok(()),
        }
    }

    /// Renames a file that nobody can open meanwhile, and returns its new path.
    fn rename_held(&self, kind: FileKind, suffix: Suffix) -> Result<PathBuf, SegmentError> {
        let dir = self.dir.pin();
        let from = dir.join(self.name(kind).to_string());
        let to = dir.join(self.name(kind).with_suffix(suffix).to_string());
        match self.dir.io().rename(&from, &to) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound && kind != FileKind::Log => {}
            Err(error) => return Err(SegmentError::file(IoOp::Rename, &from, error)),
        }
        self.suffixes[slot(kind)].store(suffix.to_u8(), Ordering::Release);
        self.dir.names_changed();
        Ok(to)
    }

    /// Removes all files. Slices that were handed out stay readable; everything else about the
    /// segment fails from now on. Files that are not there are passed over.
    ///
    /// # Errors
    ///
    /// `ReadOnly`, `Io`.
    pub fn delete_files(&self) -> Result<(), SegmentError> {
        self.dir.lock()?;
        let mut log = self.log.hold();
        if self.is_deleted() {
            return Ok(());
        }
        self.log.close(&mut log);
        for kind in FileKind::SEGMENT {
            let path = self.path(kind);
            match self.dir.io().remove(&path) {
                Ok(()) => self.dir.names_changed(),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(SegmentError::file(IoOp::Remove, &path, error)),
            }
        }
        self.deleted.store(true, Ordering::Release);
        Ok(())
    }

    /// When the log was last written to, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// `Gone`, `Io`.
    pub fn modified(&self) -> Result<Timestamp, SegmentError> {
        let path = self.path(FileKind::Log);
        let modified = metadata(&path)
            .and_then(|metadata| metadata.modified())
            .map_err(|source| SegmentError::file(IoOp::Stat, &path, source))?;
        let ms = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Ok(Timestamp::new(match modified.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => ms(after),
            Err(before) => ms(before.duration()).saturating_neg(),
        }))
    }

    /// Sets the time that [`Segment::modified`] returns, on the log and both mapped indexes:
    /// segments that take the place of others keep their age. To be called last, as every write
    /// sets the time again.
    ///
    /// # Errors
    ///
    /// `ReadOnly`, `Gone`, `Io`.
    pub fn set_modified(&self, time: Timestamp) -> Result<(), SegmentError> {
        self.dir.lock()?;
        let span = Duration::from_millis(time.get().unsigned_abs());
        let time = if time.get() < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(span)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(span)
        };
        let times = FileTimes::new().set_modified(time.unwrap_or(SystemTime::UNIX_EPOCH));
        for kind in [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex] {
            let path = self.path(kind);
            let set = self.dir.io().open(&path, true).and_then(|file| file.set_times(times));
            match set {
                Err(e) if e.kind() == ErrorKind::NotFound && kind != FileKind::Log => {}
                other => other.map_err(|e| SegmentError::file(IoOp::SetTime, &path, e))?,
            }
        }
        Ok(())
    }
}
