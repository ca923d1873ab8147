//! What a load found and did.

use alluvium_record_format::{Corruption, Offset};

use super::Step;
use crate::Damage;

/// What a load found and did, or would do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadReport {
    /// The changes, in order.
    pub steps: Vec<Step>,
    /// The segments that were scanned, in order.
    pub recovered: Vec<RecoveredSegment>,
    /// What was found and left as it is.
    pub warnings: Vec<Warning>,
}

impl LoadReport {
    /// Bytes that were cut from log files.
    #[must_use]
    pub fn cut_bytes(&self) -> u64 {
        let cut =
            |segment: &RecoveredSegment| segment.file_bytes.saturating_sub(segment.kept_bytes);
        self.recovered.iter().map(cut).fold(0, u64::saturating_add)
    }

    /// Bytes of log files that were scanned.
    #[must_use]
    pub fn scanned_bytes(&self) -> u64 {
        self.recovered.iter().map(|segment| segment.file_bytes).fold(0, u64::saturating_add)
    }
}

/// One segment that was scanned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveredSegment {
    /// The base offset of the segment.
    pub base_offset: Offset,
    /// Bytes of the log file before.
    pub file_bytes: u64,
    /// Bytes of the log file after.
    pub kept_bytes: u64,
    /// Batches in them.
    pub batch_count: u64,
    /// The offset after the last of them.
    pub next_offset: Offset,
    /// Why the scan ended before the end of the file, if it did.
    pub damage: Option<Corruption>,
}

/// Something that is not as it should be, and was left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A file or directory with a name that no log writes.
    ForeignName(String),
    /// Damage in a segment that counts as synced: it is kept as it is, readers will meet it.
    #[non_exhaustive]
    DamageKept {
        /// The base offset of the segment.
        base_offset: Offset,
        /// The first damage.
        damage: Corruption,
    },
    /// A sealed segment reaches beyond the end of the last one: the log ends where it does. A
    /// stray or misnamed file lies between.
    #[non_exhaustive]
    Overlap {
        /// The base offset of the segment.
        base_offset: Offset,
        /// The offset after its last record.
        reaches: Offset,
        /// The offset after the last record of the last segment.
        end: Offset,
    },
    /// A segment reaches beyond the start of the next one, and not beyond the end of the log. A
    /// stray or misnamed file lies between, or is the segment: readers that come along do not see
    /// what the segment holds from there on. Looked for at the end of a log, and where recovery
    /// has read it.
    #[non_exhaustive]
    Covered {
        /// The base offset of the segment.
        base_offset: Offset,
        /// The offset after its last record.
        reaches: Offset,
        /// The base offset of the next segment.
        next: Offset,
    },
    /// The leader epochs were damaged and have been rebuilt from the log.
    EpochsRebuilt(Damage),
    /// A batch of a producer that no leader would have taken; producer state passes over it.
    #[non_exhaustive]
    ProducerBatch {
        /// The offset of the batch.
        offset: Offset,
        /// Why it is refused.
        error: crate::ProducerError,
    },
}
