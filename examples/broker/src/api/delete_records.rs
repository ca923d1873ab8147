//! `DeleteRecords`: the log start moves up.

use alluvium_log_manager::Log;
use alluvium_record_format::Offset;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use super::codes::{self, Refusal};
use crate::broker::Node;

pub(super) fn answer(node: &Node, request: &DeleteRecordsRequest) -> DeleteRecordsResponse {
    let topics = request.topics.iter().map(|topic| {
        let known = node.topics.by_name(topic.name.as_str());
        let partitions = topic.partitions.iter().map(|partition| {
            let log = known.as_ref().and_then(|topic| topic.log(partition.partition_index));
            let deleted = match log {
                Some(log) => delete(log, partition.offset),
                None => Err(ResponseError::UnknownTopicOrPartition.into()),
            };
            let (code, low_watermark) = match deleted {
                Ok(offset) => (codes::NONE, offset.get()),
                Err(refusal) => (refusal.code, -1),
            };
            DeleteRecordsPartitionResult::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code)
                .with_low_watermark(low_watermark)
        });
        DeleteRecordsTopicResult::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    DeleteRecordsResponse::default().with_topics(topics.collect())
}

/// Deletes what lies below an offset; -1 is the high watermark.
fn delete(log: &Log, offset: i64) -> Result<Offset, Refusal> {
    let offset = (offset != -1).then(|| Offset::new(offset));
    log.delete_records(offset).map_err(|error| Refusal::from(&error))
}
