//! `DescribeCluster`: the one broker.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterRequest, DescribeClusterResponse};
use kafka_protocol::protocol::StrBytes;

use super::codes;
use super::metadata::{CLUSTER_OPERATIONS, NO_OPERATIONS};
use crate::broker::Node;
use crate::net::Peer;

pub(super) fn answer(
    node: &Node,
    peer: &Peer<'_>,
    version: i16,
    request: &DescribeClusterRequest,
) -> DescribeClusterResponse {
    if version >= 1 && request.endpoint_type != BROKERS {
        return DescribeClusterResponse::default()
            .with_error_code(ResponseError::MismatchedEndpointType.code())
            .with_error_message(Some(StrBytes::from_static_str("there are brokers alone here")));
    }
    let (host, port) = node.advertised(peer.local);
    let id = BrokerId(node.identity.node_id);
    let broker = DescribeClusterBroker::default()
        .with_broker_id(id)
        .with_host(StrBytes::from_string(host))
        .with_port(port)
        .with_rack(None);
    let operations = if request.include_cluster_authorized_operations {
        CLUSTER_OPERATIONS
    } else {
        NO_OPERATIONS
    };
    DescribeClusterResponse::default()
        .with_error_code(codes::NONE)
        .with_error_message(None)
        .with_endpoint_type(BROKERS)
        .with_cluster_id(StrBytes::from_string(node.identity.cluster_id.clone()))
        .with_controller_id(id)
        .with_brokers(vec![broker])
        .with_cluster_authorized_operations(operations)
}

/// Kafka's number for "brokers", where 2 are controllers.
const BROKERS: i8 = 1;
