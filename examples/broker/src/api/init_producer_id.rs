//! `InitProducerId`: an id of its own for every idempotent producer.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use super::codes;
use crate::broker::Node;

pub(super) fn answer(node: &Node, request: &InitProducerIdRequest) -> InitProducerIdResponse {
    let refused = |error: ResponseError| {
        InitProducerIdResponse::default()
            .with_error_code(error.code())
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1)
    };
    if request.transactional_id.is_some() {
        return refused(ResponseError::UnsupportedVersion);
    }
    match node.producer_ids.allocate() {
        Ok(id) => InitProducerIdResponse::default()
            .with_error_code(codes::NONE)
            .with_producer_id(ProducerId(id))
            .with_producer_epoch(0),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "no producer id");
            refused(ResponseError::KafkaStorageError)
        }
    }
}
