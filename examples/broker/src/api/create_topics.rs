//! `CreateTopics`.

use std::collections::HashMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};

use super::codes::{self, Refusal};
use crate::broker::Node;
use crate::store::{NewTopic, Overrides};

pub(super) fn answer(node: &Node, request: &CreateTopicsRequest) -> CreateTopicsResponse {
    let mut named: HashMap<&str, u32> = HashMap::new();
    for topic in &request.topics {
        *named.entry(topic.name.as_str()).or_default() += 1;
    }
    let too_many = request.topics.len() > MAX_TOPICS;
    let results = request.topics.iter().map(|topic| {
        let twice = named.get(topic.name.as_str()).is_some_and(|&count| count > 1);
        let created = if too_many {
            Err(ResponseError::PolicyViolation.into())
        } else if twice {
            Err(Refusal::new(
                ResponseError::InvalidRequest,
                "the topic stands twice in the request",
            ))
        } else {
            create(node, topic, request.validate_only)
        };
        created.unwrap_or_else(|refusal| {
            result(topic)
                .with_error_code(refusal.code)
                .with_error_message(refusal.text())
                .with_num_partitions(-1)
                .with_replication_factor(-1)
        })
    });
    CreateTopicsResponse::default().with_topics(results.collect())
}

fn result(topic: &CreatableTopic) -> CreatableTopicResult {
    CreatableTopicResult::default().with_name(topic.name.clone())
}

fn create(
    node: &Node,
    topic: &CreatableTopic,
    validate_only: bool,
) -> Result<CreatableTopicResult, Refusal> {
    let new = NewTopic {
        name: topic.name.to_string(),
        partition_count: partition_count(node, topic)?,
        overrides: overrides(topic),
    };
    let id = if validate_only {
        node.topics.check_new(&new).map_err(|error| Refusal::from(&error))?;
        uuid::Uuid::nil()
    } else {
        let created = node.topics.create(&new);
        let created = created.map_err(|error| Refusal::from(&error))?;
        uuid::Uuid::from_bytes(created.id.into_bytes())
    };
    Ok(result(topic)
        .with_error_code(codes::NONE)
        .with_topic_id(id)
        .with_num_partitions(i32::try_from(new.partition_count).unwrap_or(i32::MAX))
        .with_replication_factor(1)
        .with_configs(Some(super::configs::created(node, &new.overrides))))
}

fn partition_count(node: &Node, topic: &CreatableTopic) -> Result<u32, Refusal> {
    if topic.assignments.is_empty() {
        if !matches!(topic.replication_factor, 1 | -1) {
            let message = "there is one broker, so one replica";
            return Err(Refusal::new(ResponseError::InvalidReplicationFactor, message));
        }
        return match topic.num_partitions {
            -1 => Ok(node.settings.partition_count),
            count => u32::try_from(count).map_err(|_negative| {
                Refusal::new(ResponseError::InvalidPartitions, "fewer than one partition")
            }),
        };
    }
    let refuse = |message| Err(Refusal::new(ResponseError::InvalidReplicaAssignment, message));
    let mut indexes: Vec<i32> = topic.assignments.iter().map(|a| a.partition_index).collect();
    indexes.sort_unstable();
    if !indexes.iter().copied().eq(0..i32::try_from(indexes.len()).unwrap_or(i32::MAX)) {
        return refuse("partitions are not numbered from 0 without a gap");
    }
    let mine = |broker_ids: &[kafka_protocol::messages::BrokerId]| matches!(broker_ids, [id] if id.0 == node.identity.node_id);
    if !topic.assignments.iter().all(|assignment| mine(&assignment.broker_ids)) {
        return refuse("a replica on a broker that does not exist");
    }
    Ok(u32::try_from(indexes.len()).unwrap_or(u32::MAX))
}

fn overrides(topic: &CreatableTopic) -> Overrides {
    let of = |config: &kafka_protocol::messages::create_topics_request::CreatableTopicConfig| {
        Some((config.name.to_string(), config.value.as_ref()?.to_string()))
    };
    topic.configs.iter().filter_map(of).collect()
}

/// As many as Kafka makes changes for one request; each is answered with all its settings.
const MAX_TOPICS: usize = 10_000;
