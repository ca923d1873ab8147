//! Appends that return once their bytes are on the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use alluvium_log_manager::Durability;
use alluvium_record_format::Offset;
use alluvium_segment::IoCall;

use crate::batches::{NOW, batch, l3};
use crate::disk::{Disk, append, follow, try_append};

#[test]
fn a_group_commit_returns_what_is_durable_and_one_from_the_page_cache_does_not_wait() {
    let disk = Disk::new();
    let log = disk.options().clean(true).open(disk.dir()).unwrap();
    let appended = append(&log, &batch(&[(None, NOW.get())]));
    assert_eq!(appended.durable_offset, Offset::new(0));
    assert_eq!(log.commit(Offset::new(1)).unwrap(), Offset::new(1));
    assert_eq!((log.durable_offset(), log.recovery_point()), (Offset::new(1), Offset::new(0)));
    drop(log);

    let options = disk.options().durability(Durability::GroupCommit).recovery_point(Offset::new(1));
    let log = options.clean(true).open(disk.dir()).unwrap();
    let appended = append(&log, &batch(&[(None, NOW.get()); 3]));
    assert_eq!(appended.durable_offset, Offset::new(4));
}

#[test]
fn writers_that_wait_together_share_a_sync() {
    const WRITERS: i64 = 16;
    const TURNS: i64 = 8;
    let disk = Disk::with(|config| config.index_interval_bytes(4096));
    let log = disk.options().durability(Durability::GroupCommit).clean(true);
    let log = log.open(disk.dir()).unwrap();
    disk.faults.calls.lock().unwrap().clear();
    let (all, wanted) = (log.clone(), Arc::new(AtomicI64::new(0)));
    let (end, given_up) = (Arc::clone(&wanted), Instant::now() + Duration::from_mins(1));
    disk.faults.watch(move |call| {
        let end = Offset::new(end.load(Ordering::SeqCst));
        while matches!(call, IoCall::Sync { .. }) && all.log_end_offset() < end {
            assert!(Instant::now() < given_up, "no further append beside the sync");
            thread::yield_now();
        }
    });
    for turn in 1..=TURNS {
        wanted.store(turn * WRITERS, Ordering::SeqCst);
        thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    let appended = append(&log, &batch(&[(None, NOW.get())]));
                    assert!(appended.durable_offset > appended.last_offset.unwrap());
                });
            }
        });
    }
    disk.faults.clear();
    assert_eq!(log.durable_offset(), Offset::new(WRITERS * TURNS));
    let calls = disk.faults.calls.lock().unwrap();
    let syncs = calls.iter().filter(|call| *call == "sync 00000000000000000000.log").count();
    // The first of a turn ends when all have appended, so that the second serves who is left.
    assert!(i64::try_from(syncs).unwrap() <= 2 * TURNS, "{calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "sync-dir").count(), 1, "{calls:?}");
}

#[test]
fn a_failed_sync_fails_every_append_that_waits_for_it_and_all_later_ones() {
    let disk = Disk::new();
    let options = disk.options().durability(Durability::GroupCommit);
    let log = options.clean(true).open(disk.dir()).unwrap();
    disk.faults.fail_once(std::io::ErrorKind::Other, |call| matches!(call, IoCall::Sync { .. }));
    try_append(&log, &batch(&[(None, NOW.get())])).unwrap_err();
    assert_eq!(log.durable_offset(), Offset::new(0));
    try_append(&log, &batch(&[(None, NOW.get())])).unwrap_err();
    assert_eq!(log.log_end_offset(), Offset::new(1));
}

#[test]
fn what_comes_after_a_truncation_is_not_durable_yet() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    log.commit(Offset::new(9)).unwrap();
    log.truncate_to(Offset::new(3)).unwrap();
    follow(&log, &l3()[1..].concat());
    assert_eq!(log.durable_offset(), Offset::new(3));
    assert_eq!(log.commit(Offset::new(9)).unwrap(), Offset::new(9));
}

#[test]
fn flush_messages_and_flush_ms_flush() {
    let disk = Disk::with(|config| config.flush_messages(3).flush_ms(1000));
    let log = disk.open_clean();
    append(&log, &batch(&[(None, NOW.get()); 2]));
    assert_eq!(log.recovery_point(), Offset::new(0));
    append(&log, &batch(&[(None, NOW.get())]));
    assert_eq!(log.recovery_point(), Offset::new(3));
    append(&log, &batch(&[(None, NOW.get())]));
    disk.clock.advance_ms(999);
    assert!(!log.flush_if_due().unwrap());
    disk.clock.advance_ms(1);
    assert!(log.flush_if_due().unwrap());
    assert_eq!(log.recovery_point(), Offset::new(4));
    // A clock that is set back by a day is not waited for.
    append(&log, &batch(&[(None, NOW.get())]));
    disk.clock.advance_ms(-86_400_000);
    assert!(log.flush_if_due().unwrap());
    assert_eq!(log.recovery_point(), Offset::new(5));
    assert!(!log.flush_if_due().unwrap());
}
