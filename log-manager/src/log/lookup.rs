//! From a time to an offset.

use alluvium_record_format::{LeaderEpoch, Offset, Timestamp};

use alluvium_segment::FoundRecord;

use super::{Log, LogError, SegmentList};

/// What to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffsetQuery {
    /// -2: the log start.
    Earliest,
    /// -1: the log end.
    Latest,
    /// -3: the record with the largest time, the first of several.
    MaxTimestamp,
    /// -4: the log start on this disk.
    EarliestLocal,
    /// The first record with this time or a later one.
    AtOrAfter(Timestamp),
}

impl OffsetQuery {
    /// Reads Kafka's number: a time, or one of the special numbers below 0.
    #[must_use]
    pub const fn from_kafka(timestamp: i64) -> Option<Self> {
        match timestamp {
            -1 => Some(Self::Latest),
            -2 => Some(Self::Earliest),
            -3 => Some(Self::MaxTimestamp),
            -4 => Some(Self::EarliestLocal),
            0.. => Some(Self::AtOrAfter(Timestamp::new(timestamp))),
            _ => None,
        }
    }
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundOffset {
    /// The offset.
    pub offset: Offset,
    /// The record's time, where a record was looked for.
    pub timestamp: Option<Timestamp>,
    /// The epoch of the leader that wrote there.
    pub leader_epoch: Option<LeaderEpoch>,
}

impl Log {
    /// Looks up an offset by time; `None` where no record is that late. Never waits.
    ///
    /// Source: `UnifiedLog.fetchOffsetByTimestamp` in Kafka.
    ///
    /// # Errors
    ///
    /// What reading a segment yields.
    pub fn offset_for(&self, query: OffsetQuery) -> Result<Option<FoundOffset>, LogError> {
        self.shared.check_open()?;
        match query {
            OffsetQuery::Earliest | OffsetQuery::EarliestLocal => {
                let offset = self.log_start_offset();
                let earliest = self.shared.epochs.load().earliest();
                let leader_epoch =
                    earliest.filter(|entry| entry.start_offset <= offset).map(|entry| entry.epoch);
                Ok(Some(FoundOffset { offset, timestamp: None, leader_epoch }))
            }
            OffsetQuery::Latest => {
                let leader_epoch = self.latest_epoch();
                let offset = self.log_end_offset();
                Ok(Some(FoundOffset { offset, timestamp: None, leader_epoch }))
            }
            OffsetQuery::MaxTimestamp => {
                let find = |segments: &SegmentList| self.offset_of_max_timestamp(segments);
                self.shared.while_segments_last(find)
            }
            OffsetQuery::AtOrAfter(timestamp) => {
                let find = |segments: &SegmentList| self.offset_at_or_after(segments, timestamp);
                self.shared.while_segments_last(find)
            }
        }
    }
}

impl Log {
    fn offset_of_max_timestamp(
        &self,
        segments: &SegmentList,
    ) -> Result<Option<FoundOffset>, LogError> {
        let mut best = None;
        for segment in segments.all() {
            let largest = segment.max_timestamp()?.map(|entry| entry.timestamp);
            // Of equal ones the first counts.
            if largest > best.map(|(timestamp, _)| timestamp) {
                best = largest.map(|timestamp| (timestamp, segment));
            }
        }
        let Some((_, segment)) = best else { return Ok(None) };
        Ok(segment.find_largest_timestamp(self.max_record_bytes())?.map(FoundOffset::from))
    }

    fn offset_at_or_after(
        &self,
        segments: &SegmentList,
        target: Timestamp,
    ) -> Result<Option<FoundOffset>, LogError> {
        let start = self.log_start_offset();
        for segment in segments.all() {
            if segment.largest_timestamp()? >= target {
                let found = segment.find_by_timestamp(target, start, self.max_record_bytes())?;
                return Ok(found.map(FoundOffset::from));
            }
        }
        Ok(None)
    }

    fn max_record_bytes(&self) -> usize {
        let limit = self.shared.config.load().max_decompressed_message_bytes();
        usize::try_from(limit).unwrap_or(usize::MAX)
    }
}

impl From<FoundRecord> for FoundOffset {
    fn from(record: FoundRecord) -> Self {
        Self {
            offset: record.offset,
            timestamp: Some(record.timestamp),
            leader_epoch: record.leader_epoch,
        }
    }
}
