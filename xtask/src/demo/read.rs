//! Reads what was written: all of it, by offset, by time.

use std::time::Instant;

use alluvium_log_manager::{Fetched, Isolation, Log, OffsetQuery};
use alluvium_record_format::{Batch, Decompressor, Entries, Entry, Offset, Position, Timestamp};
use anyhow::{Context, Result, bail, ensure};

use super::records::{DAY_ONE, check};
use super::table::Table;

/// Bytes of a fetch.
const FETCH_BYTES: u32 = 1 << 20;

/// No batch of the demo inflates to more.
const INFLATED_BYTES: usize = 1 << 20;

/// Look-ups of each kind.
const LOOKUPS: i64 = 20_000;

/// Reads from the log start to the end: checksums, offsets without a gap, every byte of every
/// record.
pub(super) fn every_record(log: &Log, what: &str, table: &mut Table) -> Result<()> {
    let start = Instant::now();
    let end = log.log_end_offset().get();
    let (mut bytes, mut reader, mut next) = (Vec::new(), Reader::default(), 0);
    while next < end {
        let fetched = log.read(Offset::new(next), FETCH_BYTES, Isolation::LogEnd, true)?;
        take(&fetched, &mut bytes)?;
        for entry in Entries::new(&bytes, Position::new(0)) {
            // A fetch may end inside a batch: the next one begins with it.
            let Ok(Entry::Batch(batch)) = entry else { break };
            ensure!(batch.header().base_offset().get() == next, "a gap at offset {next}");
            reader.check(&batch)?;
            next = batch.header().next_offset().get();
        }
    }
    table.timed(what, "records", end.unsigned_abs(), start.elapsed());
    Ok(())
}

/// Reads the batch of offsets all over the log.
pub(super) fn by_offset(log: &Log, table: &mut Table) -> Result<()> {
    let start = Instant::now();
    let mut bytes = Vec::new();
    for offset in scattered(log) {
        let fetched = log.read(Offset::new(offset), 1, Isolation::LogEnd, true)?;
        take(&fetched, &mut bytes)?;
        let batch = Batch::parse(&bytes, Position::new(0))?;
        batch.verify_crc()?;
        let (first, last) = (batch.header().base_offset(), batch.header().last_offset());
        let holds = (first.get()..=last.get()).contains(&offset);
        ensure!(holds, "offset {offset} gave the batch {first}..={last}");
    }
    table.timed(
        "read the batch of an offset, scattered",
        "reads",
        LOOKUPS.unsigned_abs(),
        start.elapsed(),
    );
    Ok(())
}

/// Looks up times all over the log.
pub(super) fn by_time(log: &Log, table: &mut Table) -> Result<()> {
    let start = Instant::now();
    for offset in scattered(log) {
        let time = Timestamp::new(DAY_ONE + offset);
        let found = log.offset_for(OffsetQuery::AtOrAfter(time))?;
        let found = found.with_context(|| format!("nothing at time {time}"))?;
        ensure!(found.offset.get() == offset, "time {time} gave offset {}", found.offset);
    }
    table.timed(
        "look up the offset of a time, scattered",
        "look-ups",
        LOOKUPS.unsigned_abs(),
        start.elapsed(),
    );
    Ok(())
}

/// Offsets that jump about.
fn scattered(log: &Log) -> impl Iterator<Item = i64> {
    let end = log.log_end_offset().get();
    (0..LOOKUPS).map(move |turn| turn * 7_919_993 % end)
}

fn take(fetched: &Fetched, bytes: &mut Vec<u8>) -> Result<()> {
    bytes.clear();
    match &fetched.slice {
        Some(slice) => slice.read_to(bytes).context("cannot read a slice"),
        None => bail!("nothing was fetched"),
    }
}

/// Inflates batches with one set of buffers.
#[derive(Debug, Default)]
struct Reader {
    decompressor: Decompressor,
    inflated: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Reader {
    fn check(&mut self, batch: &Batch<'_>) -> Result<()> {
        batch.verify_crc()?;
        let records = self.decompressor.inflate(batch, INFLATED_BYTES, &mut self.inflated)?;
        for record in records {
            check(&record?, &mut self.key, &mut self.value)?;
        }
        Ok(())
    }
}
