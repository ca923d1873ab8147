//! `IncrementalAlterConfigs`: settings of topics change, and their logs follow at once.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use kafka_protocol::protocol::StrBytes;

use super::codes::{self, Refusal};
use super::configs::{self, Resource};
use crate::broker::Node;
use crate::store::Overrides;

pub(super) fn answer(
    node: &Node,
    request: &IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let responses = request.resources.iter().map(|resource| {
        let response = AlterConfigsResourceResponse::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        match alter(node, resource, request.validate_only) {
            Ok(()) => response.with_error_code(codes::NONE),
            Err(refusal) => {
                response.with_error_code(refusal.code).with_error_message(refusal.text())
            }
        }
    });
    IncrementalAlterConfigsResponse::default().with_responses(responses.collect())
}

fn alter(node: &Node, resource: &AlterConfigsResource, validate_only: bool) -> Result<(), Refusal> {
    if Resource::from_kafka(resource.resource_type) != Some(Resource::Topic) {
        let message = "the settings of topics alone can be changed while the broker runs";
        return Err(Refusal::new(ResponseError::InvalidRequest, message));
    }
    let name = resource.resource_name.as_str();
    if node.topics.by_name(name).is_none() {
        return Err(ResponseError::UnknownTopicOrPartition.into());
    }
    let mut overrides = node.topics.overrides(name);
    for change in &resource.configs {
        apply(node, &mut overrides, change)?;
    }
    node.topics.check_overrides(&overrides).map_err(|error| Refusal::from(&error))?;
    if validate_only {
        return Ok(());
    }
    node.topics.alter(name, overrides).map_err(|error| Refusal::from(&error))
}

fn apply(node: &Node, overrides: &mut Overrides, change: &AlterableConfig) -> Result<(), Refusal> {
    let key = change.name.as_str();
    let value = change.value.as_ref().map(StrBytes::as_str);
    match (change.config_operation, value) {
        (SET, Some(value)) => {
            overrides.insert(key.to_owned(), value.to_owned());
        }
        (DELETE, _) => {
            overrides.remove(key);
        }
        (APPEND | SUBTRACT, Some(value)) => {
            let present = configs::list(node.topics.defaults(), overrides, key);
            let Some(mut words) = present else {
                let message = format!("`{key}` is no list");
                return Err(Refusal::new(ResponseError::InvalidConfig, message));
            };
            for word in value.split(',').map(str::trim) {
                words.retain(|present| present != word);
                if change.config_operation == APPEND {
                    words.push(word.to_owned());
                }
            }
            overrides.insert(key.to_owned(), words.join(","));
        }
        (SET | APPEND | SUBTRACT, None) => {
            return Err(Refusal::new(
                ResponseError::InvalidConfig,
                format!("no value for `{key}`"),
            ));
        }
        _ => return Err(Refusal::new(ResponseError::InvalidRequest, "an unknown operation")),
    }
    Ok(())
}

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;
