//! Durability: everything below the recovery point is on the disk.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use alluvium_record_format::Offset;
use alluvium_recovery::SnapshotStore;
use alluvium_segment::SegmentError;
use tracing::Span;
use tracing::field::Empty;

use super::append::offset_after;
use super::segments::bytes_of;
use super::{Log, LogError, Shared, Writer};

impl Log {
    /// Makes everything that was appended before the call durable, and moves the recovery point
    /// there. With `inclusive`, also the files of an active segment without records.
    ///
    /// Runs beside appends and reads; a second flush waits for the first. The recovery point stays
    /// where it is once the transaction index did not take an entry: recovery makes it.
    ///
    /// Source: `UnifiedLog.flush` in Kafka.
    ///
    /// # Errors
    ///
    /// A failed sync takes the log directory offline: the bytes may be lost although a later
    /// sync succeeds.
    pub fn flush(&self, inclusive: bool) -> Result<(), LogError> {
        self.shared.check_open()?;
        let end = self.log_end_offset();
        self.shared.flush(if inclusive { offset_after(end, 1) } else { end }, end)
    }
}

impl Log {
    /// Flushes if records have been waiting for `flush.ms`; returns whether it did. To be called
    /// now and then.
    ///
    /// Source: `LogManager.flushDirtyLogs` in Kafka.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn flush_if_due(&self) -> Result<bool, LogError> {
        let shared = &self.shared;
        let now = shared.clock.now().get();
        let waited = now.saturating_sub(shared.last_flush_ms.load(Ordering::Acquire));
        // Also where the clock was set back by as much: it may take as long to be there again.
        let due = waited.unsigned_abs() >= shared.config.load().flush_ms();
        if due {
            self.flush(false)?;
        }
        Ok(due)
    }
}

impl Shared {
    /// Makes everything below `offset` durable.
    pub(super) fn flush_to(&self, offset: Offset) -> Result<(), LogError> {
        self.flush(offset, offset)
    }

    /// Makes everything durable that was appended before the call.
    pub(super) fn flush_all(&self) -> Result<(), LogError> {
        let end = self.log_end();
        self.flush(end, end)
    }

    /// Makes the segments below `offset` durable, then moves the recovery point to
    /// `new_recovery_point`.
    pub(super) fn flush(&self, offset: Offset, new_recovery_point: Offset) -> Result<(), LogError> {
        let mut unsynced = self.flushing.lock();
        self.health.check()?;
        // Also where no record waits: what the snapshot knows may lie in no segment any more.
        self.sync_snapshots(&mut unsynced)?;
        let before = Offset::new(self.flushed.load(Ordering::Acquire));
        if offset <= before {
            // What held it back may be gone by now.
            self.raise_recovery_point(&self.writer.lock(), new_recovery_point.min(before));
            return Ok(());
        }
        // The end of now: what is appended from here on may come behind the syncs. What is there
        // stays, as a truncation waits for the flush lock.
        let target = new_recovery_point.min(self.log_end());
        let started = Instant::now();
        let span = self.flush_span(before, target).entered();
        self.sync_files(&mut unsynced)?;
        let segments = self.segments.load_full();
        let dirty = segments.values(before, offset);
        span.record("segments", dirty.clone().count()).record("bytes", bytes_of(dirty.clone()));
        for segment in dirty {
            match segment.flush() {
                // Deleted meanwhile: nothing of it is to be kept.
                Ok(()) | Err(SegmentError::Gone { .. }) => {}
                Err(source) => return Err(self.disk_failed(LogError::Segment { source })),
            }
        }
        self.sync_names()?;
        self.write_epochs_locked()?;
        let took = started.elapsed();
        crate::metrics::flushed(took);
        tracing::debug!(log = self.name(), to = target.get(), ?took, "flushed");
        self.raise_recovery_point(&self.writer.lock(), target);
        self.flushed.fetch_max(target.get(), Ordering::AcqRel);
        self.commits.raise(target);
        self.last_flush_ms.store(self.clock.now().get(), Ordering::Release);
        Ok(())
    }

