//! Hands out the records of a batch, whatever its codec.

use std::cell::RefCell;

use alluvium_record_format::{Batch, Decompressor, Record};

use super::ValidationError;

/// Calls `each` for every record of the batch, one at a time.
///
/// A compressed payload is inflated record by record: memory stays bounded by the largest record,
/// which must not have more than `max_record_bytes`.
pub(super) fn for_each_record(
    batch: &Batch<'_>,
    max_record_bytes: u32,
    mut each: impl FnMut(&Record<'_>) -> Result<(), ValidationError>,
) -> Result<(), ValidationError> {
    let unreadable = |source| ValidationError::Unreadable { source };
    let limit = usize::try_from(max_record_bytes).unwrap_or(usize::MAX);
    SCRATCH.with_borrow_mut(|scratch| {
        let Scratch { decompressor, buffer } = scratch;
        for record in decompressor.inflate(batch, limit, buffer).map_err(unreadable)? {
            each(&record.map_err(unreadable)?)?;
        }
        Ok(())
    })
}

#[derive(Default)]
struct Scratch {
    decompressor: Decompressor,
    buffer: Vec<u8>,
}

thread_local! {
    /// The state of codecs is dear to make: one for each thread that appends.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}
