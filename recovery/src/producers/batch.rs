//! What producer state needs to know of a batch.

use alluvium_record_format::{
    Batch, BatchHeader, ControlRecord, CorruptKind, Corruption, Offset, Position, ProducerEpoch,
    ProducerId, Sequence, Timestamp, TxnOutcome,
};

use crate::BatchMetadata;

/// Who appends. Decides which checks a batch must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AppendOrigin {
    /// A producer, through the leader: every check.
    Client,
    /// The transaction or group coordinator, through the leader: no sequence check.
    Coordinator,
    /// The leader of the metadata log: no sequence check.
    RaftLeader,
    /// A follower's fetch, or a replay of the log: what the leader took is taken.
    Replication,
}

/// A batch of a producer, as producer state sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerBatch {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch when it made the batch.
    pub producer_epoch: ProducerEpoch,
    /// The sequence of the first record, -1 where the batch is not numbered.
    pub base_sequence: Sequence,
    /// The sequence of the last record, -1 where the batch is not numbered.
    pub last_sequence: Sequence,
    /// The offset of the first record.
    pub base_offset: Offset,
    /// The offset of the last record.
    pub last_offset: Offset,
    /// The largest timestamp, -1 for none.
    pub max_timestamp: Timestamp,
    /// Whether the batch is part of a transaction.
    pub is_transactional: bool,
    /// Records, or the end of a transaction.
    pub content: BatchContent,
    /// Where the batch lies or will lie, if that is known.
    pub place: Option<BatchPlace>,
}

impl ProducerBatch {
    /// Reads what concerns producer state from a whole batch; `None` for one without a producer.
    ///
    /// # Errors
    ///
    /// A control batch of a producer whose first record is damaged or ends no transaction.
    pub fn read(batch: &Batch<'_>) -> Result<Option<Self>, Corruption> {
        let header = batch.header();
        if header.producer_id().is_none() {
            return Ok(None);
        }
        let content = if !header.attributes().is_control() {
            BatchContent::Data
        } else if let Some(marker) = read_marker(batch)? {
            BatchContent::Marker(marker)
        } else {
            BatchContent::EmptyControl
        };
        Ok(Self::from_header(header, content))
    }

    /// Takes what concerns producer state from a header; `None` without a producer.
    #[must_use]
    pub fn from_header(header: &BatchHeader, content: BatchContent) -> Option<Self> {
        let none = Sequence::new(-1);
        Some(Self {
            producer_id: header.producer_id()?,
            producer_epoch: header.producer_epoch(),
            base_sequence: header.base_sequence().unwrap_or(none),
            last_sequence: header.last_sequence().unwrap_or(none),
            base_offset: header.base_offset(),
            last_offset: header.last_offset(),
            max_timestamp: Timestamp::new(header.max_timestamp_raw()),
            is_transactional: header.attributes().is_transactional(),
            content,
            place: None,
        })
    }

    /// What an entry remembers of it.
    pub(super) fn metadata(&self) -> BatchMetadata {
        let delta = self.last_offset.get().saturating_sub(self.base_offset.get());
        BatchMetadata {
            last_sequence: self.last_sequence,
            last_offset: self.last_offset,
            offset_delta: i32::try_from(delta).unwrap_or(i32::MAX),
            timestamp: self.max_timestamp,
        }
    }

    /// Adds where the batch lies.
    #[must_use]
    pub const fn at(self, place: BatchPlace) -> Self {
        Self { place: Some(place), ..self }
    }
}

/// The marker of a control batch; `None` where the cleaner has removed it.
fn read_marker(batch: &Batch<'_>) -> Result<Option<TxnMarker>, Corruption> {
    let at = batch.payload_position();
    let Some(record) = batch.records()?.next().transpose()? else { return Ok(None) };
    let control = ControlRecord::parse(record.key(), record.value()).map_err(|e| e.at(at))?;
    let ControlRecord::EndTxn(marker) = control else {
        return Err(CorruptKind::ControlRecord.at(at));
    };
    let is_abort = marker.outcome == TxnOutcome::Abort;
    let timestamp = record.timestamp().unwrap_or(Timestamp::new(-1));
    Ok(Some(TxnMarker::new(is_abort, marker.coordinator_epoch, timestamp)))
}

/// What a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchContent {
    /// Records of a producer.
    Data,
    /// The end of a transaction.
    Marker(TxnMarker),
    /// A control batch whose marker the cleaner has removed: changes nothing.
    EmptyControl,
}

/// The end of a transaction, as its control record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxnMarker {
    /// Whether the transaction was aborted, not committed.
    pub is_abort: bool,
    /// The epoch of the coordinator that wrote the marker.
    pub coordinator_epoch: i32,
    /// The time of the control record, -1 for none.
    pub timestamp: Timestamp,
}

impl TxnMarker {
    /// A marker of these values.
    #[must_use]
    pub const fn new(is_abort: bool, coordinator_epoch: i32, timestamp: Timestamp) -> Self {
        Self { is_abort, coordinator_epoch, timestamp }
    }
}

/// Where a batch lies: its segment and its first byte there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchPlace {
    /// The base offset of the segment.
    pub segment_base_offset: Offset,
    /// The first byte of the batch in the segment's log file.
    pub position: Position,
}

impl BatchPlace {
    /// The byte `position` of the segment with this base offset.
    #[must_use]
    pub const fn new(segment_base_offset: Offset, position: Position) -> Self {
        Self { segment_base_offset, position }
    }
}
