//! Batches to write, and the text that Kafka's dump tool must print for them: both are made from
//! the plan, neither from the other.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Codec, EndTxnMarker, Header, LeaderEpoch, Offset, Position,
    ProducerEpoch, ProducerId, Sequence, SimpleRecord, Timestamp, TxnOutcome,
};
use anyhow::{Context, Result};

use crate::kafka::Seen;

/// One batch as planned.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) base_offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) codec: Codec,
    pub(super) producer: Option<Producer>,
    pub(super) transactional: bool,
    pub(super) append_time: Option<i64>,
    pub(super) delete_horizon: Option<i64>,
    pub(super) content: Content,
}

/// Who wrote a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Producer {
    pub(super) id: i64,
    pub(super) epoch: i16,
    pub(super) sequence: i32,
}

/// What is in a batch.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Records, one offset each.
    Records(Vec<PlannedRecord>),
    /// The marker that ends a transaction.
    Marker { outcome: TxnOutcome, coordinator_epoch: i32, timestamp: i64 },
}

/// One record as planned: texts, so that the dump shows them.
#[derive(Clone, Debug)]
pub(super) struct PlannedRecord {
    pub(super) timestamp: i64,
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
    pub(super) headers: Vec<(&'static str, Option<&'static str>)>,
}

impl Planned {
    /// A plain batch of these records.
    pub(super) const fn new(base_offset: i64, records: Vec<PlannedRecord>) -> Self {
        Self {
            base_offset,
            leader_epoch: 3,
            codec: Codec::None,
            producer: None,
            transactional: false,
            append_time: None,
            delete_horizon: None,
            content: Content::Records(records),
        }
    }

    /// The offset after the batch.
    pub(super) fn next_offset(&self) -> i64 {
        let count = match &self.content {
            Content::Records(records) => records.len(),
            Content::Marker { .. } => 1,
        };
        self.base_offset + i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// The sequence of the last record, -1 without a producer.
    pub(super) fn last_sequence(&self) -> i32 {
        let base = self.producer.map_or(-1, |producer| producer.sequence);
        after(base, self.next_offset() - 1 - self.base_offset)
    }

    /// Builds the batch with our writer.
    ///
    /// # Errors
    ///
    /// When it refuses.
    pub(super) fn build(&self) -> Result<Vec<u8>> {
        let mut builder = BatchBuilder::new(self.settings());
        match &self.content {
            Content::Records(records) => {
                for record in records {
                    record.append_to(&mut builder)?;
                }
            }
            Content::Marker { outcome, coordinator_epoch, timestamp } => {
                let marker = EndTxnMarker::new(*outcome, *coordinator_epoch);
                let now = Some(Timestamp::new(*timestamp));
                builder.append_control(now, &marker.into()).context("cannot write a marker")?;
            }
        }
        Ok(builder.finish().context("cannot build a batch")?.to_vec())
    }

    fn settings(&self) -> BatchSettings {
        let base = Offset::new(self.base_offset);
        let is_control = matches!(self.content, Content::Marker { .. });
        let mut settings = BatchSettings::new(base)
            .leader_epoch(LeaderEpoch::new(self.leader_epoch))
            .codec(self.codec)
            .transactional(self.transactional)
            .control(is_control);
        if let Some(Producer { id, epoch, sequence }) = self.producer {
            let sequence = (!is_control).then_some(Sequence::new(sequence));
            let (id, epoch) = (ProducerId::new(id), ProducerEpoch::new(epoch));
            settings = settings.producer(id, epoch, sequence);
        }
        if let Some(now) = self.append_time {
            settings = settings.log_append_time(Timestamp::new(now));
        }
        if let Some(horizon) = self.delete_horizon {
            settings = settings.delete_horizon(Timestamp::new(horizon));
        }
        settings
    }

    /// The lines of Kafka's tool for this batch, built as `bytes`, at byte `position`.
    ///
    /// # Errors
    ///
    /// When `bytes` are no batch.
    pub(super) fn expected(&self, bytes: &[u8], position: usize) -> Result<Vec<String>> {
        let crc = Batch::parse(bytes, Position::new(0))?.header().crc();
        let is_control = matches!(self.content, Content::Marker { .. });
        let last_offset = self.next_offset() - 1;
        let Producer { id, epoch, sequence } =
            self.producer.unwrap_or(Producer { id: -1, epoch: -1, sequence: -1 });
        let sequence = if is_control { -1 } else { sequence };
        let (label, time) = self.time();
        let horizon = self
            .delete_horizon
            .map_or("OptionalLong.empty".to_owned(), |at| format!("OptionalLong[{at}]"));
        let head = format!(
            "baseOffset: {} lastOffset: {last_offset} count: {} baseSequence: {sequence} \
             lastSequence: {} producerId: {id} producerEpoch: {epoch} partitionLeaderEpoch: {} \
             isTransactional: {} isControl: {is_control} deleteHorizonMs: {horizon} \
             position: {position} {label}: {time} size: {} magic: 2 compresscodec: {} crc: {crc} \
             isvalid: true",
            self.base_offset,
            last_offset + 1 - self.base_offset,
            after(sequence, last_offset - self.base_offset),
            self.leader_epoch,
            self.transactional,
            bytes.len(),
            self.codec.name(),
        );
        let mut lines = vec![head];
        match &self.content {
            Content::Records(records) => {
                for (offset, record) in (self.base_offset..).zip(records) {
                    let sequence = after(sequence, offset - self.base_offset);
                    let time = self.append_time.unwrap_or(record.timestamp);
                    let tail = record.expected(sequence);
                    lines.push(format!("| offset: {offset} {label}: {time} {tail}"));
                }
            }
            Content::Marker { outcome, coordinator_epoch, timestamp } => lines.push(format!(
                "| offset: {} {label}: {timestamp} keySize: 4 valueSize: 6 sequence: -1 \
                 headerKeys: [] endTxnMarker: {} coordinatorEpoch: {coordinator_epoch}",
                self.base_offset,
                outcome.name(),
            )),
        }
        Ok(lines)
    }

    /// The label and the time of the batch line.
    pub(super) fn time(&self) -> (&'static str, i64) {
        let largest = match &self.content {
            Content::Records(records) => records.iter().map(|record| record.timestamp).max(),
            Content::Marker { timestamp, .. } => Some(*timestamp),
        };
        match self.append_time {
            Some(now) => ("LogAppendTime", now),
            None => ("CreateTime", largest.unwrap_or(-1)),
        }
    }
}

impl PlannedRecord {
    /// The record as a consumer must see it at `offset`.
    pub(super) fn seen(&self, offset: i64, append_time: Option<i64>) -> Seen {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let header = |(name, value): &(&str, Option<&str>)| (bytes(name), value.map(bytes));
        Seen {
            offset,
            append_time: append_time.is_some(),
            timestamp: append_time.unwrap_or(self.timestamp),
            key: self.key.as_deref().map(bytes),
            value: self.value.as_deref().map(bytes),
            headers: self.headers.iter().map(header).collect(),
        }
    }

