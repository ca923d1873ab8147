#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "std"), no_std)]
#![warn(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

extern crate alloc;

mod batch;
mod codec;
mod control;
mod crc;
mod entry;
mod error;
mod legacy;
mod record;
mod record_stream;
mod units;
mod uuid;
mod varint;

pub use batch::{
    Attributes, Batch, BatchBuilder, BatchHeader, BatchMut, BatchSettings, BuildError,
    TimestampType,
};
pub use codec::Codec;
pub use codec::compress::{CompressError, Compressor, compress};
pub use codec::decode::Decoder;
pub use codec::decompress::{Decompressor, decompress};
pub use control::{
    ControlRecord, EndTxnMarker, Endpoint, KRaftVersion, KRaftVoter, KRaftVoters, LeaderChange,
    SnapshotFooter, SnapshotHeader, TxnOutcome, Voter,
};
pub use crc::{crc32_append, crc32c, crc32c_append};
pub use entry::{Entries, Entry, Prefix, Walker};
pub use error::{CorruptClass, CorruptKind, Corruption};
pub use legacy::{LegacyEntry, LegacyRecord, LegacyRecords};
pub use record::{
    Header, Headers, OffsetRange, Record, RecordKey, RecordKeys, Records, RecordsSummary,
    SimpleRecord,
};
pub use record_stream::{PartialRecord, RecordPiece, RecordStream};
pub use units::{
    LeaderEpoch, Offset, Position, ProducerEpoch, ProducerId, RelativeOffset, Sequence, Timestamp,
};
pub use uuid::Uuid;
