//! When a log should go on in a new segment.

use alluvium_record_format::{Offset, Timestamp};
use alluvium_sparse_index::{OffsetIndexFile, TimeIndexFile};

use super::{ActiveSegment, FirstTimestamp, Indexes};
use crate::error::SegmentError;

/// What the decision to roll depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an input that callers fill in")]
pub struct RollInput {
    /// Bytes of the append.
    pub append_bytes: u32,
    /// The largest timestamp in the append.
    pub max_timestamp: Option<Timestamp>,
    /// The largest offset in the append.
    pub max_offset: Offset,
    /// `segment.bytes`.
    pub segment_bytes: u32,
    /// `segment.ms`, or `max.compaction.lag.ms` of a compacted topic where that is less.
    pub max_age_ms: i64,
    /// The present time.
    pub now: Timestamp,
}

/// Why a log should go on in a new segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RollReason {
    /// The append does not fit into `segment.bytes`. Filling it exactly is allowed.
    Size,
    /// The segment spans too much time: of its records, or on the clock where they have none.
    Time,
    /// The offset index has no room.
    OffsetIndexFull,
    /// The time index has room for its final entry alone.
    TimeIndexFull,
    /// The offset does not fit: more than `i32::MAX` above the base, or below it.
    Offset,
}

impl ActiveSegment {
    /// Whether the log should roll before the append.
    ///
    /// Source: `LogSegment.shouldRoll` in Kafka.
    ///
    /// # Errors
    ///
    /// `Io`, `Corrupt` if the first batch cannot be read; `Index` if an index cannot be opened.
    pub fn should_roll(&mut self, input: &RollInput) -> Result<Option<RollReason>, SegmentError> {
        let size = self.segment.size_bytes();
        if i64::from(size) > i64::from(input.segment_bytes) - i64::from(input.append_bytes) {
            return Ok(Some(RollReason::Size));
        }
        if size > 0 {
            let waited = self.waited_ms(input)?;
            if waited > input.max_age_ms.saturating_sub(self.birth.roll_jitter_ms) {
                return Ok(Some(RollReason::Time));
            }
            // Only an entry that is added takes room.
            if !self.indexes_have_room {
                let full = full_index(self.indexes()?);
                if full.is_some() {
                    return Ok(full);
                }
                self.indexes_have_room = true;
            }
        }
        let fits = input.max_offset.relative_to(self.segment.base_offset()).is_some();
        Ok((!fits).then_some(RollReason::Offset))
    }

    /// How much time the segment spans with the append.
    fn waited_ms(&mut self, input: &RollInput) -> Result<i64, SegmentError> {
        match self.first_batch_timestamp()? {
            Some(first) if first.get() >= 0 => {
                let newest = input.max_timestamp.map_or(-1, Timestamp::get);
                Ok(newest.saturating_sub(first.get()))
            }
            _ => Ok(input.now.get().saturating_sub(self.birth.now.get())),
        }
    }

    /// The largest timestamp of the first batch, read from the file once.
    fn first_batch_timestamp(&mut self) -> Result<Option<Timestamp>, SegmentError> {
        if let FirstTimestamp::Known(known) = self.first_timestamp {
            return Ok(known);
        }
        let first = self.segment.first_batch()?.and_then(|batch| batch.max_timestamp);
        self.first_timestamp = FirstTimestamp::Known(first);
        Ok(first)
    }
}

/// Which index has no room for the entries of another append.
fn full_index(indexes: &Indexes) -> Option<RollReason> {
    if indexes.offset.mapped().is_some_and(OffsetIndexFile::is_full) {
        return Some(RollReason::OffsetIndexFull);
    }
    let is_full = indexes.time.mapped().is_some_and(TimeIndexFile::is_full);
    is_full.then_some(RollReason::TimeIndexFull)
}
