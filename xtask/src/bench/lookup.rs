//! Looking up offsets among 1.3 million entries of a mapped index, against a binary search in a
//! `Vec` of the same entries.

use alluvium_record_format::{BatchBuilder, BatchSettings, Offset, SimpleRecord};
use alluvium_segment::{ActiveSegment, SegmentConfig};
use anyhow::{Context, Result, ensure};

use super::Run;
use super::log_dir::LogDir;
use super::pair::{Bar, Bench, Outcome};
use super::random::Random;

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] = &[("index-lookup-1.3M", run)];

/// Entries of the index: a default index file, almost full.
const ENTRIES: u32 = 1_300_000;

/// Look-ups a slice.
const COUNT: usize = 2_000;

/// The twin is `partition_point`. Each slice of each side has targets of its own.
fn run(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let dir = LogDir::new("lookup")?;
    let active = fill(&dir)?;
    let segment = active.segment();
    let entries = collect(&active)?;
    let mut random = (Random::new(3), Random::new(5));
    let span = u64::from(ENTRIES);
    let count = u32::try_from(COUNT)?;
    bench.pair(
        name,
        (f64::from(count) / 1e6, "M/s"),
        Bar(1.0 / 1.3),
        || {
            let mut sum = 0;
            for _ in 0..COUNT {
                let target = i64::try_from(random.0.below(span))?;
                let found = segment.index_entry(Offset::new(target))?;
                sum += found.map_or(0, |entry| u64::from(entry.position.get()));
            }
            Ok(sum)
        },
        || {
            let mut sum = 0;
            for _ in 0..COUNT {
                let target = u32::try_from(random.1.below(span))?;
                let above = entries.partition_point(|(offset, _)| *offset <= target);
                sum += above.checked_sub(1).map_or(0, |at| u64::from(entries[at].1));
            }
            Ok(sum)
        },
    )
}

/// A segment of one-record batches with an entry for each but the first.
fn fill(dir: &LogDir) -> Result<ActiveSegment> {
    let config = SegmentConfig::new().index_interval_bytes(0);
    let mut active = dir.segment("ours-0", config)?;
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let mut bytes = Vec::new();
    for offset in 0..=i64::from(ENTRIES) {
        builder.reset(BatchSettings::new(Offset::new(offset)));
        builder.append(&SimpleRecord::new()).context("cannot build a batch")?;
        bytes.extend_from_slice(builder.finish().context("cannot build a batch")?);
        if bytes.len() > 1 << 20 {
            active.append(&bytes)?;
            bytes.clear();
        }
    }
    active.append(&bytes)?;
    Ok(active)
}

/// The same entries as numbers.
fn collect(active: &ActiveSegment) -> Result<Vec<(u32, u32)>> {
    let mut entries = Vec::new();
    for offset in 1..=i64::from(ENTRIES) {
        let found = active.segment().index_entry(Offset::new(offset))?;
        let entry = found.context("every batch but the first has an entry")?;
        ensure!(entry.offset.get() == offset, "{offset} has the entry of {}", entry.offset);
        entries.push((u32::try_from(offset)?, entry.position.get()));
    }
    Ok(entries)
}
