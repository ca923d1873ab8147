//! From an offset to bytes of the log, without a lock.

use std::sync::Arc;

use alluvium_record_format::{Offset, Position, ProducerId};
use alluvium_segment::{SegmentError, SegmentSlice};
use alluvium_sparse_index::AbortedTxn;

use super::segments::Segments;
use super::{Log, LogError, LogPosition, SegmentList, Shared};

/// How far a read sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// To the log end: what a follower reads.
    #[default]
    LogEnd,
    /// To the high watermark: `read_uncommitted`.
    HighWatermark,
    /// To the last stable offset: `read_committed`. Names the aborted transactions.
    TxnCommitted,
}

/// What a read found: nothing is copied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fetched {
    /// The batch at which the bytes begin, or where they would.
    pub position: LogPosition,
    /// The bytes; `None` where there are none to see.
    pub slice: Option<SegmentSlice>,
    /// Whether the limit on bytes cut the first batch.
    pub first_entry_incomplete: bool,
    /// With [`Isolation::TxnCommitted`]: a reader drops the records of each producer from the
    /// first offset on until its abort marker. May name more than the bytes hold.
    pub aborted: Option<Vec<AbortedTransaction>>,
}

/// A transaction that was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: ProducerId,
    /// The offset of its first record.
    pub first_offset: Offset,
}

impl Fetched {
    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.slice.as_ref().map_or(0, SegmentSlice::len)
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn nothing(position: LogPosition, isolation: Isolation) -> Self {
        let aborted = (isolation == Isolation::TxnCommitted).then(Vec::new);
        Self { position, slice: None, first_entry_incomplete: false, aborted }
    }
}

impl Log {
    /// Finds the bytes to send to somebody who asks for `start` and what follows, at most
    /// `max_bytes` of one segment.
    ///
    /// They begin with the batch that holds `start`, so perhaps before it, and may end inside a
    /// batch. With `min_one_message` the first batch is whole, however large. A batch that lies
    /// across the bound of `isolation` is left out.
    ///
    /// As in Kafka, a read up to the high watermark moves a watermark that lies inside a batch
    /// to where that batch begins.
    ///
    /// Never waits, neither for a writer nor for other readers. Cost: a look-up in an index and
    /// one `pread` of a batch header, or none of a batch that was read before: see
    /// [`Segment::read`](alluvium_segment::Segment::read).
    ///
    /// Source: `UnifiedLog.read` in Kafka.
    ///
    /// # Errors
    ///
    /// `OffsetOutOfRange` below the log start and above the log end; what reading a segment
    /// yields.
    pub fn read(
        &self,
        start: Offset,
        max_bytes: u32,
        isolation: Isolation,
        min_one_message: bool,
    ) -> Result<Fetched, LogError> {
        let shared = &*self.shared;
        shared.check_open()?;
        let limits = Limits { max_bytes, min_one_message, isolation };
        shared.while_segments_last(|segments| {
            shared.check_log_start(start)?;
            let bound = match isolation {
                Isolation::LogEnd => shared.log_end_position(segments),
                Isolation::HighWatermark => shared.high_watermark_position()?,
                Isolation::TxnCommitted => shared.last_stable_position()?,
            };
            shared.read_below(segments, start, bound, limits)
        })
    }
}

#[derive(Clone, Copy)]
struct Limits {
    max_bytes: u32,
    min_one_message: bool,
    isolation: Isolation,
}

impl Shared {
    /// Looks into the present segments; into the next ones, where the files of these were removed
    /// before they could be opened.
    pub(super) fn while_segments_last<T>(
        &self,
        look: impl Fn(&SegmentList) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        loop {
            let segments = self.segments.load();
            let found = look(&segments);
            let is_gone =
                matches!(found, Err(LogError::Segment { source: SegmentError::Gone { .. }, .. }));
            if !is_gone || Arc::ptr_eq(&segments, &self.segments.load()) {
                return found;
            }
        }
    }

    /// Refuses an offset below the log start.
    pub(super) fn check_log_start(&self, offset: Offset) -> Result<(), LogError> {
        let (min, max) = (self.log_start(), self.log_end());
        if offset < min {
            return Err(LogError::OffsetOutOfRange { offset, min, max });
        }
        Ok(())
    }

