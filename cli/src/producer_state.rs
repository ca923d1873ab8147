//! What a start of the broker knows of the producers of a partition: the newest snapshot that can
//! be read, and the heads of all batches behind it.

use std::collections::BTreeMap;

use alluvium_record_format::{BatchHeader, Offset, ProducerEpoch, ProducerId};
use alluvium_recovery::read_snapshot;
use alluvium_segment::Io;

use crate::error::CliError;
use crate::log_file::LogFile;
use crate::partition::Partition;
use crate::walk::{Step, Walk};

/// What is known of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) epoch: ProducerEpoch,
    /// The last offset of its last batch of data.
    pub(crate) last_data: Option<Offset>,
    /// The time of its last batch, in milliseconds since the epoch.
    pub(crate) last_ms: i64,
    /// Where its open transaction began.
    pub(crate) open_since: Option<Offset>,
}

/// All producers.
pub(crate) type Producers = BTreeMap<ProducerId, Producer>;

/// The producers at the end of a log.
pub(crate) fn at(partition: &Partition, end: Offset) -> Result<Producers, CliError> {
    let (from, mut producers) = newest_snapshot(partition, end);
    let bases: Vec<Offset> = partition.logs().map(|(files, _)| files.base).collect();
    for (index, (_, log)) in partition.logs().enumerate() {
        if from < end && bases.get(index + 1).is_none_or(|next| *next > from) {
            replay(&LogFile::open(&log.path)?, from, &mut producers)?;
        }
    }
    Ok(producers)
}

/// The producers of the newest snapshot up to the end of the log.
fn newest_snapshot(partition: &Partition, end: Offset) -> (Offset, Producers) {
    for (offset, file) in partition.snapshots.iter().rev().filter(|(offset, _)| *offset <= end) {
        // Kafka takes the one before a damaged snapshot, too.
        let Ok(entries) = read_snapshot(&Io::new(), &file.path) else { continue };
        let producers = entries.iter().map(|entry| {
            let producer = Producer {
                epoch: entry.producer_epoch,
                last_data: entry.last_batch().map(|batch| batch.last_offset),
                last_ms: entry.last_timestamp.get(),
                open_since: entry.current_txn_first_offset,
            };
            (entry.producer_id, producer)
        });
        return (*offset, producers.collect());
    }
    (Offset::new(0), Producers::new())
}

/// Follows producers over the batches from offset `from` on.
fn replay(file: &LogFile, from: Offset, producers: &mut Producers) -> Result<(), CliError> {
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

/// Follows one batch. A marker without records, left by the cleaner, changes nothing.
///
/// Source: `ProducerAppendInfo.append` in Kafka.
fn follow(header: &BatchHeader, producers: &mut Producers) {
    let (Some(id), attributes) = (header.producer_id(), header.attributes()) else { return };
    if attributes.is_control() && header.record_count() == 0 {
        return;
    }
    let epoch = header.producer_epoch();
    let new = Producer { epoch, last_data: None, last_ms: -1, open_since: None };
    let producer = producers.entry(id).or_insert(new);
    if producer.epoch != epoch {
        *producer = Producer { open_since: producer.open_since, ..new };
    }
    producer.last_ms = header.max_timestamp_raw();
    if attributes.is_control() {
        producer.open_since = None;
        return;
    }
    producer.last_data = Some(header.last_offset());
    if attributes.is_transactional() {
        producer.open_since.get_or_insert(header.base_offset());
    }
}

#[cfg(test)]
mod tests {
    use alluvium_record_format::Position;

    use super::*;

    /// The head of a batch of offsets 100 and 101 by producer 7 in epoch 3, at time 5.
    fn head(attributes: u8, record_count: u8) -> BatchHeader {
        let mut bytes = [0; 61];
        bytes[7] = 100;
        bytes[11] = 49;
        bytes[16] = 2;
        bytes[22] = attributes;
        bytes[26] = 1;
        bytes[42] = 5;
        bytes[50] = 7;
        bytes[52] = 3;
        bytes[60] = record_count;
        *BatchHeader::parse(&bytes, Position::new(0)).unwrap()
    }

    fn after(batches: &[BatchHeader]) -> Option<Producer> {
        let mut producers = Producers::new();
        for batch in batches {
            follow(batch, &mut producers);
        }
        producers.get(&ProducerId::new(7)).copied()
    }

    const TRANSACTIONAL: u8 = 0x10;
    const MARKER: u8 = 0x30;

    #[test]
    fn a_marker_ends_the_transaction_that_data_began() {
        let open = after(&[head(TRANSACTIONAL, 2)]).unwrap();
        assert_eq!(open.open_since, Some(Offset::new(100)));
        let ended = after(&[head(TRANSACTIONAL, 2), head(MARKER, 1)]).unwrap();
        assert_eq!(ended, Producer { open_since: None, ..open });
    }

    #[test]
    fn a_marker_that_the_cleaner_has_emptied_ends_nothing_and_makes_nobody_known() {
        let open = after(&[head(TRANSACTIONAL, 2)]);
        assert_eq!(after(&[head(TRANSACTIONAL, 2), head(MARKER, 0)]), open);
        assert_eq!(after(&[head(MARKER, 0)]), None);
    }

    #[test]
    fn data_outside_of_transactions_opens_none() {
        let known = after(&[head(0, 2)]).unwrap();
        assert_eq!((known.last_data, known.open_since), (Some(Offset::new(101)), None));
    }
}
