//! Which log is cleaned, how far, and what is written down about it.

use std::sync::{Arc, Mutex};

use alluvium_cleaner::Outcome;
use alluvium_log_manager::{CleaningGate, CleanupPolicy, ManagerError};
use alluvium_record_format::Offset;
use alluvium_segment::{IoCall, IoVerdict};

use crate::broker::{Broker, append, bases, compacted, t, values};
use crate::support::NOW;

#[test]
fn the_filthiest_log_is_cleaned_first() {
    let broker = Broker::new(1);
    broker.dirty(0, 4);
    while !broker.cleaner.tick().is_idle() {}
    // Now a part of log 0 is clean, and log 1 is all dirty.
    broker.dirty(0, 1);
    broker.dirty(1, 2);
    assert_eq!(broker.cleaner.tick().partition, Some(t(1)));
    assert_eq!(broker.cleaner.tick().partition, Some(t(0)));
    assert!(broker.cleaner.tick().is_idle());
}

#[test]
fn the_checkpoint_moves_to_the_active_segment_and_is_found_after_a_restart() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 3);
    let round = broker.cleaner.tick();
    assert_eq!(round.report().unwrap().next_dirty_offset, Offset::new(3));
    assert_eq!(broker.checkpoint(1, &t(0)), Some(3));
    assert_eq!(bases(&log), [0, 3]);
    assert_eq!(values(&log)[&b"k"[..]], b"2");
    drop(log);

    let broker = broker.restart();
    assert!(broker.cleaner.tick().is_idle());
    let log = broker.logs.log(&t(0)).unwrap();
    assert_eq!(values(&log)[&b"k"[..]], b"2");
    assert_eq!(log.log_end_offset(), Offset::new(3));
}

#[test]
fn a_log_is_left_alone_until_it_is_dirty_enough() {
    let broker = Broker::with(1, compacted().min_cleanable_dirty_ratio(0.5));
    let log = broker.dirty(0, 4);
    assert!(!broker.cleaner.tick().is_idle());
    // One record is left clean; as much again is half of it, and not more than half.
    append(&log, &[("k", Some("9"))]);
    log.roll().unwrap();
    assert!(broker.cleaner.tick().is_idle());
    append(&log, &[("k", Some("9"))]);
    log.roll().unwrap();
    assert!(!broker.cleaner.tick().is_idle());
}

#[test]
fn young_records_stay_out_of_reach() {
    let broker = Broker::with(1, compacted().min_compaction_lag_ms(NOW.unsigned_abs()));
    // Records have the time 1000.
    broker.dirty(0, 2);
    assert!(broker.cleaner.tick().is_idle());
    broker.clock.advance_ms(1000);
    assert!(!broker.cleaner.tick().is_idle());
}

#[test]
fn records_beyond_the_longest_lag_are_cleaned_however_little_they_are() {
    let lag = NOW.unsigned_abs() - 1000;
    let lagging = compacted().min_cleanable_dirty_ratio(1.0).max_compaction_lag_ms(lag);
    let broker = Broker::with(1, lagging);
    broker.dirty(0, 2);
    assert!(broker.cleaner.tick().is_idle());
    broker.clock.advance_ms(1);
    assert!(!broker.cleaner.tick().is_idle());
    assert_eq!(broker.cleaner.stats().max_compaction_delay_ms, 1);
}

#[test]
fn logs_that_are_not_compacted_are_never_cleaned() {
    let broker = Broker::with(1, compacted().cleanup_policy(CleanupPolicy::DELETE));
    broker.dirty(0, 3);
    assert!(broker.cleaner.tick().is_idle());
}

#[test]
fn the_cleaner_runs_the_retention_of_compacted_logs() {
    let both = CleanupPolicy::COMPACT_AND_DELETE;
    let broker = Broker::with(1, compacted().cleanup_policy(both).retention_ms(Some(1)));
    let log = broker.dirty(0, 3);
    let round = broker.cleaner.tick();
    assert!(!round.is_idle());
    assert_eq!(round.segments_deleted, 1); // all three were one by then
    assert_eq!(bases(&log), [3]);
    assert_eq!(log.log_start_offset(), Offset::new(3));
}

#[test]
fn a_cleaner_that_does_not_work_leaves_retention_to_the_log_manager() {
    let both = CleanupPolicy::COMPACT_AND_DELETE;
    let broker = Broker::with(1, compacted().cleanup_policy(both).retention_ms(Some(1)));
    let log = broker.dirty(0, 3);
    broker.clock.advance_ms(3_600_000);
    broker.logs.tick();
    assert_eq!(bases(&log), [3]);
}

