//! FR-099: one bad log never stops the others.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alluvium_cleaner::Outcome;
use alluvium_log_manager::{CleanupPolicy, Log};
use alluvium_segment::{IoCall, IoVerdict};

use crate::broker::{Broker, compacted, files, t, values};

/// Flips a byte in the records of the first segment.
fn damage(log: &Log) {
    let path = log.dir().path().join("00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
}

fn is_in(path: &Path, name: &str) -> bool {
    path.parent().is_some_and(|parent| parent.ends_with(name))
}

/// Whether a cleaning of this log makes its first file.
fn is_new_log(call: &IoCall<'_>, name: &str) -> bool {
    matches!(call, IoCall::Open { path, create: true, .. }
        if is_in(path, name) && path.to_string_lossy().ends_with(".log.cleaned"))
}

/// FR-099, FR-079: it fails in the scan.
#[test]
fn a_damaged_log_is_marked_and_the_others_are_cleaned() {
    let broker = Broker::new(1);
    let bad = broker.dirty(0, 3);
    let good = broker.dirty(1, 2);
    damage(&bad);
    let before = files(&bad);

    let round = broker.cleaner.tick();
    assert_eq!(round.partition, Some(t(0)));
    let Outcome::Failed(reason) = round.outcome else { panic!("{round:?}") };
    assert!(reason.is_corruption());
    assert_eq!(broker.cleaner.tick().partition, Some(t(1)));
    assert!(broker.cleaner.tick().is_idle());
    assert_eq!(values(&good)[&b"k"[..]], b"1");
    assert_eq!(files(&bad), before);

    let marks = broker.cleaner.uncleanable();
    assert_eq!(marks.len(), 1);
    assert_eq!((&marks[0].partition, marks[0].failures), (&t(0), 1));
    let stats = broker.cleaner.stats();
    assert_eq!((stats.cleanings, stats.failures, stats.uncleanable), (1, 1, 1));
    let bytes: u64 = bad.segments().iter().map(|(_, bytes)| u64::from(*bytes)).sum();
    assert_eq!(stats.uncleanable_bytes, bytes);
}

#[test]
fn a_damaged_log_is_tried_again_ever_later() {
    let broker = Broker::new(1);
    damage(&broker.dirty(0, 3));
    for (failures, delay_ms) in [(1, 1000), (2, 2000), (3, 4000), (4, 4000)] {
        assert!(matches!(broker.cleaner.tick().outcome, Outcome::Failed(_)));
        assert_eq!(broker.cleaner.uncleanable()[0].failures, failures);
        broker.clock.advance_ms(delay_ms - 1);
        assert!(broker.cleaner.tick().is_idle());
        broker.clock.advance_ms(1);
    }
}

#[test]
fn a_cleared_log_is_tried_at_once_and_its_success_ends_the_story() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 3);
    damage(&log);
    assert!(matches!(broker.cleaner.tick().outcome, Outcome::Failed(_)));
    damage(&log); // flips it back
    assert!(broker.cleaner.tick().is_idle());
    assert!(broker.cleaner.clear_uncleanable(&t(0)));
    assert!(!broker.cleaner.clear_uncleanable(&t(0)));
    assert!(matches!(broker.cleaner.tick().outcome, Outcome::Cleaned(_)));
    assert!(broker.cleaner.uncleanable().is_empty());
}

#[test]
fn a_damaged_log_that_is_deleted_is_no_longer_told_of() {
    let broker = Broker::new(1);
    damage(&broker.dirty(0, 2));
    broker.cleaner.tick();
    broker.logs.delete(&t(0)).unwrap();
    assert!(broker.cleaner.tick().is_idle());
    assert!(broker.cleaner.uncleanable().is_empty());
}

/// FR-099: it fails in choosing, as what says how old its records are cannot be read.
#[test]
fn a_log_that_cannot_even_be_looked_at_does_not_keep_the_others_from_being_chosen() {
    let broker = Broker::with(2, compacted().max_compaction_lag_ms(1));
    broker.dirty(0, 2);
    let good = broker.dirty(1, 2);
    broker.faults.set(|call| match call {
        IoCall::Read { path, .. } if is_in(path, "t-0") => {
            IoVerdict::Fail(io::Error::other("bad sector"))
        }
        _ => IoVerdict::Proceed,
    });
    let round = broker.cleaner.tick();
    broker.faults.clear();
    assert_eq!(round.partition, Some(t(1)));
    assert_eq!(values(&good)[&b"k"[..]], b"1");
    // A disk that fails is offline, not a log that is marked.
    assert_eq!(broker.cleaner.stats().failures, 1);
    assert_eq!(broker.logs.offline_dirs().len(), 1);
}

