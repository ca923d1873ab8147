//! The page cache stays as it was found: nobody who reads the log is to lose its pages to a
//! cleaning.

use std::ops::Range;
use std::sync::Arc;

use alluvium_record_format::{Batch, CorruptKind, Corruption, Entry, Offset, Position};
use alluvium_segment::page_cache::drop_pages;
use alluvium_segment::{BatchWalker, Segment};

use crate::error::CleanError;

/// Walks the batches of a segment, checksums compared. Pages that are not in memory do not stay.
pub(crate) fn walk(segment: &Segment, from: Position) -> Result<BatchWalker, CleanError> {
    let walker = segment.walk(from).map_err(CleanError::segment)?;
    Ok(walker.verifying().uncached())
}

/// Whether half of a log is in memory, so that what comes of it stays there too. Also where the
/// system does not tell.
pub(crate) fn is_cached(segment: &Segment) -> bool {
    let Ok(found) = segment.residency() else { return true };
    2 * found.resident_count() >= found.page_count
}

/// Lets go of pages that were synced. What stays costs memory and is no fault.
pub(crate) fn let_go(segment: &Segment, bytes: &[Range<u64>]) {
    let Ok(log) = segment.log_file() else { return };
    for range in bytes {
        drop(drop_pages(&log, range));
    }
}

/// Holds a walk to what no checksum covers, that offsets begin in their segment, rise, and end
/// before the next one; and to a count in each batch that does not hide what it holds.
#[derive(Debug)]
pub(crate) struct Rising {
    /// All that comes lies above.
    last: Offset,
    end: Option<Offset>,
}

impl Rising {
    /// For a segment among all of its log.
    pub(crate) fn within(segment: &Segment, segments: &[Arc<Segment>]) -> Self {
        let base = segment.base_offset();
        let after = segments.partition_point(|other| other.base_offset() <= base);
        Self {
            last: Offset::new(base.get().saturating_sub(1)),
            end: segments.get(after).map(|next| next.base_offset()),
        }
    }

    pub(crate) fn check(&mut self, entry: &Entry<'_>) -> Result<(), Corruption> {
        let last = entry.last_offset();
        let first = match entry {
            Entry::Batch(batch) => batch.header().base_offset(),
            _ => last,
        };
        let wrong = |offset: Offset| CorruptKind::out_of_range(offset.get()).at(entry.position());
        if first <= self.last {
            return Err(wrong(first));
        }
        if last < first || self.end.is_some_and(|end| last >= end) {
            return Err(wrong(last));
        }
        self.last = last;
        match entry {
            Entry::Batch(batch) if batch.header().record_count() == 0 => is_empty(batch),
            _ => Ok(()),
        }
    }
}

/// Whoever reads a batch that counts no record passes over its payload: it would go unseen.
fn is_empty(batch: &Batch<'_>) -> Result<(), Corruption> {
    if batch.payload().is_empty() {
        return Ok(());
    }
    let at = batch.position().saturating_add_len(RECORD_COUNT_AT);
    Err(CorruptKind::record_count(0).at(at))
}

/// Where in a batch the record count stands.
const RECORD_COUNT_AT: usize = 57;
