//! What happens to batches before they are written: analysis, checks, offsets, recompression.

mod analysis;
mod check;
mod error;
mod prepare;
mod rebuild;
mod records;

pub use error::{InvalidBatch, InvalidRecord, RecordError, ValidationError};
pub use prepare::{LeaderAppend, Prepared};

pub(crate) use analysis::analyze_given;

/// Who sends the batches of an append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AppendOrigin {
    /// A producer: every check applies.
    #[default]
    Client,
    /// The transaction or group coordinator of this broker: may write control batches.
    Coordinator,
}
