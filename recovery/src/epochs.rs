//! Which leader epoch begins at which offset.

mod cache;
mod file;

pub use cache::{LeaderEpochCache, PendingEpochs};
pub use file::{EpochEntry, encode_epochs, parse_epochs, read_epochs};
