#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod checkpoint;
mod clean_shutdown;
mod damage;
mod durable;
mod epochs;
mod error;
mod loader;
mod meta_properties;
mod partition_metadata;
mod producers;
mod properties;
mod replay;
mod scan;
mod snapshot;
mod text;

pub use checkpoint::{CheckpointKind, OffsetCheckpoint, TopicPartition};
pub use clean_shutdown::CleanShutdown;
pub use damage::{Damage, DamageKind};
pub use durable::{replace_file, sync_directory};
pub use epochs::{
    EpochEntry, LeaderEpochCache, PendingEpochs, encode_epochs, parse_epochs, read_epochs,
};
pub use error::{FileAction, FileError};
pub use loader::{
    Change, LoadConfig, LoadError, LoadPlan, LoadReport, LoadedLog, Progress, Reason,
    RecoveredSegment, Step, Warning, load, plan,
};
pub use meta_properties::{MetaConflict, MetaProperties, MetaVersion};
pub use partition_metadata::PartitionMetadata;
pub use producers::{
    AppendOrigin, AppendRequest, BatchContent, BatchMetadata, BatchPlace, BatchWindow,
    CompletedTxn, OngoingTxn, Prepared, PreparedAppend, ProducerBatch, ProducerEntry,
    ProducerError, ProducerState, ProducerStateConfig, SnapshotDir, SnapshotStore, TxnMarker,
    VerificationGuard, VerificationRequest,
};
pub use properties::Properties;
pub use replay::{Replay, rebuild_producer_state};
pub use scan::{FoundBatch, FoundEntry, ScanConfig};
pub use snapshot::{ProducerSnapshot, SnapshotEntry, encode_snapshot, read_snapshot};
