//! Transactions that hold back the last stable offset.

use std::collections::BTreeMap;

use alluvium_record_format::{Offset, ProducerId};

use crate::BatchPlace;

/// A transaction that has records in the log and no marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OngoingTxn {
    /// The producer.
    pub producer_id: ProducerId,
    /// The offset of the first record.
    pub first_offset: Offset,
    /// Where the first batch lies; not known after a snapshot was loaded.
    pub place: Option<BatchPlace>,
}

/// A transaction that a marker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompletedTxn {
    /// The producer.
    pub producer_id: ProducerId,
    /// The offset of the first record.
    pub first_offset: Offset,
    /// The offset of the marker.
    pub last_offset: Offset,
    /// Whether it was aborted, so belongs into the transaction index.
    pub is_aborted: bool,
}

impl CompletedTxn {
    pub(super) const fn new(
        producer_id: ProducerId,
        first_offset: Offset,
        last_offset: Offset,
        is_aborted: bool,
    ) -> Self {
        Self { producer_id, first_offset, last_offset, is_aborted }
    }
}

/// All transactions that hold back the last stable offset, by first offset.
#[derive(Clone, Debug, Default)]
pub(super) struct Transactions {
    ongoing: BTreeMap<Offset, OngoingTxn>,
    /// Ended by a marker that is not below the high watermark yet, with the marker's offset.
    unreplicated: BTreeMap<Offset, (OngoingTxn, Offset)>,
}

impl Transactions {
    pub(super) fn clear(&mut self) {
        self.ongoing.clear();
        self.unreplicated.clear();
    }

    pub(super) fn begin(&mut self, txn: OngoingTxn) {
        self.ongoing.insert(txn.first_offset, txn);
    }

    /// Moves an ongoing transaction to those that wait for the high watermark; false where there
    /// is none of this first offset.
    pub(super) fn complete(&mut self, completed: &CompletedTxn) -> bool {
        let Some(txn) = self.ongoing.remove(&completed.first_offset) else { return false };
        self.unreplicated.insert(completed.first_offset, (txn, completed.last_offset));
        true
    }

    /// Forgets the completed transactions whose marker is below `offset`.
    pub(super) fn remove_replicated(&mut self, offset: Offset) {
        self.unreplicated.retain(|_, (_, marker)| *marker >= offset);
    }

    /// The last stable offset right after the marker of `completed`.
    pub(super) fn last_stable_offset(&self, completed: &CompletedTxn) -> Offset {
        let other = self.ongoing.values().find(|txn| txn.producer_id != completed.producer_id);
        let after_marker = Offset::new(completed.last_offset.get().saturating_add(1));
        other.map_or(after_marker, |txn| txn.first_offset)
    }

    pub(super) fn first_ongoing(&self) -> Option<&OngoingTxn> {
        self.ongoing.values().next()
    }

    /// The first that holds back the last stable offset.
    pub(super) fn first_unstable(&self) -> Option<&OngoingTxn> {
        let unreplicated = self.unreplicated.values().next().map(|(txn, _)| txn);
        self.first_ongoing().into_iter().chain(unreplicated).min_by_key(|txn| txn.first_offset)
    }

    pub(super) fn has_unreplicated(&self) -> bool {
        !self.unreplicated.is_empty()
    }

    pub(super) fn ongoing(&self) -> impl Iterator<Item = &OngoingTxn> {
        self.ongoing.values()
    }
}
