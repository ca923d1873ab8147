//! `CreatePartitions`: a topic grows.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

use super::codes::{self, Refusal};
use crate::broker::Node;

pub(super) fn answer(node: &Node, request: &CreatePartitionsRequest) -> CreatePartitionsResponse {
    let results = request.topics.iter().map(|topic| {
        let result = CreatePartitionsTopicResult::default().with_name(topic.name.clone());
        match grow(node, topic, request.validate_only) {
            Ok(()) => result.with_error_code(codes::NONE).with_error_message(None),
            Err(refusal) => result.with_error_code(refusal.code).with_error_message(refusal.text()),
        }
    });
    CreatePartitionsResponse::default().with_results(results.collect())
}

fn grow(node: &Node, topic: &CreatePartitionsTopic, validate_only: bool) -> Result<(), Refusal> {
    let name = topic.name.as_str();
    let present = node.topics.check_grow(name, topic.count).map_err(|e| Refusal::from(&e))?;
    if let Some(assignments) = &topic.assignments {
        let added = usize::try_from(topic.count).unwrap_or(0).saturating_sub(present.logs.len());
        let mine = assignments.iter().all(
            |assigned| matches!(&assigned.broker_ids[..], [id] if id.0 == node.identity.node_id),
        );
        if assignments.len() != added || !mine {
            let message = "not one replica on this broker for each new partition";
            return Err(Refusal::new(ResponseError::InvalidReplicaAssignment, message));
        }
    }
    if validate_only {
        return Ok(());
    }
    node.topics.grow(name, topic.count).map_err(|error| Refusal::from(&error))
}
