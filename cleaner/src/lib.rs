#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod aborted;
mod bits;
mod build;
mod cached;
mod clean;
mod error;
mod group;
mod hash;
mod host;
mod keys;
mod lags;
mod manager;
mod memory;
mod offset_map;
mod options;
mod output;
mod rewrite;
mod rules;
mod transactions;
mod verdicts;

pub use clean::{CleanReport, CleanedGroup, CleanedSegment, Cleaner, Counts, Progress, clean};
pub use error::CleanError;
pub use host::{CleanHost, LeaveOld, Offline};
pub use lags::CompactionLags;
pub use manager::{
    CleanerGate, CleanerStats, LogCleaner, LogCleanerConfig, Outcome, RetryPolicy, Round,
    Uncleanable,
};
pub use offset_map::OffsetMap;
pub use options::{ActiveProducers, CleanOptions, CleanerConfig};

/// The names of the metrics.
pub mod metrics {
    pub use crate::manager::metrics::*;
}