/// FR-097, case 1: the segment with the high watermark does not count.
#[test]
fn what_is_not_committed_replaces_nothing() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 1);
    append(&log, &[("k", Some("1")), ("x", Some("1"))]);
    log.update_high_watermark(Offset::new(2)).unwrap();
    log.roll().unwrap();
    assert_eq!(log.high_watermark(), Offset::new(2));
    broker.cleaner.tick();
    assert_eq!(bases(&log), [0, 1, 3]);
    assert_eq!(broker.checkpoint(1, &t(0)), Some(1));
}

/// FR-097, case 2: records are deleted up into the active segment.
#[test]
fn a_log_start_in_the_active_segment_leaves_nothing_to_clean() {
    let both = CleanupPolicy::COMPACT_AND_DELETE;
    let broker = Broker::with(1, compacted().cleanup_policy(both));
    let log = broker.dirty(0, 2);
    append(&log, &[("k", Some("2"))]);
    append(&log, &[("k", Some("3"))]);
    log.delete_records(Some(Offset::new(3))).unwrap();
    for _ in 0..3 {
        assert!(matches!(broker.cleaner.tick().outcome, Outcome::Idle));
    }
    assert!(broker.cleaner.uncleanable().is_empty());
}

/// FR-097, case 3: the checkpoint lies in the active segment.
#[test]
fn a_checkpoint_in_the_active_segment_leaves_nothing_to_clean() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 2);
    append(&log, &[("k", Some("2"))]);
    append(&log, &[("k", Some("3"))]);
    drop(log);
    broker.write_checkpoint(&[(t(0), 3)]);
    let broker = broker.restart();
    for _ in 0..3 {
        assert!(broker.cleaner.tick().is_idle());
    }
    assert_eq!(broker.checkpoint(1, &t(0)), Some(3));
}

#[test]
fn a_checkpoint_outside_of_the_log_starts_again_at_its_start() {
    let broker = Broker::new(1);
    broker.dirty(0, 2);
    broker.write_checkpoint(&[(t(0), 77), (t(9), 5)]);
    let broker = broker.restart();
    let round = broker.cleaner.tick();
    assert_eq!(round.report().unwrap().next_dirty_offset, Offset::new(2));
    assert_eq!(broker.checkpoint(1, &t(0)), Some(2));
    // There is no such log.
    assert_eq!(broker.checkpoint(1, &t(9)), None);
}

#[test]
fn a_checkpoint_that_cannot_be_read_says_nothing() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 2);
    let path = log.dir().path().parent().unwrap().join("cleaner-offset-checkpoint");
    drop(log);
    std::fs::write(path, "7\nwhat").unwrap();
    let broker = broker.restart();
    assert!(!broker.cleaner.tick().is_idle());
    assert_eq!(broker.checkpoint(1, &t(0)), Some(2));
}

#[test]
fn a_paused_log_waits_until_it_is_resumed() {
    let broker = Broker::new(1);
    broker.dirty(0, 2);
    broker.gate.pause(&t(0));
    broker.gate.abort_and_pause(&t(0));
    assert!(broker.cleaner.tick().is_idle());
    broker.gate.resume(&t(0));
    assert!(broker.cleaner.tick().is_idle());
    broker.gate.resume(&t(0));
    assert!(!broker.cleaner.tick().is_idle());
}

#[test]
fn a_truncation_lowers_the_checkpoint_to_the_base_of_the_active_segment() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 3);
    for offset in 3..6 {
        assert_eq!(log.log_end_offset(), Offset::new(offset));
        append(&log, &[("k", Some("old"))]);
    }
    log.roll().unwrap();
    broker.cleaner.tick();
    assert_eq!(broker.checkpoint(1, &t(0)), Some(6));
    broker.logs.truncate_to(&t(0), Offset::new(5)).unwrap();
    // All sealed segments had become one, which takes new records now.
    assert_eq!(log.segments().last().unwrap().0, Offset::new(0));
    assert_eq!(broker.checkpoint(1, &t(0)), Some(0));
    append(&log, &[("k", Some("new"))]);
    log.roll().unwrap();
    assert!(!broker.cleaner.tick().is_idle());
    assert_eq!(values(&log)[&b"k"[..]], b"new");
}

