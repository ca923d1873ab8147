//! Record batches of magic 2. Layout: `docs/format/record-batch.md`.

mod attributes;
mod build_error;
mod builder;
mod edit;
mod header;
mod settings;
mod view;

pub use attributes::{Attributes, TimestampType};
pub use build_error::BuildError;
pub use builder::BatchBuilder;
pub use edit::BatchMut;
pub use header::BatchHeader;
pub use settings::BatchSettings;
pub use view::Batch;
