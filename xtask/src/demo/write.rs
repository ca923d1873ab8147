//! Writes a million records, all codecs in turns.

use std::time::{Duration, Instant};

use alluvium_log_manager::{LeaderRequest, Log};
use alluvium_record_format::{BatchBuilder, BatchSettings, LeaderEpoch, Offset};
use anyhow::Result;

use super::records::{CODECS, PER_BATCH, RECORDS, build};
use super::table::Table;

/// Appends every batch as a leader does, and notes the rate of each codec.
pub(super) fn all_codecs(log: &Log, table: &mut Table) -> Result<()> {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let mut building = [Duration::ZERO; CODECS.len()];
    let mut appending = Duration::ZERO;
    let mut bytes = 0;
    let mut turns = (0..CODECS.len()).cycle();
    let mut base = 0;
    while base < RECORDS {
        let turn = turns.next().unwrap_or(0);
        let start = Instant::now();
        let mut batch = build(&mut builder, base, CODECS[turn])?;
        building[turn] += start.elapsed();
        bytes += batch.len() as u64;
        let start = Instant::now();
        log.append_as_leader(&mut batch, LeaderRequest::new(LeaderEpoch::new(0)))?;
        appending += start.elapsed();
        base += PER_BATCH;
    }
    let records = RECORDS.unsigned_abs();
    let turns = records / CODECS.len() as u64;
    for (codec, time) in CODECS.iter().zip(building) {
        table.timed(&format!("build batches, {}", codec.name()), "records", turns, time);
    }
    table.timed("append them as a leader: check, assign, write", "records", records, appending);
    table.timed("  of which bytes on disk", "bytes", bytes, appending);
    table.fact("  in segments", log.segments().len() as u64, "files");
    let start = Instant::now();
    log.flush(true)?;
    table.timed("flush them to the disk", "bytes", bytes, start.elapsed());
    Ok(())
}
