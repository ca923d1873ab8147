//! One cleaning of one log in service.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use alluvium_log_manager::{Log, LogError};
use alluvium_record_format::Timestamp;
use alluvium_recovery::TopicPartition;
use alluvium_segment::replace::Replacement;
use alluvium_segment::{FileKind, Segment, SegmentError};

use super::candidate::Candidate;
use super::gate::Turn;
use super::stats::Run;
use super::{Outcome, Shared, metrics};
use crate::clean::{CleanReport, Cleaner, Progress};
use crate::error::CleanError;
use crate::host::CleanHost;
use crate::options::CleanerConfig;

/// The memory of one thread.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// Which thread; ticks are 0.
    pub(super) number: usize,
    cleaner: Option<(CleanerConfig, Cleaner)>,
}

impl Worker {
    pub(super) const fn new(number: usize) -> Self {
        Self { number, cleaner: None }
    }

    /// The cleaner, made anew where its memory is to be another.
    fn cleaner(&mut self, config: CleanerConfig) -> &mut Cleaner {
        let kept = self.cleaner.take().filter(|(of, _)| *of == config);
        let kept = kept.unwrap_or_else(|| (config, Cleaner::new(config)));
        &mut self.cleaner.insert(kept).1
    }
}

impl Shared {
    /// Cleans a log whose turn it is.
    pub(super) fn clean(
        &self,
        candidate: &Candidate,
        turn: &Turn<'_>,
        worker: &mut Worker,
        now: Timestamp,
    ) -> Outcome {
        let Candidate { partition, range, .. } = candidate;
        let span = tracing::info_span!(
            "clean",
            %partition,
            first_dirty = range.first_dirty.get(),
            first_uncleanable = range.first_uncleanable.get(),
            dirty_ratio = range.ratio(),
        );
        let _entered = span.enter();
        let started = Instant::now();
        let cleaned = guarded(|| self.run(candidate, turn, worker, now));
        if cleaned.is_err() {
            // A panic may have left anything in the memory.
            worker.cleaner = None;
        }
        match cleaned {
            Ok(report) => {
                let run = Run::new(&report, worker.capacity(), started.elapsed(), range, now);
                metrics::cleaned(&report, started.elapsed());
                self.stats.ran(worker.number, run);
                self.unmark(partition);
                tracing::info!(
                    next_dirty = report.next_dirty_offset.get(),
                    bytes_read = report.counts.bytes_read,
                    bytes_written = report.counts.bytes_written,
                    "cleaned"
                );
                Outcome::Cleaned(Box::new(report))
            }
            Err(error) => self.failed(partition, error),
        }
    }

    fn run(
        &self,
        candidate: &Candidate,
        turn: &Turn<'_>,
        worker: &mut Worker,
        now: Timestamp,
    ) -> Result<CleanReport, CleanError> {
        let options = candidate.options(now)?;
        let mut host = InService { shared: self, turn, log: &candidate.log };
        let cleaner = worker.cleaner(self.config.read().of_a_thread());
        let report = cleaner.clean(&candidate.view.segments, &options, &mut host);
        let report = report.map_err(|error| disk_failed(&candidate.log, error))?;
        self.set_checkpoint(&candidate.partition, report.next_dirty_offset)?;
        Ok(report)
    }

    /// Decides what an error means for its log.
    ///
    /// Source: `LogCleaner.CleanerThread.cleanLog` in Kafka.
    pub(super) fn failed(&self, partition: &TopicPartition, error: CleanError) -> Outcome {
        let log = self.logs.log(partition);
        // Nobody dropped the segment: its file is missing. Tried again at once, it would keep the
        // cleaner from all other logs.
        let is_missing =
            matches!(&error, CleanError::Segment { source: SegmentError::Gone { .. } })
                && log.as_ref().is_ok_and(is_file_missing);
        match error {
            CleanError::Log { source: LogError::Offline { .. } } => {
                metrics::failed();
                self.stats.failed();
                Outcome::DiskFailed(Arc::new(error))
            }
            error if log.is_err() => {
                tracing::info!(%partition, %error, "the log went before its cleaning ended");
                Outcome::Stopped
            }
            error if error.is_stop() && !is_missing => {
                tracing::info!(%partition, %error, "the cleaning ended");
                Outcome::Stopped
            }
            error => {
                metrics::failed();
                self.stats.failed();
                Outcome::Failed(self.mark(partition, error))
            }
        }
    }
}

impl Worker {
    fn capacity(&self) -> usize {
        self.cleaner.as_ref().map_or(0, |(_, cleaner)| cleaner.map_capacity())
    }
}

/// A log that is read and written meanwhile.
struct InService<'a> {
    shared: &'a Shared,
    turn: &'a Turn<'a>,
    log: &'a Log,
}

impl CleanHost for InService<'_> {
    fn progress(&mut self, progress: Progress) -> Result<(), CleanError> {
        metrics::moved(progress);
        let compacts = self.log.config().cleanup_policy().compacts();
        if !compacts || self.turn.must_stop() {
            return Err(CleanError::Stopped);
        }
        let wait = self.shared.throttle.after(progress.read.saturating_add(progress.written));
        if !wait.is_zero() && self.turn.wait(wait) {
            return Err(CleanError::Stopped);
        }
        Ok(())
    }

    fn replace(&mut self, replacement: Replacement) -> Result<(), CleanError> {
        self.log.replace_segments(replacement).map_err(|source| CleanError::Log { source })
    }
}

/// Takes the disk of the log offline that was read or written, where that has failed. Not by name:
/// the log of this partition may lie on another disk by now.
pub(super) fn disk_failed(log: &Log, error: CleanError) -> CleanError {
    match error {
        CleanError::Segment { source } if CleanError::is_disk(&source) => {
            CleanError::Log { source: log.dir_failed(source) }
        }
        error => error,
    }
}

/// Whether the log file of a segment is not there, though the log still has the segment.
fn is_file_missing(log: &Log) -> bool {
    let segments = || log.cleaning_view().map_or_else(|_closed| Vec::new(), |view| view.segments);
    let missing = |segment: &Arc<Segment>| !segment.path(FileKind::Log).exists();
    let missing: Vec<_> = segments().into_iter().filter(missing).collect();
    // What was dropped in that moment is not in the list any more.
    segments().iter().any(|segment| missing.iter().any(|other| Arc::ptr_eq(segment, other)))
}

/// Turns a panic into an error, so that one log does not end the cleaning of all others.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, CleanError>) -> Result<T, CleanError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(CleanError::Panicked))
}
