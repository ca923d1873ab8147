//! Messages of magic 0 and 1, read and never written. Layout:
//! `docs/format/record-batch.md#legacy`.

mod entry;
mod record;
mod records;

pub use entry::LegacyEntry;
pub use record::LegacyRecord;
pub use records::LegacyRecords;
