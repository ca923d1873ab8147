//! Walking the headers of 16 KiB batches with their CRC, against the CRC alone.

use alluvium_record_format::{Batch, Position};
use anyhow::Result;

use super::Run;
use super::batches::{Batches, RECORDS};
use super::pair::{Bar, Bench, Outcome, must_refuse};

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] = &[("walk-16KiB-batches", run)];

/// Batches in the buffer: 4 MiB, more than the inner caches hold.
const COUNT: usize = 256;

/// The bare twin is one call of the `crc32c` crate over the same bytes.
fn run(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let mut batches = Batches::build(COUNT, RECORDS)?;
    let middle = batches.bytes.len() / 2 + 1_000; // among the records of a batch
    batches.bytes[middle] ^= 1;
    must_refuse("the walk", &walk(&batches.bytes))?;
    batches.bytes[middle] ^= 1;
    let bytes = &batches.bytes;
    #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
    let mib = bytes.len() as f64 / f64::from(1 << 20);
    bench.pair(
        name,
        (mib, "MiB/s"),
        Bar(0.8),
        || walk(bytes),
        || Ok(u64::from(crc32c::crc32c(bytes))),
    )
}

fn walk(mut bytes: &[u8]) -> Result<u64> {
    let (mut at, mut next) = (Position::new(0), 0);
    while !bytes.is_empty() {
        let batch = Batch::parse(bytes, at)?;
        batch.verify_crc()?;
        next = batch.header().next_offset().get();
        let size = batch.bytes().len();
        at = at.saturating_add_len(size);
        bytes = &bytes[size..];
    }
    Ok(next.unsigned_abs())
}
