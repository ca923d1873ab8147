#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]
#![warn(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

#[cfg(not(target_os = "linux"))]
compile_error!("index files are mapped by Linux's rules: other systems are not supported");

mod block_keys;
mod builder;
mod entry;
mod error;
mod index_file;
mod lazy;
#[expect(unsafe_code, reason = "the one module that maps files; each use is proved there")]
mod map;
mod neighbours;
mod offset_index;
mod offset_index_file;
mod published;
mod rule;
mod search;
mod shared_methods;
mod slot_reader;
mod time_index;
mod time_index_file;
mod transaction_index;
mod transaction_index_file;

pub use builder::{BuiltIndexes, IndexBuilder};
pub use entry::{AbortedTxn, OffsetEntry, TimeEntry};
pub use error::{IndexError, Refusal};
pub use lazy::LazyIndex;
pub use map::MapPermit;
pub use neighbours::OffsetNeighbours;
pub use offset_index::{OffsetEntries, OffsetIndex};
pub use offset_index_file::OffsetIndexFile;
pub use rule::{BatchInfo, DueEntries, IndexRule};
pub use time_index::{TimeEntries, TimeIndex};
pub use time_index_file::TimeIndexFile;
pub use transaction_index::{AbortedTxns, CollectedTxns, TransactionIndex};
pub use transaction_index_file::TransactionIndexFile;
