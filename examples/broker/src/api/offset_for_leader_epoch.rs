//! `OffsetForLeaderEpoch`: where an epoch ended.

use alluvium_log_manager::Log;
use alluvium_record_format::LeaderEpoch;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::codes::{self, Refusal};
use super::epoch;
use crate::broker::Node;

pub(super) fn answer(
    node: &Node,
    request: &OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let topics = request.topics.iter().map(|topic| {
        let known = node.topics.by_name(topic.topic.as_str());
        let partitions = topic.partitions.iter().map(|partition| {
            let log = known.as_ref().and_then(|topic| topic.log(partition.partition));
            let found = match log {
                Some(log) => end_of(log, partition),
                None => Err(ResponseError::UnknownTopicOrPartition.into()),
            };
            let (code, (epoch, end)) = match found {
                Ok(found) => (codes::NONE, found.unwrap_or((-1, -1))),
                Err(refusal) => (refusal.code, (-1, -1)),
            };
            EpochEndOffset::default()
                .with_partition(partition.partition)
                .with_error_code(code)
                .with_leader_epoch(epoch)
                .with_end_offset(end)
        });
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic.clone())
            .with_partitions(partitions.collect())
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

fn end_of(log: &Log, asked: &OffsetForLeaderPartition) -> Result<Option<(i32, i64)>, Refusal> {
    epoch::check(log, asked.current_leader_epoch)?;
    let end = log.end_offset_for_epoch(LeaderEpoch::new(asked.leader_epoch));
    Ok(end.map(|(epoch, end)| (epoch.get(), end.get())))
}
