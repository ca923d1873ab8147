//! The last batch of each producer that is still active.

use alluvium_cleaner::ActiveProducers;
use alluvium_record_format::{Offset, Timestamp};

use crate::error::CliError;
use crate::partition::Partition;
use crate::producer_state;

/// The producers at the end of the log, without those that were silent for Kafka's
/// `producer.id.expiration.ms`, a day.
pub(super) fn active(
    partition: &Partition,
    end: Offset,
    now: Timestamp,
) -> Result<ActiveProducers, CliError> {
    let mut active = ActiveProducers::default();
    for (id, producer) in producer_state::at(partition, end)? {
        let is_open = producer.open_since.is_some();
        if is_open || now.get().saturating_sub(producer.last_ms) < EXPIRATION_MS {
            active.insert(id, producer.epoch, producer.last_data);
        }
    }
    Ok(active)
}

/// Kafka's default of `producer.id.expiration.ms`.
const EXPIRATION_MS: i64 = 86_400_000;
