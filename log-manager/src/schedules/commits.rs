//! What is said to be durable is.

use alluvium_record_format::Offset;
use shuttle::thread;

use super::explore;
use super::fixture::{Fixture, append};
use crate::{Durability, Log};

#[test]
fn every_writer_that_commits_comes_back_with_its_own_offset_durable() {
    explore(|| {
        let Fixture { log, .. } = &Fixture::with(Durability::GroupCommit);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let appended = append(log, b"x");
                    assert!(appended.durable_offset > appended.last_offset.unwrap());
                    assert!(appended.durable_offset <= log.log_end_offset());
                });
            }
        });
        assert_eq!(log.durable_offset(), Offset::new(3));
    });
}

/// The durable offset and the recovery point lie within the log.
fn check_bounds(log: &Log) {
    assert!(log.durable_offset() <= log.log_end_offset());
    assert!(log.recovery_point() <= log.log_end_offset());
}

#[test]
fn nothing_is_called_durable_that_a_truncation_took_beside_the_sync() {
    explore(|| {
        let Fixture { log, tasks, .. } = &Fixture::new();
        append(log, b"0");
        append(log, b"1");
        log.roll().unwrap();
        append(log, b"2");
        thread::scope(|scope| {
            scope.spawn(|| {
                log.truncate_to(Offset::new(1)).unwrap();
                append(log, b"1 again");
            });
            scope.spawn(|| log.commit(Offset::new(3)).unwrap());
            scope.spawn(|| tasks.run_due());
            scope.spawn(|| log.flush(false).unwrap());
        });
        check_bounds(log);
        log.flush(false).unwrap();
        assert_eq!(log.recovery_point(), log.log_end_offset());
    });
}

#[test]
fn the_recovery_point_never_goes_beyond_the_end_beside_a_truncation() {
    explore(|| {
        let Fixture { log, .. } = &Fixture::new();
        append(log, b"0");
        append(log, b"1");
        thread::scope(|scope| {
            scope.spawn(|| log.flush(false).unwrap());
            scope.spawn(|| log.truncate_to(Offset::new(1)).unwrap());
        });
        check_bounds(log);
        assert!(log.recovery_point() <= Offset::new(1));
    });
}
