//! Fencing: a client that knows another leader than this one must learn of it.

use alluvium_log_manager::Log;
use kafka_protocol::ResponseError;

use super::codes::Refusal;
use crate::store::leader_epoch;

/// Compares the epoch that a client knows with that of the log; below 0 it knows none.
pub(super) fn check(log: &Log, known: i32) -> Result<(), Refusal> {
    let ours = leader_epoch(log).get();
    match known {
        ..0 => Ok(()),
        _ if known == ours => Ok(()),
        _ if known < ours => Err(ResponseError::FencedLeaderEpoch.into()),
        _ => Err(ResponseError::UnknownLeaderEpoch.into()),
    }
}