    /// Moves the recovery point up to `target`, below which everything is synced.
    fn raise_recovery_point(&self, writer: &Writer, target: Offset) {
        // What only recovery mends lies above the recovery point, and no recovery looks below.
        // Noted under the lock that is held here, before any flush moves past it. One that was
        // cut away since, or lies below the log start, holds nothing back.
        let start = self.log_start();
        if writer.unindexed.iter().all(|txn| txn.last_offset < start) {
            self.recovery_point.fetch_max(target.get(), Ordering::AcqRel);
        }
    }

    fn flush_span(&self, from: Offset, to: Offset) -> Span {
        let (from, to) = (from.get(), to.get());
        tracing::info_span!("flush", log = self.name(), from, to, segments = Empty, bytes = Empty)
    }

    /// Makes everything durable that is known of the producers, so that records of theirs may go.
    pub(super) fn keep_producers(&self) -> Result<(), LogError> {
        let mut unsynced = self.flushing.lock();
        self.health.check()?;
        if self.sync_snapshots(&mut unsynced)? || !unsynced.is_empty() {
            self.sync_files(&mut unsynced)?;
            self.sync_names()?;
        }
        Ok(())
    }

    /// Makes the name of a new segment durable, so that all before it may go: without any, a log
    /// begins anew at offset 0.
    pub(super) fn keep_last_name(&self) -> Result<(), LogError> {
        let _one_at_a_time = self.flushing.lock();
        self.health.check()?;
        self.sync_names()
    }

    /// Makes the snapshots durable that rolls have written; returns whether there were any.
    fn sync_snapshots(&self, unsynced: &mut Vec<PathBuf>) -> Result<bool, LogError> {
        #[cfg(alluvium_mutant)]
        if alluvium_segment::mutant::is("unsynced-snapshots") {
            return Ok(false);
        }
        let mut writer = self.writer.lock();
        let offsets = std::mem::take(&mut writer.unsynced_snapshots);
        let there = offsets.iter().filter(|offset| writer.snapshots.offsets().contains(offset));
        let paths = there.map(|offset| writer.snapshots.path(*offset));
        let mut snapshots: Vec<_> = paths.collect();
        drop(writer);
        let are_some = !snapshots.is_empty();
        let synced = self.sync_files(&mut snapshots);
        unsynced.append(&mut snapshots);
        synced?;
        if are_some {
            // A later call finds none to sync, and relies on the names.
            self.sync_names()?;
        }
        Ok(are_some)
    }

    /// Makes files durable that were written as a whole.
    pub(super) fn sync_files(&self, files: &mut Vec<PathBuf>) -> Result<(), LogError> {
        let io = self.dir.io();
        while let Some(path) = files.pop() {
            let Some(name) = path.file_name() else { continue };
            let is_gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
            let synced = self.by_path(is_gone, |dir| {
                let path = dir.join(name);
                io.open(&path, true).and_then(|file| io.sync(&file, &|| path.clone()))
            });
            match synced {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    let source = error;
                    return Err(self.disk_failed(LogError::Directory { path, source }));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Works by the path of the directory, again where it got another one meanwhile: a copy that
    /// takes the name of its log is written to and flushed on. Only what is deleted stays gone.
    pub(super) fn by_path<E>(
        &self,
        is_gone: impl Fn(&E) -> bool,
        work: impl Fn(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let path = self.dir.path();
            match work(&path) {
                Err(error) if is_gone(&error) && self.dir.path() != path => {}
                done => return done,
            }
        }
    }

    /// Makes the names of new files durable.
    pub(super) fn sync_names(&self) -> Result<(), LogError> {
        match self.dir.sync_names() {
            Ok(()) | Err(SegmentError::Gone { .. }) => Ok(()),
            Err(SegmentError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(self.disk_failed(LogError::Segment { source })),
        }
    }
}
