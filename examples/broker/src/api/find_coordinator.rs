//! `FindCoordinator`: there are no groups and no transactions yet, so nobody coordinates them.
//!
//! It is served all the same: a client that does not find it takes the broker for one of the time
//! before lz4.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{BrokerId, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

pub(super) fn answer() -> FindCoordinatorResponse {
    FindCoordinatorResponse::default()
        .with_error_code(ResponseError::CoordinatorNotAvailable.code())
        .with_error_message(Some(StrBytes::from_static_str("this broker coordinates no groups")))
        .with_node_id(BrokerId(-1))
        .with_host(StrBytes::from_static_str(""))
        .with_port(-1)
}
