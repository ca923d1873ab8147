//! The records of an entry, whatever its codec.

use alluvium_record_format::{Batch, Corruption, Decompressor, Entry, Records, Timestamp};

/// The largest payload that is inflated: Kafka's `max.decompressed.message.bytes`.
const LIMIT_BYTES: usize = 2_147_483_639;

/// Decompresses batches, and keeps its buffers from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Inflater {
    decompressor: Decompressor,
    buffer: Vec<u8>,
}

impl Inflater {
    /// The records of a batch.
    pub(crate) fn records<'b>(&'b mut self, batch: &Batch<'b>) -> Result<Records<'b>, Corruption> {
        self.decompressor.inflate(batch, LIMIT_BYTES, &mut self.buffer)
    }

    /// The largest timestamp of the records of an entry, -1 without any. `None` where they
    /// cannot be read.
    pub(crate) fn max_timestamp(&mut self, entry: &Entry<'_>) -> Option<i64> {
        let Entry::Batch(batch) = entry else { return None };
        let mut max = -1;
        for record in self.records(batch).ok()? {
            max = max.max(record.ok()?.timestamp().map_or(-1, Timestamp::get));
        }
        Some(max)
    }
}
