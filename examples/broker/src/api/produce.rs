//! Produce: the records are appended where they lie in the frame, nothing of them is copied.

use std::ops::Range;
use std::sync::Arc;

use alluvium_log_manager::{AppendError, Appended, LeaderRequest, Log, ValidationError};
use alluvium_record_format::{BatchHeader, Codec, Offset, Position, Timestamp, Uuid};
use bytes::BytesMut;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{ProduceResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::codes::{self, Refusal, chain};
use super::encode;
use crate::broker::Node;
use crate::net::{Hangup, Header, Reply};
use crate::store::{Topic, leader_epoch};
use crate::wire::{Malformed, Reader};

/// Appends, in the order of the request.
///
/// What may take long waits for its turn, and leaves the thread to other connections.
pub(super) async fn answer(
    node: &Node,
    header: &Header,
    frame: &mut BytesMut,
) -> Result<Option<Reply>, Hangup> {
    let request = Request::read(header, frame)?;
    if frame.len() > LARGE || request.is_compressed(frame) {
        let append = || append_all(node, header, &request, frame);
        node.in_turn(&node.append_turns, append).await
    } else {
        node.usage.busy(|| append_all(node, header, &request, frame))
    }
}

fn append_all(
    node: &Node,
    header: &Header,
    request: &Request,
    frame: &mut BytesMut,
) -> Result<Option<Reply>, Hangup> {
    let mut first_error = codes::NONE;
    let mut responses = Vec::with_capacity(request.topics.len());
    for data in &request.topics {
        let topic = data.find(node);
        let mut results = Vec::with_capacity(data.partitions.len());
        for partition in &data.partitions {
            let records = partition.records.clone().and_then(|range| frame.get_mut(range));
            let job = Job { node, header, request, topic: topic.as_ref() };
            let result = job.append(data, partition.index, records.unwrap_or_default());
            if first_error == codes::NONE {
                first_error = result.error_code;
            }
            results.push(result);
        }
        responses.push(data.response(results));
    }
    if request.acks == 0 {
        // As in Kafka: a client that hears nothing learns of an error by the end of the connection.
        return match first_error {
            codes::NONE => Ok(None),
            code => Err(Hangup::Unacknowledged { code }),
        };
    }
    encode(header, header.version, &ProduceResponse::default().with_responses(responses)).map(Some)
}

/// A request, its records still in the frame.
#[derive(Debug)]
struct Request {
    is_transactional: bool,
    acks: i16,
    topics: Vec<TopicData>,
}

#[derive(Debug)]
struct TopicData {
    name: String,
    id: Uuid,
    partitions: Vec<PartitionData>,
}

#[derive(Debug)]
struct PartitionData {
    index: i32,
    records: Option<Range<usize>>,
}

impl Request {
    fn read(header: &Header, frame: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(frame, header.version >= 9);
        reader.skip(header.len)?;
        let is_transactional = reader.string()?.is_some();
        let acks = reader.i16()?;
        reader.i32()?; // the timeout: nobody is waited for
        let mut topics = Vec::new();
        for _ in 0..reader.count()?.unwrap_or(0) {
            topics.push(TopicData::read(header, &mut reader)?);
        }
        reader.tagged_fields()?;
        Ok(Self { is_transactional, acks, topics })
    }

    /// Whether records must be decompressed, to who knows what.
    fn is_compressed(&self, frame: &[u8]) -> bool {
        let mut partitions = self.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.any(|partition| {
            let records = partition.records.clone().and_then(|range| frame.get(range));
            match first_batch(records.unwrap_or_default()) {
                FirstBatch::Current(codec) => codec.is_some_and(|codec| codec != Codec::None),
                FirstBatch::None | FirstBatch::Old => false,
            }
        })
    }
}

impl TopicData {
    fn read(header: &Header, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (mut name, mut id) = (String::new(), Uuid::default());
        if header.version >= 13 {
            id = reader.uuid()?;
        } else {
            reader.string()?.unwrap_or_default().clone_into(&mut name);
        }
        let mut partitions = Vec::new();
        for _ in 0..reader.count()?.unwrap_or(0) {
            let (index, records) = (reader.i32()?, reader.bytes()?);
            reader.tagged_fields()?;
            partitions.push(PartitionData { index, records });
        }
        reader.tagged_fields()?;
        Ok(Self { name, id, partitions })
    }

    /// The topic, or the error that says that there is none.
    fn find(&self, node: &Node) -> Result<Arc<Topic>, ResponseError> {
        if self.id == Uuid::default() {
            node.topics.by_name(&self.name).ok_or(ResponseError::UnknownTopicOrPartition)
        } else {
            node.topics.by_id(self.id).ok_or(ResponseError::UnknownTopicId)
        }
    }

    fn response(&self, results: Vec<PartitionProduceResponse>) -> TopicProduceResponse {
        TopicProduceResponse::default()
            .with_name(TopicName(StrBytes::from_string(self.name.clone())))
            .with_topic_id(uuid::Uuid::from_bytes(self.id.into_bytes()))
            .with_partition_responses(results)
    }
}

/// What an append needs to know of its request.
#[derive(Clone, Copy)]
struct Job<'a> {
    node: &'a Node,
    header: &'a Header,
    request: &'a Request,
    topic: Result<&'a Arc<Topic>, &'a ResponseError>,
}

