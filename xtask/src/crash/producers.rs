//! The slow model of producers: what the batches of a log, one behind the other, say of them.

use std::collections::BTreeMap;

use crate::proof::{FoundBatch, Kind};

/// What a log is to know about a producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Producer {
    pub(super) epoch: i16,
    /// Its last batch of records of this epoch.
    pub(super) last: Option<Last>,
    /// Where its open transaction began.
    pub(super) open: Option<i64>,
}

/// The last batch of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    /// The sequence of its last record.
    pub(super) sequence: i32,
    /// The offsets of its first and its last one.
    pub(super) from: i64,
    pub(super) to: i64,
}

impl Last {
    pub(super) fn count(self) -> i64 {
        self.to - self.from + 1
    }
}

impl Producer {
    /// The number that its next record has.
    pub(super) fn next_sequence(&self) -> i32 {
        self.last.map_or(0, |last| last.sequence + 1)
    }

    fn take(&mut self, batch: &FoundBatch, kind: Kind, sequence: i32) {
        if kind.is_marker() {
            self.open = None;
            return;
        }
        let (from, to) = (batch.first, batch.last);
        let sequence = sequence + i32::try_from(to - from).unwrap_or(0);
        self.last = Some(Last { sequence, from, to });
        if kind == Kind::Transactional {
            self.open.get_or_insert(from);
        }
    }
}

/// The producers after these batches.
pub(super) fn after<'b>(
    batches: impl IntoIterator<Item = &'b FoundBatch>,
) -> BTreeMap<i64, Producer> {
    let mut producers = BTreeMap::<i64, Producer>::new();
    for batch in batches {
        let Some(writer) = batch.writer else { continue };
        let producer = producers.entry(writer.id).or_default();
        if producer.open.is_some() && writer.kind == Kind::Plain {
            // The marker between is lost: no leader would take it, and a replay passes over it.
            continue;
        }
        if producer.epoch != writer.epoch {
            (producer.epoch, producer.last) = (writer.epoch, None);
        }
        producer.take(batch, writer.kind, writer.sequence);
    }
    producers
}

/// How the transaction of a record ended, if it did.
pub(super) fn outcome(batches: &[FoundBatch], id: i64, offset: i64) -> Option<Kind> {
    let behind = batches.partition_point(|batch| batch.last < offset);
    let mut writers = batches[behind..].iter().filter_map(|batch| batch.writer);
    writers.find(|writer| writer.id == id && writer.kind.is_marker()).map(|writer| writer.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::Writer;

    fn batch(first: i64, last: i64, (epoch, sequence, kind): (i16, i32, Kind)) -> FoundBatch {
        let writer = Some(Writer { id: 7, epoch, sequence, kind });
        FoundBatch { first, last, leader_epoch: 0, writer }
    }

    #[test]
    fn a_marker_ends_what_is_open_and_a_new_epoch_begins_to_count_at_0() {
        let mut batches = vec![
            batch(0, 2, (0, 0, Kind::Plain)),
            batch(3, 4, (0, 3, Kind::Transactional)),
            batch(5, 5, (0, 5, Kind::Transactional)),
        ];
        let open = after(&batches)[&7];
        assert_eq!((open.open, open.next_sequence()), (Some(3), 6));
        assert_eq!(outcome(&batches, 7, 4), None);

        batches.push(batch(6, 6, (1, -1, Kind::Abort)));
        let ended = after(&batches)[&7];
        assert_eq!((ended.open, ended.epoch, ended.next_sequence()), (None, 1, 0));
        assert_eq!(outcome(&batches, 7, 4), Some(Kind::Abort));
        assert_eq!(outcome(&batches, 8, 4), None);
    }
}
