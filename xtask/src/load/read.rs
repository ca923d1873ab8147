//! Those who read up to the high watermark, and what they must find.

use std::thread;

use alluvium_log_manager::{ErrorCode, Isolation};
use alluvium_record_format::{
    BatchBuilder, BatchSettings, Entries, Entry, Offset, Position, SimpleRecord, Timestamp,
};
use anyhow::{Context, Result, bail, ensure};

use super::ledger::{Committed, Ledger};
use super::{Counts, Done, Loaded, count};

/// Bytes that a read asks for.
const MAX_BYTES: u32 = 32 << 10;

/// Reads from the log start to the high watermark, and on, and over again.
pub(super) fn run(loaded: &Loaded, counts: &Counts, done: &Done) -> Result<()> {
    let mut next = loaded.log.log_start_offset();
    let mut rounds = 0_u32;
    while !done.is_over() {
        next = on(loaded, next, counts, done)?;
        rounds += 1;
        if rounds.is_multiple_of(200) {
            next = loaded.log.log_start_offset();
            count(&counts.starts_over, 1);
        }
        thread::yield_now();
    }
    Ok(())
}

/// Reads all that is there now, after everybody has stopped.
pub(super) fn to_the_end(loaded: &Loaded, counts: &Counts) -> Result<()> {
    let start = loaded.log.log_start_offset();
    let end = loaded.log.high_watermark();
    let over = Done::after(std::time::Duration::from_mins(10));
    let reached = on(loaded, start, counts, &over)?;
    ensure!(reached == end, "a read of all ends at {reached}, the high watermark is {end}");
    Ok(())
}

/// Reads from an offset to the high watermark; returns the offset after the last record.
fn on(loaded: &Loaded, mut next: Offset, counts: &Counts, done: &Done) -> Result<Offset> {
    let Loaded { log, ledger } = loaded;
    let mut bytes = Vec::new();
    while !done.is_over() {
        let fetched = match log.read(next, MAX_BYTES, Isolation::HighWatermark, true) {
            Ok(fetched) => fetched,
            Err(error) if error.code() == ErrorCode::OffsetOutOfRange => {
                let start = log.log_start_offset();
                ensure!(next < start, "{next} is out of range and not below {start}");
                count(&counts.overtaken, 1);
                next = start;
                continue;
            }
            Err(error) => return Err(error).context(format!("a read at {next}")),
        };
        count(&counts.reads, 1);
        let Some(slice) = fetched.slice.filter(|slice| !slice.is_empty()) else { break };
        bytes.clear();
        slice.read_to(&mut bytes)?;
        let (after, records) = check(&bytes, next, ledger)?;
        count(&counts.records_read, records);
        next = after;
    }
    Ok(next)
}

/// Checks that bytes hold what was committed from `next` on: no gap, in order, right checksums.
/// Returns the offset after the last whole batch, and the number of records.
fn check(bytes: &[u8], mut next: Offset, ledger: &Ledger) -> Result<(Offset, usize)> {
    let mut records = 0;
    for entry in Entries::new(bytes, Position::new(0)).map_while(Result::ok) {
        let Entry::Batch(batch) = entry else { bail!("a message of an old format") };
        let header = batch.header();
        batch.verify_crc().context("the checksum of a batch")?;
        let (base, last) = (header.base_offset(), header.last_offset());
        // The first batch may begin before what was asked for; later ones follow each other.
        ensure!(base <= next && next <= last, "{base} to {last} where {next} is due");
        let found = Committed { base, last, crc: header.crc() };
        let due = ledger.at(next).with_context(|| format!("{next} was never committed"))?;
        ensure!(found == due, "{found:?} where {due:?} was committed");
        let count = last.get() - base.get() + 1;
        records += usize::try_from(count)?;
        next = header.next_offset();
    }
    ensure!(records > 0, "not one whole batch at {next}");
    Ok((next, records))
}

/// Has the check look at reads that are wrong: each must be found.
pub(super) fn prove_that_checks_fail() -> Result<()> {
    let batches = [(0, 3), (3, 2), (5, 4)].map(|(base, records)| made(base, records));
    let [first, second, third] = batches.each_ref().map(|(bytes, _)| bytes.as_slice());
    let ledger = Ledger::default();
    ledger.commit(&batches.each_ref().map(|(_, committed)| *committed));
    let right = check(&[first, second, third].concat(), Offset::new(0), &ledger)?;
    ensure!(right == (Offset::new(9), 9), "{right:?}");
    let mut flipped = second.to_vec();
    flipped[70] ^= 1;
    let mut replaced = BatchBuilder::new(BatchSettings::new(Offset::new(3)));
    for _ in 0..2 {
        replaced.append(&SimpleRecord::new().value(b"other").timestamp(Timestamp::new(9)))?;
    }
    let replaced = replaced.finish()?.to_vec();
    let wrong: [(&str, Vec<u8>); 5] = [
        ("a gap", [first, third].concat()),
        ("a batch twice", [first, first, second].concat()),
        ("another order", [second, first].concat()),
        ("a flipped bit", [first, &flipped].concat()),
        ("a batch that was cut off", [first, &replaced].concat()),
    ];
    for (name, bytes) in &wrong {
        ensure!(check(bytes, Offset::new(0), &ledger).is_err(), "the check passes {name}");
    }
    println!("the check finds each of {} wrong reads", wrong.len());
    Ok(())
}

fn made(base: i64, records: usize) -> (Vec<u8>, Committed) {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(base)));
    for _ in 0..records {
        let record = SimpleRecord::new().value(b"value").timestamp(Timestamp::new(1));
        builder.append(&record).expect("a small record fits");
    }
    let bytes = builder.finish().expect("a small batch").to_vec();
    let batch = alluvium_record_format::Batch::parse(&bytes, Position::new(0)).expect("a batch");
    let header = batch.header();
    let committed =
        Committed { base: header.base_offset(), last: header.last_offset(), crc: header.crc() };
    (bytes, committed)
}
