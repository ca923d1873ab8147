//! From where to where a partition is cleaned, and why.

use alluvium_record_format::{Offset, ProducerId};
use alluvium_recovery::CheckpointKind;

use crate::console::Console;
use crate::error::CliError;
use crate::log_end::LogEnd;
use crate::partition::Partition;

/// The range that can be cleaned.
#[derive(Clone, Debug)]
pub(crate) struct CleaningRange {
    pub(crate) first_dirty: Offset,
    pub(crate) begin: Begin,
    /// The base of the first segment that stays as it is.
    pub(crate) first_uncleanable: Offset,
    /// What ends the range, before it is cut to whole segments.
    pub(crate) bound: Offset,
    pub(crate) end: End,
    pub(crate) high_watermark: Offset,
    /// Bytes of the segments that were cleaned before.
    pub(crate) clean_bytes: u64,
    /// Bytes of the segments that can be cleaned now.
    pub(crate) cleanable_bytes: u64,
}

/// Why cleaning begins where it does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin {
    /// The cleaner's checkpoint says so.
    Checkpoint,
    /// There is no checkpoint.
    LogStart,
    /// The checkpoint lies outside the log.
    Outside(Offset),
}

/// Why cleaning ends where it does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    ActiveSegment,
    HighWatermark,
    OpenTransaction(ProducerId),
    /// The segment there has records that are younger than so many milliseconds.
    Young(u64),
}

impl CleaningRange {
    /// The range of a partition that ends so.
    pub(crate) fn of(
        partition: &Partition,
        log_start: Offset,
        ends: &LogEnd,
    ) -> Result<Self, CliError> {
        let (begin, first_dirty) = match partition.noted(CheckpointKind::Cleaner)? {
            None => (Begin::LogStart, log_start),
            Some(found) if found < log_start || found > ends.end => {
                (Begin::Outside(found), log_start)
            }
            Some(found) => (Begin::Checkpoint, found),
        };
        let stated = partition.noted(CheckpointKind::HighWatermark)?;
        let high_watermark = stated.map_or(ends.end, |stated| stated.min(ends.end));
        let bases: Vec<Offset> = partition.logs().map(|(files, _)| files.base).collect();
        let active = bases.last().copied().unwrap_or(log_start);
        let mut end = End::ActiveSegment;
        let mut bound = active;
        if high_watermark < bound {
            (end, bound) = (End::HighWatermark, high_watermark);
        }
        if ends.last_stable < bound {
            let first = ends.open.iter().min_by_key(|(_, offset)| **offset);
            let producer = first.map_or(ProducerId::new(-1), |(id, _)| *id);
            (end, bound) = (End::OpenTransaction(producer), ends.last_stable);
        }
        let whole = bases.iter().rev().find(|base| **base <= bound).copied();
        let first_uncleanable = whole.unwrap_or(log_start);
        let from = first_dirty.min(first_uncleanable);
        Ok(Self {
            first_dirty,
            begin,
            first_uncleanable,
            bound,
            end,
            high_watermark,
            clean_bytes: bytes_between(partition, Offset::new(0), first_dirty),
            cleanable_bytes: bytes_between(partition, from, first_uncleanable),
        })
    }

    /// As [`of`](Self::of). Where a checkpoint is damaged, that is named and the range not known.
    pub(crate) fn if_known(
        partition: &Partition,
        log_start: Offset,
        ends: &LogEnd,
        console: &mut Console,
    ) -> Result<Option<Self>, CliError> {
        match Self::of(partition, log_start, ends) {
            Err(CliError::File { source }) if source.damage().is_some() => {
                console.shared_file_error(source)?;
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Leaves the segment with this base and all after it: it has records younger than
    /// `min.compaction.lag.ms`.
    pub(crate) fn stop_at_young(&mut self, base: Offset, lag_ms: u64, partition: &Partition) {
        if base >= self.bound {
            return;
        }
        (self.end, self.bound) = (End::Young(lag_ms), base);
        self.first_uncleanable = self.first_uncleanable.min(base);
        let from = self.first_dirty.min(self.first_uncleanable);
        self.cleanable_bytes = bytes_between(partition, from, self.first_uncleanable);
    }

    /// The part of these bytes, 0 to 1, that can be cleaned: what Kafka compares with
    /// `min.cleanable.dirty.ratio`. `None` where there are none.
    ///
    /// Source: `LogToClean.cleanableRatio` in Kafka.
    #[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
    pub(crate) fn dirty_ratio(&self) -> Option<f64> {
        let total = self.clean_bytes + self.cleanable_bytes;
        (total > 0).then(|| self.cleanable_bytes as f64 / total as f64)
    }
}

/// Bytes of the segments from the one that may hold `from` on, as far as they begin below `to`.
///
/// Source: `UnifiedLog.logSegments(from, to)` in Kafka.
fn bytes_between(partition: &Partition, from: Offset, to: Offset) -> u64 {
    let floor = partition.logs().map(|(files, _)| files.base).rfind(|base| *base <= from);
    let floor = floor.unwrap_or(from);
    let logs = partition.logs().filter(|(files, _)| (floor..to).contains(&files.base));
    if from < to { logs.map(|(_, log)| log.bytes).sum() } else { 0 }
}
