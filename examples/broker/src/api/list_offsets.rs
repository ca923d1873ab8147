//! `ListOffsets`: offsets by time, and the special times below 0.

use alluvium_log_manager::{FoundOffset, Log, OffsetQuery};
use alluvium_record_format::{Offset, Timestamp};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::codes::{self, Refusal};
use super::epoch;
use crate::broker::Node;
use crate::store::leader_epoch;

pub(super) fn answer(
    node: &Node,
    version: i16,
    request: &ListOffsetsRequest,
) -> ListOffsetsResponse {
    let bound = Bound::of(request);
    let topics = request.topics.iter().map(|topic| {
        let known = node.topics.by_name(topic.name.as_str());
        let partitions = topic.partitions.iter().map(|partition| {
            let log = known.as_ref().and_then(|topic| topic.log(partition.partition_index));
            let found = match log {
                Some(log) => look_up(log, version, bound, partition),
                None => Err(ResponseError::UnknownTopicOrPartition.into()),
            };
            describe(version, partition, found)
        });
        ListOffsetsTopicResponse::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    ListOffsetsResponse::default().with_topics(topics.collect())
}

/// How far the one who asks sees.
#[derive(Clone, Copy, Debug)]
enum Bound {
    LogEnd,
    HighWatermark,
    LastStable,
}

impl Bound {
    fn of(request: &ListOffsetsRequest) -> Self {
        match (request.replica_id.0, request.isolation_level) {
            (-1, 1) => Self::LastStable,
            (-1, _) => Self::HighWatermark,
            _ => Self::LogEnd,
        }
    }

    fn in_log(self, log: &Log) -> Offset {
        match self {
            Self::LogEnd => log.log_end_offset(),
            Self::HighWatermark => log.high_watermark(),
            Self::LastStable => log.last_stable_offset(),
        }
    }
}

/// What is found: a record or a bound, or nothing.
type Found = Option<(i64, i64, i32)>;

fn look_up(
    log: &Log,
    version: i16,
    bound: Bound,
    partition: &ListOffsetsPartition,
) -> Result<Found, Refusal> {
    epoch::check(log, partition.current_leader_epoch)?;
    if !special_times_of(version).contains(&partition.timestamp) && partition.timestamp < 0 {
        return Err(ResponseError::UnsupportedVersion.into());
    }
    // Nothing is tiered, and so nothing waits to be.
    let Some(query) = OffsetQuery::from_kafka(partition.timestamp) else { return Ok(None) };
    let end = bound.in_log(log);
    if query == OffsetQuery::Latest {
        return Ok(Some((-1, end.get(), leader_epoch(log).get())));
    }
    let found = log.offset_for(query).map_err(|error| Refusal::from(&error))?;
    let is_record = matches!(query, OffsetQuery::MaxTimestamp | OffsetQuery::AtOrAfter(_));
    let is_visible = |found: &FoundOffset| !is_record || found.offset < end;
    Ok(found.filter(is_visible).map(|found| {
        let timestamp = found.timestamp.map_or(-1, Timestamp::get);
        let epoch = found.leader_epoch.unwrap_or_else(|| leader_epoch(log));
        (timestamp, found.offset.get(), epoch.get())
    }))
}

/// The special times that a version knows, from -1 down.
fn special_times_of(version: i16) -> std::ops::RangeInclusive<i64> {
    let lowest = match version {
        ..=6 => -2, // earliest
        7 => -3,    // largest time
        8 => -4,    // earliest on this disk
        9..=10 => -5,
        _ => -6,
    };
    lowest..=-1
}

fn describe(
    version: i16,
    partition: &ListOffsetsPartition,
    found: Result<Found, Refusal>,
) -> ListOffsetsPartitionResponse {
    let (code, (timestamp, offset, epoch)) = match found {
        Ok(found) => (codes::NONE, found.unwrap_or((-1, -1, -1))),
        Err(refusal) => (refusal.code, (-1, -1, -1)),
    };
    ListOffsetsPartitionResponse::default()
        .with_partition_index(partition.partition_index)
        .with_error_code(code)
        .with_timestamp(timestamp)
        .with_offset(offset)
        .with_leader_epoch(if version >= 4 { epoch } else { -1 })
}