/// FR-099: it fails in the swap.
#[test]
fn a_disk_that_fails_in_the_swap_goes_offline_alone() {
    let broker = Broker::new(2);
    let bad = broker.dirty(0, 3);
    broker.dirty(1, 2);
    broker.faults.set(|call| match call {
        IoCall::Rename { to, .. } if is_in(to, "t-0") => IoVerdict::Fail(io::Error::other("gone")),
        _ => IoVerdict::Proceed,
    });
    let round = broker.cleaner.tick();
    assert_eq!(round.partition, Some(t(0)));
    assert!(matches!(round.outcome, Outcome::DiskFailed(_)), "{round:?}");
    assert_eq!(broker.cleaner.tick().partition, Some(t(1)));
    assert!(broker.cleaner.tick().is_idle());
    assert_eq!(broker.logs.offline_dirs().len(), 1);
    assert!(broker.logs.log(&t(1)).is_ok());
    assert!(broker.cleaner.uncleanable().is_empty());
    drop(bad);
}

#[test]
fn a_checkpoint_that_cannot_be_written_takes_its_disk_offline() {
    let broker = Broker::new(2);
    broker.dirty(0, 3);
    broker.dirty(1, 2);
    let home = broker.logs.dir_of(&t(0)).unwrap();
    broker.faults.set(move |call| match call {
        IoCall::Rename { to, .. } if to.parent() == Some(&home) => {
            IoVerdict::Fail(io::Error::other("gone"))
        }
        _ => IoVerdict::Proceed,
    });
    assert!(matches!(broker.cleaner.tick().outcome, Outcome::DiskFailed(_)));
    assert_eq!(broker.cleaner.tick().partition, Some(t(1)));
    assert_eq!(broker.logs.offline_dirs().len(), 1);
}

/// FR-099: the policy changes during a round.
#[test]
fn a_log_that_is_no_longer_compacted_ends_its_cleaning_and_leaves_no_file() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 3);
    let other = log.clone();
    broker.faults.set(move |call| {
        if is_new_log(call, "t-0") {
            let delete = compacted().cleanup_policy(CleanupPolicy::DELETE).retention_ms(None);
            other.set_config(delete.build().unwrap());
        }
        IoVerdict::Proceed
    });
    let before = files(&log);
    let round = broker.cleaner.tick();
    assert!(matches!(round.outcome, Outcome::Stopped), "{round:?}");
    assert_eq!(files(&log), before);
    assert!(broker.cleaner.tick().is_idle());
    assert!(broker.cleaner.uncleanable().is_empty());
    broker.faults.clear();
}

/// A file that somebody removed is no reason to begin anew at once, for ever.
#[test]
fn a_log_with_a_missing_file_is_marked_and_the_others_are_cleaned() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 3);
    broker.dirty(1, 2);
    fs::remove_file(log.dir().path().join("00000000000000000001.log")).unwrap();
    let round = broker.cleaner.tick();
    assert_eq!(round.partition, Some(t(0)));
    let Outcome::Failed(reason) = round.outcome else { panic!("{round:?}") };
    let source = reason.source().unwrap().to_string();
    assert!(source.contains("00000000000000000001.log"), "{source}");
    assert_eq!(broker.cleaner.tick().partition, Some(t(1)));
    assert!(broker.cleaner.tick().is_idle());
}

/// Left in place, the name of an unfinished file would undo a later swap at the next start.
#[test]
fn a_panic_in_the_middle_of_a_group_leaves_no_file_of_it() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 3);
    broker.faults.set(|call| match call {
        IoCall::Write { path, .. } if path.to_string_lossy().ends_with(".log.cleaned") => {
            std::panic::resume_unwind(Box::new("a fault of the library"))
        }
        _ => IoVerdict::Proceed,
    });
    let before = files(&log);
    assert!(matches!(broker.cleaner.tick().outcome, Outcome::Failed(_)));
    assert_eq!(files(&log), before);
}

#[test]
fn a_panic_in_one_log_marks_it_and_the_others_are_cleaned() {
    let broker = Broker::new(1);
    broker.dirty(0, 3);
    broker.dirty(1, 2);
    let armed = Arc::new(AtomicUsize::new(1));
    let fuse = Arc::clone(&armed);
    broker.faults.set(move |call| {
        if is_new_log(call, "t-0") && fuse.swap(0, Ordering::Relaxed) == 1 {
            std::panic::resume_unwind(Box::new("a fault of the library"));
        }
        IoVerdict::Proceed
    });
    let round = broker.cleaner.tick();
    assert_eq!(round.partition, Some(t(0)));
    assert!(matches!(round.outcome, Outcome::Failed(_)), "{round:?}");
    assert_eq!(broker.cleaner.tick().partition, Some(t(1)));
    broker.cleaner.clear_uncleanable(&t(0));
    assert!(matches!(broker.cleaner.tick().outcome, Outcome::Cleaned(_)));
}