/// A kill in between left the old checkpoint: new records below it counted as clean.
#[test]
fn a_truncation_lowers_the_checkpoint_before_it_cuts() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 3);
    broker.cleaner.tick();
    assert_eq!(broker.checkpoint(1, &t(0)), Some(3));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    broker.faults.set(move |call| {
        match call {
            IoCall::Rename { to, .. } if to.ends_with("cleaner-offset-checkpoint") => {
                seen.lock().unwrap().push("lowered");
            }
            IoCall::SyncDir { path, .. } if path.ends_with("d1") => {
                seen.lock().unwrap().push("durable");
            }
            IoCall::SetLen { path, .. } | IoCall::Rename { from: path, .. }
                if path.extension().is_some_and(|it| it == "log") =>
            {
                seen.lock().unwrap().push("cut");
            }
            _ => {}
        }
        IoVerdict::Proceed
    });
    broker.logs.truncate_to(&t(0), Offset::new(1)).unwrap();
    assert_eq!(log.log_end_offset(), Offset::new(1));
    let calls = calls.lock().unwrap();
    let place = |wanted: &str| calls.iter().position(|call| *call == wanted).unwrap();
    assert!(calls.starts_with(&["lowered", "durable"]), "{calls:?}");
    assert!(place("durable") < place("cut"), "{calls:?}");
}

#[test]
fn nothing_is_cut_where_the_checkpoint_cannot_be_lowered() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 3);
    broker.cleaner.tick();
    broker.faults.set(|call| match call {
        IoCall::Rename { to, .. } if to.ends_with("cleaner-offset-checkpoint") => {
            IoVerdict::Fail(std::io::Error::from(std::io::ErrorKind::Other))
        }
        _ => IoVerdict::Proceed,
    });
    let refused = broker.logs.truncate_to(&t(0), Offset::new(1)).unwrap_err();
    assert!(matches!(refused, ManagerError::Offline { .. }), "{refused:?}");
    assert_eq!(broker.logs.offline_dirs().len(), 1);
    broker.faults.clear();
    drop(log);
    let broker = broker.restart();
    assert_eq!(broker.logs.log(&t(0)).unwrap().log_end_offset(), Offset::new(3));
    assert_eq!(broker.checkpoint(1, &t(0)), Some(3));
}

#[test]
fn a_cut_that_is_refused_leaves_the_checkpoint_alone() {
    let broker = Broker::new(1);
    broker.dirty(0, 2);
    broker.cleaner.tick();
    broker.logs.truncate_to(&t(0), Offset::new(-1)).unwrap_err();
    let (end, start) = (Offset::new(1), Some(Offset::new(2)));
    broker.logs.truncate_fully_and_start_at(&t(0), end, start).unwrap_err();
    assert_eq!(broker.checkpoint(1, &t(0)), Some(2));
}

#[test]
fn a_deleted_log_is_forgotten() {
    let broker = Broker::new(1);
    broker.dirty(0, 2);
    broker.cleaner.tick();
    assert_eq!(broker.checkpoint(1, &t(0)), Some(2));
    broker.logs.delete(&t(0)).unwrap();
    assert_eq!(broker.checkpoint(1, &t(0)), None);
    assert!(broker.cleaner.tick().is_idle());
}

#[test]
fn a_log_that_moves_to_another_disk_takes_its_checkpoint_along() {
    let broker = Broker::new(2);
    let log = broker.dirty(0, 2);
    broker.cleaner.tick();
    let home = broker.logs.dir_of(&t(0)).unwrap();
    let from = if home.ends_with("d1") { 1 } else { 2 };
    let to = broker.logs.live_dirs().into_iter().find(|dir| *dir != home).unwrap();
    assert_eq!(broker.checkpoint(from, &t(0)), Some(2));

    let copy = broker.logs.create_future(&t(0), to).unwrap();
    copy.truncate_fully_and_start_at(log.log_end_offset(), None).unwrap();
    let moved = broker.logs.promote_future(&t(0)).unwrap();
    append(&moved, &[("k", Some("2"))]);
    moved.roll().unwrap();
    assert!(!broker.cleaner.tick().is_idle());
    assert_eq!(broker.checkpoint(3 - from, &t(0)), Some(3));
    broker.dirty(1, 1);
    broker.cleaner.tick();
    broker.cleaner.tick();
    assert_eq!(broker.checkpoint(from, &t(0)), None);
}
