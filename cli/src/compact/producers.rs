//! The last batch of each producer that is still active.

use std::collections::BTreeMap;

use alluvium_cleaner::ActiveProducers;
use alluvium_record_format::{BatchHeader, Offset, ProducerEpoch, ProducerId, Timestamp};
use alluvium_recovery::read_snapshot;
use alluvium_segment::Io;

use crate::error::CliError;
use crate::log_file::LogFile;
use crate::partition::Partition;
use crate::walk::{Step, Walk};

/// What is known of a producer.
#[derive(Clone, Copy)]
struct Last {
    epoch: ProducerEpoch,
    data: Option<Offset>,
    timestamp: i64,
    is_open: bool,
}

/// The producers of the newest snapshot up to `end`, and of all batches behind it, without those
/// that were silent for Kafka's `producer.id.expiration.ms`, a day.
pub(super) fn active(
    partition: &Partition,
    end: Offset,
    now: Timestamp,
) -> Result<ActiveProducers, CliError> {
    let (from, mut producers) = newest_snapshot(partition, end);
    let bases: Vec<Offset> = partition.logs().map(|(files, _)| files.base).collect();
    for (index, (_, log)) in partition.logs().enumerate() {
        if from < end && bases.get(index + 1).is_none_or(|next| *next > from) {
            replay(&LogFile::open(&log.path)?, from, &mut producers)?;
        }
    }
    let mut active = ActiveProducers::default();
    for (id, last) in producers {
        if last.is_open || now.get().saturating_sub(last.timestamp) < EXPIRATION_MS {
            active.insert(id, last.epoch, last.data);
        }
    }
    Ok(active)
}

fn newest_snapshot(partition: &Partition, end: Offset) -> (Offset, BTreeMap<ProducerId, Last>) {
    for (offset, file) in partition.snapshots.iter().rev().filter(|(offset, _)| *offset <= end) {
        let Ok(entries) = read_snapshot(&Io::new(), &file.path) else { continue };
        let last = entries.iter().map(|entry| {
            let last = Last {
                epoch: entry.producer_epoch,
                data: entry.last_batch().map(|batch| batch.last_offset),
                timestamp: entry.last_timestamp.get(),
                is_open: entry.current_txn_first_offset.is_some(),
            };
            (entry.producer_id, last)
        });
        return (*offset, last.collect());
    }
    (Offset::new(0), BTreeMap::new())
}

fn replay(
    file: &LogFile,
    from: Offset,
    producers: &mut BTreeMap<ProducerId, Last>,
) -> Result<(), CliError> {
    let mut walk = Walk::new(file, 0);
    loop {
        match walk.step()? {
            Step::Entry(head) if head.base_offset >= from => {
                if let Some(header) = &head.header {
                    follow(header, producers);
                }
            }
            Step::End => return Ok(()),
            _ => {}
        }
    }
}

fn follow(header: &BatchHeader, producers: &mut BTreeMap<ProducerId, Last>) {
    let Some(id) = header.producer_id() else { return };
    let epoch = header.producer_epoch();
    let new = Last { epoch, data: None, timestamp: -1, is_open: false };
    let last = producers.entry(id).or_insert(new);
    if last.epoch != epoch {
        *last = Last { is_open: last.is_open, ..new };
    }
    last.timestamp = header.max_timestamp_raw();
    if header.attributes().is_control() {
        last.is_open = false;
    } else {
        last.data = Some(header.last_offset());
        last.is_open = header.attributes().is_transactional();
    }
}

/// Kafka's default of `producer.id.expiration.ms`.
const EXPIRATION_MS: i64 = 86_400_000;
