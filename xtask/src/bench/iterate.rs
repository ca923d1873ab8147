//! Iterating 100-byte uncompressed records, against skipping over their length varints.

use alluvium_record_format::{Batch, Position};
use anyhow::{Result, bail, ensure};

use super::Run;
use super::batches::{Batches, RECORDS};
use super::pair::{Bar, Bench, Outcome, must_refuse};
use crate::allocations;

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] = &[("iterate-100B-records", run)];

/// Batches a slice: 1 MiB.
const COUNT: usize = 64;

/// The bare twin reads each length and jumps; ours reads every field of every record.
fn run(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let batches = Batches::build(COUNT, RECORDS)?;
    let views = batches.iter().map(|bytes| Batch::parse(bytes, Position::new(0)));
    let views: Vec<Batch<'_>> = views.collect::<Result<_, _>>()?;
    prove(&batches)?;
    let payloads: Vec<&[u8]> = views.iter().map(Batch::payload).collect();
    let allocations = allocations::during(|| iterate(&views))?;
    ensure!(allocations == 0, "iterating allocates {allocations} times");
    let count = u32::try_from(COUNT * RECORDS)?;
    bench.pair(
        name,
        (f64::from(count) / 1e6, "M/s"),
        Bar(0.5),
        || iterate(&views),
        || skip(&payloads),
    )
}

/// A record whose length is off by one must be refused.
fn prove(batches: &Batches) -> Result<()> {
    let first = batches.iter().next().unwrap_or_default();
    let mut damaged = first.to_vec();
    // The lowest bit of the first record's length varint is its sign.
    damaged[61] ^= 2;
    must_refuse("the iterator", &iterate(&[Batch::parse(&damaged, Position::new(0))?]))
}

fn iterate(batches: &[Batch<'_>]) -> Result<u64> {
    let mut sum = 0_u64;
    for batch in batches {
        for record in batch.records()? {
            let record = record?;
            let bytes = record.value().map_or(0, <[u8]>::len);
            sum = sum.wrapping_add(record.offset().get().unsigned_abs() + bytes as u64);
        }
    }
    Ok(sum)
}

/// The least that finds every record.
fn skip(payloads: &[&[u8]]) -> Result<u64> {
    let mut count = 0;
    for payload in payloads {
        let mut at = 0;
        while at < payload.len() {
            let (mut value, mut shift) = (0_usize, 0);
            loop {
                let Some(byte) = payload.get(at) else { bail!("a varint is cut") };
                at += 1;
                value |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            at += value >> 1;
            count += 1;
        }
    }
    Ok(count)
}
