//! What a log knows about its producers: sequences, epochs, transactions.

mod batch;
mod check;
mod entry;
mod error;
mod prepare;
mod snapshots;
mod state;
mod txns;
mod verification;
mod window;

pub use batch::{AppendOrigin, BatchContent, BatchPlace, ProducerBatch, TxnMarker};
pub use entry::ProducerEntry;
pub use error::ProducerError;
pub use prepare::{AppendRequest, Prepared, PreparedAppend};
pub use snapshots::{SnapshotDir, SnapshotStore};
pub(crate) use snapshots::{is_snapshot, snapshot_name};
pub use state::{ProducerState, ProducerStateConfig};
pub use txns::{CompletedTxn, OngoingTxn};
pub use verification::{VerificationGuard, VerificationRequest};
pub use window::{BatchMetadata, BatchWindow};
