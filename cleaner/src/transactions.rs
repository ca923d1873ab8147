//! Which batches belong to aborted transactions, and which markers are still needed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use alluvium_record_format::{BatchHeader, Offset};
use alluvium_sparse_index::AbortedTxn;

/// The transactions along a walk over batches in offset order.
///
/// Source: `CleanedTransactionMetadata` in Kafka.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// Aborted ones that have not begun.
    pending: BinaryHeap<Reverse<Aborted>>,
    /// Aborted ones that have begun, by producer, and whether a batch of them was seen.
    aborted: BTreeMap<i64, (AbortedTxn, bool)>,
    /// Producers with a batch that stays, since their last marker.
    committed: BTreeSet<i64>,
}

/// Ordered by where the transaction began.
#[derive(Debug, PartialEq, Eq)]
struct Aborted(AbortedTxn);

/// What a marker says about the batches before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    /// Nothing is left that it could end.
    Idle,
    /// Batches that it commits are left, or it is no end of a transaction.
    Needed,
    /// Batches that it aborts were there until now: note the transaction in the new index.
    Aborts(AbortedTxn),
}

impl Transactions {
    /// Takes in aborted transactions, in any order. Those taken in before do no harm.
    pub(crate) fn expect(&mut self, aborted: impl IntoIterator<Item = AbortedTxn>) {
        self.pending.extend(aborted.into_iter().map(|txn| Reverse(Aborted(txn))));
    }

    /// Whether this data batch was aborted.
    pub(crate) fn data(&mut self, header: &BatchHeader) -> bool {
        self.begin_up_to(header.last_offset());
        if !header.attributes().is_transactional() {
            return false;
        }
        let producer = header.producer_id_raw();
        if let Some((_, seen)) = self.aborted.get_mut(&producer) {
            *seen = true;
            return true;
        }
        self.committed.insert(producer);
        false
    }

    /// What this control batch, whose first record is of this type, is still needed for. An
    /// empty one was cleaned before.
    pub(crate) fn control(&mut self, header: &BatchHeader, control_type: Option<i16>) -> Marker {
        self.begin_up_to(header.last_offset());
        let producer = header.producer_id_raw();
        match control_type {
            Some(ABORT) => match self.aborted.remove(&producer) {
                Some((txn, true)) => Marker::Aborts(txn),
                _ => Marker::Idle,
            },
            Some(COMMIT) if self.committed.remove(&producer) => Marker::Needed,
            None | Some(COMMIT) => Marker::Idle,
            Some(_) => Marker::Needed,
        }
    }

    fn begin_up_to(&mut self, offset: Offset) {
        while let Some(Reverse(Aborted(txn))) = self.pending.peek() {
            if txn.first_offset > offset {
                break;
            }
            let txn = *txn;
            self.aborted.entry(txn.producer_id.get()).or_insert((txn, false));
            self.pending.pop();
        }
    }
}

impl Ord for Aborted {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |it: &Self| (it.0.first_offset, it.0.last_offset);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Aborted {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Control types as stored.
const ABORT: i16 = 0;
const COMMIT: i16 = 1;
