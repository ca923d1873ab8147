//! Those who roll, flush, drop segments and delete whole logs beside the readers.

use std::thread;
use std::time::Duration;

use alluvium_log_manager::{Isolation, LeaderRequest, LogManager, NewLog};
use alluvium_record_format::{
    BatchBuilder, BatchSettings, LeaderEpoch, Offset, SimpleRecord, Timestamp,
};
use alluvium_recovery::TopicPartition;
use anyhow::{Context, Result, ensure};

use super::{Counts, Done, Loaded, count};

/// Rolls, flushes, runs retention and deletes records of one log.
pub(super) fn log(loaded: &Loaded, counts: &Counts, done: &Done) -> Result<()> {
    let log = &loaded.log;
    let mut round = 0_i64;
    while !done.is_over() {
        match round % 8 {
            0 => {
                log.roll()?;
                count(&counts.rolls, 1);
            }
            2 | 6 => count(&counts.segments_dropped, log.delete_old_segments()?),
            4 => {
                log.flush(false)?;
                count(&counts.flushes, 1);
            }
            7 => {
                let back = log.high_watermark().get() - 5000;
                if back > log.log_start_offset().get() {
                    log.delete_records(Some(Offset::new(back)))?;
                    count(&counts.deletions_of_records, 1);
                }
            }
            _ => {}
        }
        round += 1;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Makes logs, reads them, deletes them while they are read, and has the manager tick.
pub(super) fn other_logs(manager: &LogManager, counts: &Counts, done: &Done) -> Result<()> {
    let mut number = 0;
    while !done.is_over() {
        let partition = TopicPartition::new("short-lived", number);
        let log = manager.get_or_create(&partition, &NewLog::new().is_new())?;
        let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
        let time = Timestamp::new(1_760_000_000_000);
        builder.append(&SimpleRecord::new().value(b"soon gone").timestamp(time))?;
        let mut bytes = builder.finish()?.to_vec();
        log.append_as_leader(&mut bytes, LeaderRequest::new(LeaderEpoch::new(0)))?;
        let fetched = log.read(Offset::new(0), 1 << 16, Isolation::LogEnd, true)?;
        let slice = fetched.slice.context("a record that was just appended")?;
        manager.delete(&partition)?;
        manager.tick();
        let mut found = Vec::new();
        slice.read_to(&mut found)?;
        ensure!(found == bytes, "a slice changed when its log was deleted");
        ensure!(log.read(Offset::new(0), 1, Isolation::LogEnd, true).is_err(), "it reads on");
        count(&counts.logs_deleted, 1);
        number += 1;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
