//! `DescribeConfigs`: the settings of topics, and what there is of the broker's.

use std::collections::HashSet;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use super::codes::{self, Refusal};
use super::configs::{self, Described, Resource};
use crate::broker::Node;

pub(super) fn answer(node: &Node, request: &DescribeConfigsRequest) -> DescribeConfigsResponse {
    // What stands twice in the request stands once in the answer.
    let mut seen = HashSet::new();
    let mut is_new = |resource: &&DescribeConfigsResource| {
        seen.insert((resource.resource_type, resource.resource_name.clone()))
    };
    let resources = request.resources.iter().filter(|resource| is_new(resource));
    let results = resources.map(|resource| {
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        match describe(node, resource) {
            Ok(all) => result.with_error_code(codes::NONE).with_configs(shown(
                all,
                resource,
                request.include_synonyms,
            )),
            Err(refusal) => result.with_error_code(refusal.code).with_error_message(refusal.text()),
        }
    });
    DescribeConfigsResponse::default().with_results(results.collect())
}

fn describe(node: &Node, resource: &DescribeConfigsResource) -> Result<Vec<Described>, Refusal> {
    let name = resource.resource_name.as_str();
    match Resource::from_kafka(resource.resource_type) {
        Some(Resource::Topic) => match node.topics.by_name(name) {
            Some(_) => Ok(configs::of_topic(node.topics.defaults(), &node.topics.overrides(name))),
            None => Err(ResponseError::UnknownTopicOrPartition.into()),
        },
        Some(Resource::Broker) => {
            configs::check_broker(node, name)?;
            Ok(configs::of_broker(node))
        }
        None => Err(Refusal::new(ResponseError::InvalidRequest, "neither a topic nor a broker")),
    }
}

fn shown(
    all: Vec<Described>,
    resource: &DescribeConfigsResource,
    with_synonyms: bool,
) -> Vec<DescribeConfigsResourceResult> {
    let is_wanted = |described: &Described| match &resource.configuration_keys {
        Some(keys) => keys.iter().any(|key| key.as_str() == described.key),
        None => true,
    };
    let is_broker = Resource::from_kafka(resource.resource_type) == Some(Resource::Broker);
    let show = |described: Described| {
        let value = Some(StrBytes::from_string(described.value));
        let synonym = DescribeConfigsSynonym::default()
            .with_name(StrBytes::from_static_str(described.key))
            .with_value(value.clone())
            .with_source(described.source as i8);
        DescribeConfigsResourceResult::default()
            .with_name(StrBytes::from_static_str(described.key))
            .with_value(value)
            .with_read_only(is_broker)
            .with_config_source(described.source as i8)
            .with_synonyms(if with_synonyms { vec![synonym] } else { Vec::new() })
            .with_config_type(described.kind)
    };
    all.into_iter().filter(is_wanted).map(show).collect()
}
