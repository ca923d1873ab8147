//! Where a log ends, and up to where all transactions are decided.

use std::collections::BTreeMap;

use alluvium_record_format::{BatchHeader, Offset, ProducerId};
use alluvium_recovery::read_snapshot;
use alluvium_segment::Io;

use crate::error::CliError;
use crate::log_file::LogFile;
use crate::partition::Partition;
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
    let (from, mut open) = newest_snapshot(partition, end);
    let bases: Vec<Offset> = partition.logs().map(|(segment, _)| segment.base).collect();
    for (index, (_, log)) in partition.logs().enumerate() {
        if from < end && bases.get(index + 1).is_none_or(|next| *next > from) {
            replay(&LogFile::open(&log.path)?, from, &mut open)?;
        }
    }
    let first_open = open.values().min().copied();
    let last_stable = first_open.map_or(end, |first| first.clamp(log_start.min(end), end));
    Ok(LogEnd { end, last_stable, open })
}

/// The open transactions of the newest snapshot up to the end of the log.
fn newest_snapshot(partition: &Partition, end: Offset) -> (Offset, BTreeMap<ProducerId, Offset>) {
    for (offset, file) in partition.snapshots.iter().rev().filter(|(offset, _)| *offset <= end) {
        // Kafka takes the one before a damaged snapshot, too.
        let Ok(producers) = read_snapshot(&Io::new(), &file.path) else { continue };
        let open = producers
            .into_iter()
            .filter_map(|producer| Some((producer.producer_id, producer.current_txn_first_offset?)))
            .collect();
        return (*offset, open);
    }
    (Offset::new(0), BTreeMap::new())
}

/// Follows transactions over the batches from offset `from` on.
fn replay(
    file: &LogFile,
    from: Offset,
    open: &mut BTreeMap<ProducerId, Offset>,
) -> Result<(), CliError> {
    let mut walk = Walk::new(file, 0);
    loop {
        match walk.step()? {
            Step::Entry(head) if head.base_offset >= from => {
                if let Some(header) = &head.header {
                    follow(header, open);
                }
            }
            Step::End => return Ok(()),
            _ => {}
        }
    }
}

/// Follows the transaction of one batch. A marker without records, left by the cleaner, ends
/// nothing.
fn follow(header: &BatchHeader, open: &mut BTreeMap<ProducerId, Offset>) {
    let attributes = header.attributes();
    let Some(producer_id) = header.producer_id().filter(|_| attributes.is_transactional()) else {
        return;
    };
    if !attributes.is_control() {
        open.entry(producer_id).or_insert(header.base_offset());
    } else if header.record_count() > 0 {
        open.remove(&producer_id);
    }
}

fn next(offset: Offset) -> Offset {
    offset.checked_add(1).unwrap_or(offset)
}