    /// The log end and its place.
    pub(super) fn log_end_position(&self, segments: &SegmentList) -> LogPosition {
        let position = segments.end();
        LogPosition::at(self.log_end(), segments.active().base_offset(), position)
    }

    /// The batch that holds `offset`, or the next one, or the log end.
    ///
    /// Source: `LocalLog.convertToOffsetMetadataOrThrow` in Kafka.
    pub(super) fn locate(&self, offset: Offset) -> Result<LogPosition, LogError> {
        self.check_log_start(offset)?;
        self.locate_in(&self.segments.load(), offset)
    }

    fn locate_in(&self, segments: &SegmentList, offset: Offset) -> Result<LogPosition, LogError> {
        let end = self.log_end_position(segments);
        let rest = self.reachable(segments, offset)?;
        if offset == end.offset {
            return Ok(end);
        }
        for segment in rest {
            if let Some(batch) = segment.batch_of(offset)? {
                let base = segment.base_offset();
                return Ok(LogPosition::at(batch.base_offset, base, batch.position));
            }
        }
        Ok(end)
    }

    /// The segments from the one that may hold `offset` on.
    fn reachable<'s>(
        &self,
        segments: &'s SegmentList,
        offset: Offset,
    ) -> Result<Segments<'s>, LogError> {
        let (min, max) = (self.log_start(), self.log_end());
        if offset > max || offset < segments.first().base_offset() {
            return Err(LogError::OffsetOutOfRange { offset, min, max });
        }
        Ok(segments.reaching(offset))
    }

    /// Source: `LocalLog.read` in Kafka.
    fn read_below(
        &self,
        segments: &SegmentList,
        start: Offset,
        bound: LogPosition,
        limits: Limits,
    ) -> Result<Fetched, LogError> {
        let mut rest = self.reachable(segments, start)?;
        if start == bound.offset {
            return Ok(Fetched::nothing(bound, limits.isolation));
        }
        if start > bound.offset {
            let position = self.locate_in(segments, start)?;
            return Ok(Fetched::nothing(position, limits.isolation));
        }
        loop {
            let from_here = rest.clone();
            let Some(segment) = rest.next() else { break };
            let end = match bound.place {
                Some(place) if segment.base_offset() < place.segment_base => {
                    Some(Position::new(segment.size_bytes()))
                }
                Some(place) if segment.base_offset() == place.segment_base => Some(place.position),
                _ => None,
            };
            let found = segment.read(start, limits.max_bytes, end, limits.min_one_message)?;
            if let Some(slice) = found {
                return self.fetched(start, slice, from_here, limits);
            }
        }
        let position = self.log_end_position(segments);
        Ok(Fetched { position, slice: None, first_entry_incomplete: false, aborted: None })
    }

    fn fetched(
        &self,
        start: Offset,
        slice: SegmentSlice,
        from_here: Segments<'_>,
        limits: Limits,
    ) -> Result<Fetched, LogError> {
        let aborted = match limits.isolation {
            Isolation::TxnCommitted => Some(self.aborted_in(start, &slice, from_here)?),
            _ => None,
        };
        let position = LogPosition::at(slice.base_offset(), slice.segment_base(), slice.position());
        crate::metrics::handed_out(slice.len());
        let first_entry_incomplete = slice.first_entry_incomplete();
        Ok(Fetched { position, slice: Some(slice), first_entry_incomplete, aborted })
    }

    /// The aborted transactions that a reader of the slice must know.
    fn aborted_in(
        &self,
        start: Offset,
        slice: &SegmentSlice,
        from_here: Segments<'_>,
    ) -> Result<Vec<AbortedTransaction>, LogError> {
        let mut later = from_here.clone();
        let Some(segment) = later.next() else { return Ok(Vec::new()) };
        let next_base = || later.next().map_or_else(|| self.log_end(), |next| next.base_offset());
        let upper =
            segment.upper_bound_offset(slice.position(), slice.len())?.unwrap_or_else(next_base);
        let mut found: Vec<AbortedTxn> = Vec::new();
        for segment in from_here {
            let collected = segment.collect_aborted(start, upper)?;
            found.extend(collected.txns);
            if collected.is_complete {
                break;
            }
        }
        let pair = |txn: AbortedTxn| AbortedTransaction {
            producer_id: txn.producer_id,
            first_offset: txn.first_offset,
        };
        Ok(found.into_iter().map(pair).collect())
    }
}
