//! Batches to measure with: 100-byte values, about 16 KiB each.

use alluvium_record_format::{BatchBuilder, BatchSettings, Offset, SimpleRecord, Timestamp};
use anyhow::{Context, Result};

use super::random::Random;

/// Records in a batch of about 16 KiB.
pub(super) const RECORDS: usize = 150;

/// The time of the first record; each later one is a millisecond on.
pub(super) const FIRST_TIMESTAMP: i64 = 1_750_000_000_000;

/// Bytes of each value.
const VALUE_BYTES: usize = 100;

/// Some batches in one buffer, offsets from 0 without a gap, and where each begins and ends.
#[derive(Debug)]
pub(super) struct Batches {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
}

impl Batches {
    /// Builds `count` batches of `records` records each.
    ///
    /// # Errors
    ///
    /// When the builder refuses.
    pub(super) fn build(count: usize, records: usize) -> Result<Self> {
        Self::timed(count, records, 1)
    }

    /// The same with so many records to the millisecond.
    ///
    /// # Errors
    ///
    /// When the builder refuses.
    pub(super) fn timed(count: usize, records: usize, per_ms: i64) -> Result<Self> {
        let mut random = Random::new(7);
        let mut built = Self { bytes: Vec::new(), ends: Vec::new() };
        let mut value = [0; VALUE_BYTES];
        let mut offset = 0;
        for _ in 0..count {
            let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(offset)));
            for _ in 0..records {
                random.fill(&mut value);
                let time = Timestamp::new(FIRST_TIMESTAMP + offset / per_ms);
                let record = SimpleRecord::new().timestamp(time).value(&value);
                builder.append(&record).context("cannot build a batch")?;
                offset += 1;
            }
            built.bytes.extend_from_slice(builder.finish().context("cannot build a batch")?);
            built.ends.push(built.bytes.len());
        }
        Ok(built)
    }

    /// All bytes in MiB.
    #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
    pub(super) fn mib(&self) -> f64 {
        self.bytes.len() as f64 / f64::from(1 << 20)
    }

    /// How many batches.
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    pub(super) fn count(&self) -> f64 {
        self.ends.len() as f64
    }

    /// Each batch.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// Each batch in a buffer of its own.
    pub(super) fn copies(&self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }
}