impl Job<'_> {
    fn append(&self, data: &TopicData, index: i32, records: &mut [u8]) -> PartitionProduceResponse {
        let found = self.check(index, records);
        let (log, done) = match found {
            Ok(log) => {
                let done = append(log, records);
                (Some(log), done)
            }
            Err(refusal) => (None, Err(Failure { refusal, records: Vec::new() })),
        };
        let response = PartitionProduceResponse::default().with_index(index);
        match done {
            Ok(appended) => response
                .with_error_code(codes::NONE)
                .with_base_offset(appended.first_offset.map_or(-1, Offset::get))
                .with_log_append_time_ms(appended.log_append_time.map_or(-1, Timestamp::get))
                .with_log_start_offset(log.map_or(-1, |log| log.log_start_offset().get())),
            Err(failure) => {
                tracing::debug!(
                    topic = data.name,
                    index,
                    node = self.node.identity.node_id,
                    error = ?failure.refusal,
                    "an append was refused"
                );
                response
                    .with_error_code(failure.refusal.code)
                    .with_base_offset(-1)
                    .with_log_append_time_ms(-1)
                    .with_log_start_offset(-1)
                    .with_error_message(failure.refusal.text())
                    .with_record_errors(failure.records)
            }
        }
    }

    /// What is refused before the log is asked. Source: `ProduceRequest.validateRecords` in Kafka.
    fn check(&self, index: i32, records: &[u8]) -> Result<&Log, Refusal> {
        if !matches!(self.request.acks, -1..=1) {
            return Err(ResponseError::InvalidRequiredAcks.into());
        }
        let topic = self.topic.map_err(|error| Refusal::from(*error))?;
        let log = topic.log(index).ok_or(ResponseError::UnknownTopicOrPartition)?;
        if self.request.is_transactional {
            let message = "this broker coordinates no transactions";
            return Err(Refusal::new(ResponseError::InvalidTxnState, message));
        }
        if self.request.acks == -1 && self.node.topics.min_in_sync(&topic.name) > 1 {
            return Err(ResponseError::NotEnoughReplicas.into());
        }
        match first_batch(records) {
            FirstBatch::None => {
                let message = "not one whole batch of records";
                Err(Refusal::new(ResponseError::InvalidRecord, message))
            }
            FirstBatch::Old => {
                let message = "batches of magic 2 alone are accepted";
                Err(Refusal::new(ResponseError::InvalidRecord, message))
            }
            FirstBatch::Current(Some(Codec::Zstd)) if self.header.version < 7 => {
                Err(ResponseError::UnsupportedCompressionType.into())
            }
            FirstBatch::Current(_) => Ok(log),
        }
    }
}

/// What lies in front of the records.
enum FirstBatch {
    /// Not even one whole batch.
    None,
    /// A batch of magic 0 or 1.
    Old,
    Current(Option<Codec>),
}

fn first_batch(records: &[u8]) -> FirstBatch {
    if records.get(MAGIC_AT).is_some_and(|magic| *magic < 2) {
        return FirstBatch::Old;
    }
    match BatchHeader::parse(records, Position::new(0)) {
        // One of another magic, or with an impossible size: the log says what is wrong with it.
        Err(_) if records.len() >= BatchHeader::LEN => FirstBatch::Current(None),
        Err(_) => FirstBatch::None,
        Ok(header) => match usize::try_from(header.size_bytes()) {
            Ok(size) if size <= records.len() => FirstBatch::Current(header.attributes().codec()),
            _ => FirstBatch::None,
        },
    }
}

/// Why an append failed, and which records are to blame.
struct Failure {
    refusal: Refusal,
    records: Vec<BatchIndexAndErrorMessage>,
}

/// Appends; the only replica has it, so all of it is committed at once.
fn append(log: &Log, records: &mut [u8]) -> Result<Appended, Failure> {
    let appended = log
        .append_as_leader(records, LeaderRequest::new(leader_epoch(log)))
        .map_err(|error| Failure { refusal: Refusal::from(&error), records: blamed(&error) })?;
    if let Some(last) = appended.last_offset.filter(|_| !appended.is_duplicate) {
        let end = last.checked_add(1).unwrap_or(last);
        log.increment_high_watermark(end)
            .map_err(|error| Failure { refusal: Refusal::from(&error), records: Vec::new() })?;
    }
    Ok(appended)
}

fn blamed(error: &AppendError) -> Vec<BatchIndexAndErrorMessage> {
    let AppendError::Refused { source: ValidationError::Records { records, .. }, .. } = error
    else {
        return Vec::new();
    };
    let of = |record: &alluvium_log_manager::RecordError| {
        BatchIndexAndErrorMessage::default()
            .with_batch_index(i32::try_from(record.index).unwrap_or(i32::MAX))
            .with_batch_index_error_message(Some(StrBytes::from_string(chain(&record.reason))))
    };
    records.iter().map(of).collect()
}

/// Bytes of a frame from which on leaving the thread costs nothing beside the append.
const LARGE: usize = 1 << 20;
/// Where every format has its magic.
const MAGIC_AT: usize = 16;
