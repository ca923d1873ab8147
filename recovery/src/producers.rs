//! What a log knows about its producers: sequences, epochs, transactions.

mod entry;
mod window;

pub use entry::ProducerEntry;
pub use window::{BatchMetadata, BatchWindow};
