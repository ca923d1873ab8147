//! Writers, readers, retention, rolls and truncations at the same time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use alluvium_log_manager::{ErrorCode, Isolation, Log};
use alluvium_record_format::{Entries, Entry, Offset, Position};

use crate::batches::{NOW, batch};
use crate::disk::{Disk, append};

const LOGS: usize = 2;
const READERS_OF_EACH: usize = 3;
const APPENDS: i64 = 4000;

/// Reads on from `next` to the high watermark: gapless, in order, checksums right. Returns the
/// offset after the last record.
fn read_on(log: &Log, mut next: Offset, seen: &AtomicU64) -> Offset {
    loop {
        let fetched = match log.read(next, 4096, Isolation::HighWatermark, true) {
            Ok(fetched) => fetched,
            // Retention overtook this reader.
            Err(error) if error.code() == ErrorCode::OffsetOutOfRange => {
                assert!(next < log.log_start_offset(), "{next} is not below the log start");
                next = log.log_start_offset();
                continue;
            }
            Err(error) => panic!("a read from {next} on failed: {error:?}"),
        };
        let Some(slice) = fetched.slice.filter(|slice| !slice.is_empty()) else { return next };
        let mut bytes = Vec::new();
        slice.read_to(&mut bytes).unwrap();
        let mut whole = 0;
        for entry in Entries::new(&bytes, Position::new(0)).map_while(Result::ok) {
            let Entry::Batch(batch) = entry else { panic!("an old format") };
            batch.verify_crc().unwrap();
            let header = batch.header();
            assert!(header.last_offset() >= next, "{} again", header.last_offset());
            assert!(header.base_offset() <= next, "{} after {next}", header.base_offset());
            next = header.next_offset();
            whole += 1;
        }
        assert!(whole > 0, "not one whole batch from {next} on");
        seen.fetch_add(whole, Ordering::Relaxed);
    }
}

fn follow_to_the_end(log: &Log, done: &AtomicBool, seen: &AtomicU64) {
    let mut next = Offset::new(0);
    while !done.load(Ordering::Acquire) {
        next = read_on(log, next, seen);
        thread::yield_now();
    }
    assert_eq!(read_on(log, next, seen), log.high_watermark());
}

/// Appends, moves the watermark behind, and cuts off what is above it, where no reader is.
fn write(log: &Log) {
    for count in 0..APPENDS {
        let records = vec![(None, NOW.get()); usize::try_from(count % 4 + 1).unwrap()];
        append(log, &batch(&records));
        if count % 3 == 0 {
            log.update_high_watermark(log.log_end_offset()).unwrap();
        }
        if count % 50 == 49 {
            log.truncate_to(log.high_watermark()).unwrap();
        }
    }
}

/// Rolls, drops old segments, flushes.
fn disturb(log: &Log, done: &AtomicBool) {
    let mut round = 0_u32;
    while !done.load(Ordering::Acquire) {
        match round % 64 {
            0 => assert!(log.roll().is_ok()),
            8 | 40 => assert!(log.delete_old_segments().is_ok()),
            24 => assert!(log.flush(false).is_ok()),
            _ => thread::yield_now(),
        }
        round += 1;
    }
}

#[test]
fn readers_see_records_gapless_and_in_order_whatever_goes_on_beside_them() {
    let disks: Vec<Disk> = (0..LOGS)
        .map(|_| {
            Disk::with(|config| {
                config
                    .internal_segment_bytes(Some(16 << 10))
                    .retention_bytes(Some(32 << 10))
                    .index_interval_bytes(512)
                    .segment_index_bytes(64 << 10)
                    .file_delete_delay_ms(0)
            })
        })
        .collect();
    let logs: Vec<Log> = disks.iter().map(Disk::open_clean).collect();
    let seen: HashMap<usize, AtomicU64> = (0..LOGS).map(|at| (at, AtomicU64::new(0))).collect();
    let done: Vec<AtomicBool> = (0..LOGS).map(|_| AtomicBool::new(false)).collect();
    thread::scope(|scope| {
        for (at, log) in logs.iter().enumerate() {
            let (done, seen, tasks) = (&done[at], &seen[&at], &disks[at].tasks);
            scope.spawn(move || {
                write(log);
                log.update_high_watermark(log.log_end_offset()).unwrap();
                done.store(true, Ordering::Release);
            });
            scope.spawn(move || disturb(log, done));
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    tasks.run_due();
                    thread::yield_now();
                }
            });
            for _ in 0..READERS_OF_EACH {
                scope.spawn(move || follow_to_the_end(log, done, seen));
            }
        }
    });
    for (at, log) in logs.iter().enumerate() {
        assert!(seen[&at].load(Ordering::Relaxed) > 1000);
        assert!(log.log_start_offset() > Offset::new(0), "retention never ran");
    }
}
