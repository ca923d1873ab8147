//! Which leader epoch begins at which offset.

mod file;

pub use file::{EpochEntry, encode_epochs, parse_epochs, read_epochs};
