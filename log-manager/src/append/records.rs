//! Hands out the records of a batch, whatever its codec.

use std::cell::RefCell;

use alluvium_record_format::{
    Batch, Codec, Decompressor, LegacyEntry, LegacyRecord, PartialRecord, Record, RecordStream,
    Records, RecordsSummary,
};

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
    if batch.header().attributes().codec() == Some(Codec::None) {
        for record in batch.records().map_err(unreadable)? {
            each(&record.map_err(unreadable)?)?;
        }
        return Ok(());
    }
    let limit = usize::try_from(max_record_bytes).unwrap_or(usize::MAX);
    with_decompressor(|decompressor| {
        let mut records = decompressor.records(batch, limit).map_err(unreadable)?;
        while let Some(record) = records.next_record() {
            each(&record.map_err(unreadable)?)?;
        }
        Ok(())
    })
}

/// As [`for_each_record`], but no key or value of a compressed batch is held whole.
pub(super) fn for_each_checked(
    batch: &Batch<'_>,
    max_record_bytes: u32,
    mut each: impl FnMut(&PartialRecord),
) -> Result<(), ValidationError> {
    let unreadable = |source| ValidationError::Unreadable { source };
    let limit = usize::try_from(max_record_bytes).unwrap_or(usize::MAX);
    with_decompressor(|decompressor| {
        let mut records = decompressor.records(batch, limit).map_err(unreadable)?;
        while let Some(record) = records.next_checked() {
            each(&record.map_err(unreadable)?);
        }
        Ok(())
    })
}

/// What all records of the batch have in common: every check of their form, none of the topic's.
pub(super) fn summary_of(
    batch: &Batch<'_>,
    max_record_bytes: u32,
) -> Result<RecordsSummary, ValidationError> {
    let unreadable = |source| ValidationError::Unreadable { source };
    if batch.header().attributes().codec() == Some(Codec::None) {
        return batch.records().and_then(Records::check).map_err(unreadable);
    }
    let limit = usize::try_from(max_record_bytes).unwrap_or(usize::MAX);
    with_decompressor(|decompressor| {
        decompressor.records(batch, limit).and_then(RecordStream::check).map_err(unreadable)
    })
}

/// Calls `each` for every message of an entry of an old format, those of a wrapper included.
pub(super) fn for_each_message(
    entry: &LegacyEntry<'_>,
    max_bytes: u32,
    mut each: impl FnMut(&LegacyRecord<'_>) -> Result<(), ValidationError>,
) -> Result<(), ValidationError> {
    let unreadable = |source| ValidationError::Unreadable { source };
    let limit = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let mut inflated = Vec::new();
    for message in entry.inflate(limit, &mut inflated).map_err(unreadable)? {
        each(&message.map_err(unreadable)?)?;
    }
    Ok(())
}

/// Lends the thread's decompressor, and gives the memory of a large record back at once.
fn with_decompressor<T>(run: impl FnOnce(&mut Decompressor) -> T) -> T {
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        let result = run(decompressor);
        decompressor.trim();
        result
    })
}

thread_local! {
    /// The state of codecs is dear to make: one for each thread that appends.
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::default();
}
