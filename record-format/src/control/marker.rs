//! The end of a transaction.

use super::ControlRecord;

/// Ends a transaction of the producer that the batch names. One such record stands alone in a
/// batch of 78 bytes.
///
/// Source: `EndTransactionMarker` in Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndTxnMarker {
    /// What became of the transaction.
    pub outcome: TxnOutcome,
    /// The epoch of the coordinator that decided; a later one fences it.
    pub coordinator_epoch: i32,
}

impl EndTxnMarker {
    /// A marker of this outcome.
    #[must_use]
    pub const fn new(outcome: TxnOutcome, coordinator_epoch: i32) -> Self {
        Self { outcome, coordinator_epoch }
    }
}

impl From<EndTxnMarker> for ControlRecord {
    fn from(marker: EndTxnMarker) -> Self {
        Self::EndTxn(marker)
    }
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TxnOutcome {
    /// Its records are to be left out by `read_committed` readers.
    Abort,
    /// Its records count.
    Commit,
}

impl TxnOutcome {
    /// The type of the control record.
    #[must_use]
    pub const fn type_id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
        }
    }

    /// Kafka's name, as the dump tool prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Abort => "ABORT",
            Self::Commit => "COMMIT",
        }
    }
}
