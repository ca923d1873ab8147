//! Logs that move to another disk of the broker.

use std::fs;
use std::io;

use alluvium_cleaner::Outcome;
use alluvium_log_manager::{Isolation, Log, LogManager};
use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_segment::{IoCall, IoVerdict};

use crate::broker::{Broker, append, compacted, t, values};

/// Appends to a copy what the log holds up to `end`, as a move does.
fn copy_to(log: &Log, copy: &Log, end: Offset) {
    while copy.log_end_offset() < end {
        let fetched = log.read(copy.log_end_offset(), 1, Isolation::LogEnd, true).unwrap();
        let mut bytes = Vec::new();
        fetched.slice.unwrap().read_to(&mut bytes).unwrap();
        copy.append_as_follower(&bytes, LeaderEpoch::new(0)).unwrap();
    }
}

/// A log on one of two disks: `k` has a value, then it is deleted, then comes another key.
fn deleted_key(broker: &Broker) -> Log {
    let log = broker.dirty(0, 1);
    append(&log, &[("k", None)]);
    log.roll().unwrap();
    append(&log, &[("other", Some("x"))]);
    log.roll().unwrap();
    assert!(!values(&log).contains_key(&b"k"[..]));
    log
}

/// Cleans as often as anything is due, between records that come.
fn clean_often(broker: &Broker, log: &Log) {
    for _ in 0..4 {
        append(log, &[("other", Some("y"))]);
        log.roll().unwrap();
        broker.clock.advance_ms(1000);
        broker.cleaner.tick();
    }
}

/// What was copied before a cleaning, or half of it, would count as clean in the new place: the old
/// value stayed and the tombstone went. The copy begins in this run or in the one before.
#[test]
fn a_deleted_key_does_not_come_back_when_a_cleaning_is_due_during_a_move() {
    for copied_before in 0..=3 {
        for is_restarted in [false, true] {
            let case = format!("{copied_before} copied before, restarted: {is_restarted}");
            let mut broker = Broker::new(2);
            let mut log = deleted_key(&broker);
            let home = broker.logs.dir_of(&t(0)).unwrap();
            let to = broker.logs.live_dirs().into_iter().find(|dir| *dir != home).unwrap();
            let mut copy = broker.logs.create_future(&t(0), &to).unwrap();
            copy_to(&log, &copy, Offset::new(copied_before));
            if is_restarted {
                drop((log, copy));
                broker = broker.restart();
                log = broker.logs.log(&t(0)).unwrap();
                copy = broker.logs.create_future(&t(0), &to).unwrap();
            }
            clean_often(&broker, &log);
            assert!(broker.cleaner.tick().is_idle(), "{case}");
            copy_to(&log, &copy, log.log_end_offset());
            let moved = broker.logs.promote_future(&t(0)).unwrap();
            clean_often(&broker, &moved);
            assert!(!values(&moved).contains_key(&b"k"[..]), "{case}");
            assert_eq!(values(&moved)[&b"other"[..]], b"y", "{case}");
            assert!(moved.segments().len() < 4, "cleaned again: {case}");
        }
    }
}

/// Moves a log to the other disk.
fn move_away(logs: &LogManager, log: &Log) {
    let home = logs.dir_of(&t(0)).unwrap();
    let to = logs.live_dirs().into_iter().find(|dir| *dir != home).unwrap();
    let copy = logs.create_future(&t(0), to).unwrap();
    copy.truncate_fully_and_start_at(log.log_end_offset(), None).unwrap();
    logs.promote_future(&t(0)).unwrap();
}

/// The error of the former disk was taken for one of the disk where the log lies by now.
#[test]
fn a_disk_that_fails_while_a_log_leaves_it_goes_offline_and_not_the_other_one() {
    let broker = Broker::with(2, compacted().max_compaction_lag_ms(1));
    let log = broker.dirty(0, 2);
    let home = broker.logs.dir_of(&t(0)).unwrap();
    let old = log.dir().path();
    broker.faults.set(move |call| match call {
        IoCall::Read { path, .. } if path.starts_with(&old) => {
            IoVerdict::Fail(io::Error::other("bad sector"))
        }
        _ => IoVerdict::Proceed,
    });
    let logs = broker.logs.clone();
    broker.faults.before_failure(move || move_away(&logs, &log));
    broker.cleaner.tick();
    let offline: Vec<_> = broker.logs.offline_dirs().into_iter().map(|(dir, _)| dir).collect();
    assert_eq!(offline, [home]);
    assert!(broker.logs.log(&t(0)).is_ok());
    assert!(broker.cleaner.uncleanable().is_empty());
}

#[test]
fn a_log_that_cannot_be_cleaned_is_told_of_under_the_disk_that_it_moved_to() {
    let broker = Broker::new(2);
    let log = broker.dirty(0, 2);
    let path = log.dir().path().join("00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(broker.cleaner.tick().outcome, Outcome::Failed(_)));
    let before = broker.cleaner.uncleanable()[0].dir.clone();
    assert_eq!(before, broker.logs.dir_of(&t(0)).unwrap());
    move_away(&broker.logs, &log);
    let after = broker.cleaner.uncleanable()[0].dir.clone();
    assert_ne!(before, after);
    assert_eq!(after, broker.logs.dir_of(&t(0)).unwrap());
}

/// What docs/operations.md says of a copy that nobody wants any more.
#[test]
fn a_log_is_cleaned_again_once_its_copy_is_given_up_or_removed_while_the_broker_is_down() {
    for is_by_hand in [false, true] {
        let broker = Broker::new(2);
        let log = broker.dirty(0, 2);
        let home = broker.logs.dir_of(&t(0)).unwrap();
        let to = broker.logs.live_dirs().into_iter().find(|dir| *dir != home).unwrap();
        let copy = broker.logs.create_future(&t(0), to).unwrap().dir().path();
        drop(log);
        // Nobody goes on with the move.
        let mut broker = broker.restart();
        assert!(broker.cleaner.tick().is_idle());
        if is_by_hand {
            broker = broker.restart_after(|| fs::remove_dir_all(&copy).unwrap());
        } else {
            assert!(broker.logs.delete_future(&t(0)).unwrap());
        }
        assert!(matches!(broker.cleaner.tick().outcome, Outcome::Cleaned(_)));
    }
}
