//! What was committed: what every reader must find.

use std::sync::{PoisonError, RwLock};

use alluvium_record_format::Offset;

/// A batch that was appended: its ends and the checksum of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub(super) base: Offset,
    pub(super) last: Offset,
    pub(super) crc: u32,
}

/// The committed batches of one log, in order.
#[derive(Debug, Default)]
pub(super) struct Ledger(RwLock<Vec<Committed>>);

impl Ledger {
    /// Adds what is about to be below the high watermark.
    pub(super) fn commit(&self, batches: &[Committed]) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend_from_slice(batches);
    }

    /// The batch that holds the offset.
    pub(super) fn at(&self, offset: Offset) -> Option<Committed> {
        let batches = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let at = batches.partition_point(|batch| batch.last < offset);
        batches.get(at).copied()
    }
}
