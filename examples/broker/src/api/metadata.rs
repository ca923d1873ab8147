//! Metadata: the one broker, the topics, their partitions.

use std::collections::HashSet;
use std::sync::Arc;

use alluvium_record_format::Uuid;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::codes::{self, Refusal};
use crate::broker::Node;
use crate::net::Peer;
use crate::store::{NewTopic, Topic, TopicError, leader_epoch};

/// What everybody may do, as there are no access lists: Kafka's bits for a cluster.
pub(super) const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;
/// The same for a topic.
const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// "Nobody asked".
pub(super) const NO_OPERATIONS: i32 = i32::MIN;

pub(super) fn answer(
    node: &Node,
    peer: &Peer<'_>,
    version: i16,
    request: &MetadataRequest,
) -> MetadataResponse {
    let (host, port) = node.advertised(peer.local);
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(node.identity.node_id))
        .with_host(StrBytes::from_string(host))
        .with_port(port)
        .with_rack(None);
    let with_operations = request.include_topic_authorized_operations;
    let mut topics = match wanted(version, request) {
        Wanted::All => node.topics.all().iter().map(|topic| found(node, topic)).collect(),
        Wanted::These(topics) => once_each(topics)
            .map(|topic| look_up(node, topic, request.allow_auto_topic_creation))
            .collect::<Vec<_>>(),
    };
    for topic in &mut topics {
        topic.topic_authorized_operations =
            if with_operations { TOPIC_OPERATIONS } else { NO_OPERATIONS };
        // Versions without a null name have ids neither.
        if version < 12 && topic.name.is_none() {
            topic.name = Some(TopicName::default());
        }
    }
    let cluster_operations = if request.include_cluster_authorized_operations {
        CLUSTER_OPERATIONS
    } else {
        NO_OPERATIONS
    };
    MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_cluster_id(Some(StrBytes::from_string(node.identity.cluster_id.clone())))
        .with_controller_id(BrokerId(node.identity.node_id))
        .with_topics(topics)
        .with_cluster_authorized_operations(cluster_operations)
}

enum Wanted<'a> {
    All,
    These(&'a [MetadataRequestTopic]),
}

/// Version 0 has no null: there, no topics are all topics.
fn wanted(version: i16, request: &MetadataRequest) -> Wanted<'_> {
    match request.topics.as_deref() {
        None => Wanted::All,
        Some([]) if version == 0 => Wanted::All,
        Some(topics) => Wanted::These(topics),
    }
}

/// A topic that stands twice in the request stands once in the answer, as in Kafka.
fn once_each(topics: &[MetadataRequestTopic]) -> impl Iterator<Item = &MetadataRequestTopic> {
    let mut seen = HashSet::new();
    topics.iter().filter(move |topic| seen.insert((topic.name.as_ref(), topic.topic_id)))
}

fn look_up(node: &Node, wanted: &MetadataRequestTopic, may_create: bool) -> MetadataResponseTopic {
    let Some(name) = wanted.name.as_ref() else {
        let id = Uuid::from_bytes(wanted.topic_id.into_bytes());
        return match node.topics.by_id(id) {
            Some(topic) => found(node, &topic),
            None => MetadataResponseTopic::default()
                .with_name(None)
                .with_topic_id(wanted.topic_id)
                .with_error_code(ResponseError::UnknownTopicId.code()),
        };
    };
    match find_or_create(node, name.as_str(), may_create) {
        Ok(topic) => found(node, &topic),
        Err(refusal) => MetadataResponseTopic::default()
            .with_name(Some(name.clone()))
            .with_error_code(refusal.code),
    }
}

fn find_or_create(node: &Node, name: &str, may_create: bool) -> Result<Arc<Topic>, Refusal> {
    if let Some(topic) = node.topics.by_name(name) {
        return Ok(topic);
    }
    let new = NewTopic {
        name: name.to_owned(),
        partition_count: node.settings.partition_count,
        ..NewTopic::default()
    };
    if !(may_create && node.settings.auto_create_topics) {
        return Err(match node.topics.check_new(&new) {
            Err(error @ TopicError::Name { .. }) => Refusal::from(&error),
            _ => ResponseError::UnknownTopicOrPartition.into(),
        });
    }
    match node.topics.create(&new) {
        Ok(topic) => Ok(topic),
        Err(TopicError::Exists { .. }) => {
            node.topics.by_name(name).ok_or_else(|| ResponseError::LeaderNotAvailable.into())
        }
        Err(error) => Err(Refusal::from(&error)),
    }
}

fn found(node: &Node, topic: &Topic) -> MetadataResponseTopic {
    let id = BrokerId(node.identity.node_id);
    let partition = |(index, log): (i32, Option<&alluvium_log_manager::Log>)| {
        let described = MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_replica_nodes(vec![id]);
        match log {
            Some(log) => described
                .with_error_code(codes::NONE)
                .with_leader_id(id)
                .with_leader_epoch(leader_epoch(log).get())
                .with_isr_nodes(vec![id]),
            None => described
                .with_error_code(ResponseError::LeaderNotAvailable.code())
                .with_leader_id(BrokerId(-1))
                .with_offline_replicas(vec![id]),
        }
    };
    MetadataResponseTopic::default()
        .with_error_code(codes::NONE)
        .with_name(Some(TopicName(StrBytes::from_string(topic.name.to_string()))))
        .with_topic_id(uuid::Uuid::from_bytes(topic.id.into_bytes()))
        .with_partitions(topic.partitions().map(partition).collect())
}