    fn append_to(&self, builder: &mut BatchBuilder) -> Result<()> {
        let header = |(name, value): &(&'static str, Option<&'static str>)| {
            Header::new(name.as_bytes(), value.map(str::as_bytes))
        };
        let headers: Vec<Header<'_>> = self.headers.iter().map(header).collect();
        let mut record =
            SimpleRecord::new().timestamp(Timestamp::new(self.timestamp)).headers(&headers);
        if let Some(key) = &self.key {
            record = record.key(key.as_bytes());
        }
        if let Some(value) = &self.value {
            record = record.value(value.as_bytes());
        }
        builder.append(&record).context("cannot append a record")?;
        Ok(())
    }

    /// The line of the record from its key size on.
    fn expected(&self, sequence: i32) -> String {
        let size = |text: &Option<String>| {
            text.as_ref().map_or("-1".to_owned(), |text| text.len().to_string())
        };
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| *name).collect();
        let key = self.key.as_ref().map_or(String::new(), |key| format!(" key: {key}"));
        let value = self.value.as_ref().map_or(String::new(), |value| format!(" payload: {value}"));
        format!(
            "keySize: {} valueSize: {} sequence: {sequence} headerKeys: [{}]{key}{value}",
            size(&self.key),
            size(&self.value),
            names.join(","),
        )
    }
}

/// The sequence `steps` after `base`; -1 stays, and the largest is followed by 0.
pub(super) fn after(base: i32, steps: i64) -> i32 {
    if base == -1 {
        return -1;
    }
    let next = (i64::from(base) + steps) % (i64::from(i32::MAX) + 1);
    i32::try_from(next).unwrap_or(-1)
}
