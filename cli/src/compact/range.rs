//! From where to where a partition is cleaned, and why.

use alluvium_record_format::{Offset, ProducerId};
use alluvium_recovery::{CheckpointKind, OffsetCheckpoint};
use alluvium_segment::Io;

use crate::error::CliError;
use crate::log_end::LogEnd;
use crate::partition::Partition;

/// The range that can be cleaned.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) first_dirty: Offset,
    pub(super) begin: Begin,
    /// The base of the first segment that stays as it is.
    pub(super) first_uncleanable: Offset,
    /// What ends the range, before it is cut to whole segments.
    pub(super) bound: Offset,
    pub(super) end: End,
    pub(super) high_watermark: Offset,
}

/// Why cleaning begins where it does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Begin {
    /// The cleaner's checkpoint says so.
    Checkpoint,
    /// There is no checkpoint.
    LogStart,
    /// The checkpoint lies outside the log.
    Outside(Offset),
}

/// Why cleaning ends where it does.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    ActiveSegment,
    HighWatermark,
    OpenTransaction(ProducerId),
}

impl Range {
    /// The range of a partition that ends so.
    pub(super) fn of(
        partition: &Partition,
        log_start: Offset,
        ends: &LogEnd,
    ) -> Result<Self, CliError> {
        let (begin, first_dirty) = match checkpoint(partition, CheckpointKind::Cleaner)? {
            None => (Begin::LogStart, log_start),
            Some(found) if found < log_start || found > ends.end => {
                (Begin::Outside(found), log_start)
            }
            Some(found) => (Begin::Checkpoint, found),
        };
        let stated = checkpoint(partition, CheckpointKind::HighWatermark)?;
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
        Ok(Self { first_dirty, begin, first_uncleanable, bound, end, high_watermark })
    }
}

/// What a checkpoint of the log directory says of the partition.
fn checkpoint(partition: &Partition, kind: CheckpointKind) -> Result<Option<Offset>, CliError> {
    let absolute =
        std::fs::canonicalize(&partition.path).map_err(CliError::io("open", &partition.path))?;
    let (Some(key), Some(log_dir)) = (partition.key(), absolute.parent()) else { return Ok(None) };
    match OffsetCheckpoint::read(&Io::new(), kind, log_dir) {
        Ok(checkpoint) => Ok(checkpoint.offset(&key)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(source) => Err(CliError::File { source }),
    }
}
