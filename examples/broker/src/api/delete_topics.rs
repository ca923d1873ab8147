//! `DeleteTopics`: by name, or from version 6 on by id.

use std::sync::Arc;

use alluvium_record_format::Uuid;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::codes::{self, Refusal};
use crate::broker::Node;

pub(super) fn answer(node: &Node, request: &DeleteTopicsRequest) -> DeleteTopicsResponse {
    let by_name = request
        .topic_names
        .iter()
        .map(|name| DeleteTopicState::default().with_name(Some(name.clone())));
    let wanted = request.topics.iter().cloned().chain(by_name);
    let results = wanted.map(|wanted| {
        let (name, deleted) = match resolve(node, &wanted) {
            Ok(name) => {
                let deleted = node.topics.delete(&name);
                (Some(name), deleted.map_err(|error| Refusal::from(&error)))
            }
            Err(refusal) => {
                (wanted.name.as_ref().map(|name| Arc::from(name.as_str())), Err(refusal))
            }
        };
        let result = DeletableTopicResult::default()
            .with_name(name.map(|name| TopicName(StrBytes::from_string(name.to_string()))))
            .with_topic_id(wanted.topic_id);
        match deleted {
            Ok(()) => result.with_error_code(codes::NONE),
            Err(refusal) => result.with_error_code(refusal.code).with_error_message(refusal.text()),
        }
    });
    DeleteTopicsResponse::default().with_responses(results.collect())
}

fn resolve(node: &Node, wanted: &DeleteTopicState) -> Result<Arc<str>, Refusal> {
    if let Some(name) = &wanted.name {
        return Ok(Arc::from(name.as_str()));
    }
    let found = node.topics.by_id(Uuid::from_bytes(wanted.topic_id.into_bytes()));
    found.map(|topic| Arc::clone(&topic.name)).ok_or(ResponseError::UnknownTopicId.into())
}
