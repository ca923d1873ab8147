//! What happens to batches before they are written: analysis, checks, offsets, recompression.

mod analysis;
mod check;
mod error;
mod prepare;
mod rebuild;
mod records;

pub use alluvium_recovery::AppendOrigin;
pub use error::{InvalidBatch, InvalidRecord, RecordError, ValidationError};
pub use prepare::{LeaderAppend, Prepared};

pub(crate) use analysis::analyze_given;
