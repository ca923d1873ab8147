//! Where a log ends, and up to where all transactions are decided.

use std::collections::BTreeMap;

use alluvium_record_format::{Offset, ProducerId};

use crate::error::CliError;
use crate::log_file::LogFile;
use crate::partition::Partition;
use crate::producer_state;
use crate::walk::{Step, Walk};

/// The ends of a log.
#[derive(Clone, Debug)]
pub(crate) struct LogEnd {
    /// The offset after the last record.
    pub(crate) end: Offset,
    /// The first offset of the earliest open transaction, else `end`.
    pub(crate) last_stable: Offset,
    /// Producers with an open transaction, and where it began.
    pub(crate) open: BTreeMap<ProducerId, Offset>,
}

/// Finds the ends: from the newest snapshot that can be read, then the heads of all batches
/// behind it. After a clean stop that is the heads of the last segment.
pub(crate) fn of(partition: &Partition, log_start: Offset) -> Result<LogEnd, CliError> {
    let last = partition.logs().next_back();
    let mut end = last.map_or(log_start, |(segment, _)| segment.base.max(log_start));
    if let Some((_, log)) = last {
        let file = LogFile::open(&log.path)?;
        let mut walk = Walk::new(&file, 0);
        loop {
            match walk.step()? {
                Step::Entry(head) => end = end.max(next(head.last_offset)),
                Step::End => break,
                Step::Damage { .. } | Step::Tail { .. } => {}
            }
        }
    }
    let producers = producer_state::at(partition, end)?.into_iter();
    let open: BTreeMap<_, _> =
        producers.filter_map(|(id, producer)| Some((id, producer.open_since?))).collect();
    let first_open = open.values().min().copied();
    let last_stable = first_open.map_or(end, |first| first.clamp(log_start.min(end), end));
    Ok(LogEnd { end, last_stable, open })
}

fn next(offset: Offset) -> Offset {
    offset.checked_add(1).unwrap_or(offset)
}
