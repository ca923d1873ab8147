//! Who wrote a batch, where it was an idempotent producer or the coordinator of its transactions.

use alluvium_record_format::{
    Batch, BatchHeader, BatchSettings, ControlRecord, Offset, ProducerEpoch, ProducerId, Sequence,
};
use anyhow::{Result, bail};

/// A producer with the epoch and the number that it gave a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    /// Of the first record; -1 in a marker.
    pub(crate) sequence: i32,
    pub(crate) kind: Kind,
}

/// What a batch of a producer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records outside of transactions.
    Plain,
    /// Records of a transaction.
    Transactional,
    /// The end of one whose records count.
    Commit,
    /// The end of one whose records do not.
    Abort,
}

impl Kind {
    /// All of them, each at the place that is its number.
    const ALL: [Self; 4] = [Self::Plain, Self::Transactional, Self::Commit, Self::Abort];

    pub(crate) const fn is_marker(self) -> bool {
        matches!(self, Self::Commit | Self::Abort)
    }
}

impl Writer {
    /// The writer as four numbers.
    pub(crate) fn to_numbers(self) -> [i64; 4] {
        let kind = Kind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or(0);
        let kind = i64::try_from(kind).unwrap_or(0);
        [self.id, self.epoch.into(), self.sequence.into(), kind]
    }

    /// A writer from [four numbers](Self::to_numbers).
    ///
    /// # Errors
    ///
    /// When they are not those of a writer.
    pub(crate) fn from_numbers([id, epoch, sequence, kind]: [i64; 4]) -> Result<Self> {
        let Some(kind) = usize::try_from(kind).ok().and_then(|kind| Kind::ALL.get(kind)) else {
            bail!("{kind} is no kind of batch");
        };
        Ok(Self { id, epoch: epoch.try_into()?, sequence: sequence.try_into()?, kind: *kind })
    }

    /// Who wrote a batch; `key` is that of its first record, where it is a control batch.
    pub(crate) fn of(batch: &Batch<'_>, key: Option<&[u8]>) -> Result<Option<Self>> {
        let header: &BatchHeader = batch.header();
        let Some(id) = header.producer_id() else { return Ok(None) };
        let attributes = header.attributes();
        let kind = match (attributes.is_control(), attributes.is_transactional()) {
            (true, _) if ControlRecord::type_of(key)? == 1 => Kind::Commit,
            (true, _) => Kind::Abort,
            (false, true) => Kind::Transactional,
            (false, false) => Kind::Plain,
        };
        let (id, epoch) = (id.get(), header.producer_epoch().get());
        let sequence = header.base_sequence().map_or(-1, Sequence::get);
        Ok(Some(Self { id, epoch, sequence, kind }))
    }

    /// The settings of a batch of this writer.
    pub(crate) fn settings(self) -> BatchSettings {
        let (id, epoch) = (ProducerId::new(self.id), ProducerEpoch::new(self.epoch));
        if self.kind.is_marker() {
            return BatchSettings::end_txn(Offset::new(0), id, epoch);
        }
        BatchSettings::new(Offset::new(0))
            .producer(id, epoch, Some(Sequence::new(self.sequence)))
            .transactional(self.kind == Kind::Transactional)
    }
}
