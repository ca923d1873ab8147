//! A crash after every system call of a cleaning, and the start that follows.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alluvium_cleaner::{CleanOptions, Outcome};
use alluvium_log_manager::NewLog;
use alluvium_record_format::{Offset, Timestamp, TxnOutcome::Abort};
use alluvium_recovery::{LoadConfig, load};
use alluvium_segment::{Io, IoCall, IoHook, IoVerdict};

use crate::broker::{Broker, append, bases, compacted, t, values, without_cleaner};
use crate::support::{Fixture, NOW, aborted, batch, config, marker, options, transactional};

/// Lets so many changes through, and then none: the process is gone.
pub(crate) struct Crash {
    pub(crate) left: AtomicUsize,
}

impl IoHook for Crash {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        if matches!(call, IoCall::Read { .. } | IoCall::Open { create: false, .. }) {
            return IoVerdict::Proceed;
        }
        let take = |left: usize| left.checked_sub(1);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => IoVerdict::Proceed,
            Err(_) => IoVerdict::Fail(io::Error::other("gone")),
        }
    }
}

/// A log of four sealed segments that become two, with an aborted transaction.
fn fill(fixture: &Fixture) -> CleanOptions {
    fixture.sealed(0, &[batch(0, &[("a", Some("1")), ("b", Some("1"))])]);
    fixture.sealed(2, &[batch(2, &[("c", Some("1"))]), transactional(3, 5, &[("d", Some("no"))])]);
    let third = fixture.sealed(4, &[marker(4, 5, Abort), batch(5, &[("a", Some("2"))])]);
    third.append_aborted(aborted(5, 3, 4, 5)).unwrap();
    fixture.sealed(6, &[batch(6, &[("b", None), ("e", Some("1"))])]);
    fixture.sealed(8, &[]);
    let in_two = third.size_bytes() + fixture.segments()[0].size_bytes() + 200;
    options(0, 8).segment_bytes(in_two).high_watermark(Offset::new(8))
}

/// A log whose first segment has no batch that fits its name, as cleaners of old have left them.
fn fill_overflowed(fixture: &Fixture) -> CleanOptions {
    fixture.sealed(0, &[]);
    let log = [
        batch(FAR, &[("a", Some("1")), ("b", Some("1"))]),
        batch(FAR + 2, &[("a", Some("2"))]),
        batch(2 * FAR + 5, &[("c", Some("1"))]),
    ];
    let path = fixture.dir.path().join("00000000000000000000.log");
    if !path.exists() || fs::read(&path).unwrap().is_empty() {
        fs::write(path, log.concat()).unwrap();
    }
    fixture.sealed(2 * FAR + 6, &[batch(2 * FAR + 6, &[("b", Some("2"))])]);
    fixture.sealed(2 * FAR + 7, &[]);
    options(0, 2 * FAR + 7).high_watermark(Offset::new(2 * FAR + 7))
}

/// The first offset that does not fit into segment 0.
const FAR: i64 = i32::MAX as i64 + 1;

/// Starts on what a crash left. Nothing is known to be durable, or everything is.
pub(crate) fn start(log_dir: &Path, io: Io, end: i64, is_unclean: bool) -> Fixture {
    let fixture = Fixture::at(log_dir, io);
    let mut settings = LoadConfig::new(Timestamp::new(NOW)).segment(config());
    if !is_unclean {
        settings = settings.recovery_point(Offset::new(end));
    }
    let loaded = load(&fixture.dir, &settings, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(loaded.log_end_offset, Offset::new(end));
    drop(loaded);
    fixture
}

/// Cleans the log that `fill` makes, with a crash after every step and a start behind it.
/// `mixes` are the offsets up to which the log may be new and from which on old.
fn crash_at_every_step(
    fill: fn(&Fixture) -> CleanOptions,
    (end, mixes): (i64, &[i64]),
    is_unclean: bool,
) -> usize {
    let whole = Fixture::new();
    let options = fill(&whole);
    let values = whole.values();
    let before = whole.batches();
    whole.clean(&options).unwrap();
    assert_eq!(whole.values(), values);
    let after = whole.batches();
    assert_ne!(before, after);

    let mut steps = 0;
    loop {
        let log_dir = tempfile::tempdir().unwrap();
        fs::create_dir(log_dir.path().join("t-0")).unwrap();
        fill(&Fixture::at(log_dir.path(), Io::new()));
        let crash = Arc::new(Crash { left: AtomicUsize::new(usize::MAX) });
        let fixture = Fixture::at(log_dir.path(), Io::with_hook(Arc::clone(&crash) as _));
        let open = fixture.segments();
        crash.left.store(steps, Ordering::Relaxed);
        let outcome = fixture.clean(&options);
        drop(open);
        drop(fixture);
        let started = start(log_dir.path(), Io::new(), end, is_unclean);
        assert_eq!(started.values(), values, "after {steps} steps");
        assert_wholly(&started.batches(), &before, &after, mixes, steps);
        if outcome.is_ok() {
            return steps;
        }
        // And the next cleaning ends where an undisturbed one does.
        started.clean(&options).unwrap();
        assert_eq!(started.values(), values, "after {steps} steps and a cleaning");
        assert_eq!(started.batches(), after, "after {steps} steps and a cleaning");
        steps += 1;
    }
}

#[test]
fn after_a_crash_at_any_step_the_log_holds_the_same_values() {
    for is_unclean in [true, false] {
        let steps = crash_at_every_step(fill, (8, &[0, 2, 4, 6, 8]), is_unclean);
        assert!(steps > 40, "only {steps} steps");
    }
}

/// FR-075: no batch fits its segment, so the new segments lie under other names.
#[test]
fn after_a_crash_at_any_step_an_overflowed_segment_is_there_once() {
    for is_unclean in [true, false] {
        let mixes = (2 * FAR + 7, &[0, 2 * FAR + 7][..]);
        let steps = crash_at_every_step(fill_overflowed, mixes, is_unclean);
        assert!(steps > 30, "only {steps} steps");
    }
}

/// The same through a log in service: with its checkpoint, and files that go later.
#[test]
fn after_a_crash_at_any_step_a_broker_finds_the_same_values() {
    let mut steps = 0;
    loop {
        let root = tempfile::tempdir().unwrap();
        let disk = fs::canonicalize(root.path()).unwrap().join("d1");
        let broker = Broker::at(vec![disk.clone()], compacted());
        let log = broker.dirty(0, 3);
        let expected = values(&log);
        drop(log);
        let crash = Crash { left: AtomicUsize::new(steps) };
        broker.faults.set(move |call| crash.before(call));
        let round = broker.cleaner.tick();
        drop(broker);

        let broker = Broker::at(vec![disk], compacted());
        let log = broker.logs.log(&t(0)).unwrap();
        log.update_high_watermark(log.log_end_offset()).unwrap();
        assert_eq!(values(&log), expected, "after {steps} steps");
        assert_eq!(log.log_end_offset(), Offset::new(3), "after {steps} steps");
        while !broker.cleaner.tick().is_idle() {}
        assert_eq!(values(&log), expected, "after {steps} steps and a cleaning");
        assert_eq!(bases(&log), [0, 3], "after {steps} steps and a cleaning");
        assert_eq!(broker.checkpoint(1, &t(0)), Some(3));
        if matches!(round.outcome, Outcome::Cleaned(_)) {
            break;
        }
        steps += 1;
    }
    assert!(steps > 20, "only {steps} steps");
}

/// What was cut before there was a cleaner was lower in its memory alone: the file went on to say
/// that new records are clean.
#[test]
fn a_key_stays_deleted_that_is_deleted_after_a_cut_before_there_is_a_cleaner() {
    let root = tempfile::tempdir().unwrap();
    let dirs = [fs::canonicalize(root.path()).unwrap().join("d1")];
    let broker = Broker::at(dirs.to_vec(), compacted());
    let log = broker.logs.get_or_create(&t(0), &NewLog::new()).unwrap();
    append(&log, &[("deleted", Some("1"))]);
    log.roll().unwrap();
    append(&log, &[("k", Some("1"))]);
    append(&log, &[("k", Some("2"))]);
    log.roll().unwrap();
    while !broker.cleaner.tick().is_idle() {}
    assert_eq!(broker.checkpoint(1, &t(0)), Some(3));
    drop((broker, log));

    let logs = without_cleaner(&dirs);
    logs.truncate_to(&t(0), Offset::new(1)).unwrap();
    let log = logs.log(&t(0)).unwrap();
    append(&log, &[("deleted", None)]);
    append(&log, &[("k", Some("3"))]);
    log.roll().unwrap();
    append(&log, &[("k", Some("4"))]);
    log.roll().unwrap();
    log.flush(true).unwrap();
    assert!(!values(&log).contains_key(&b"deleted"[..]));
    drop((logs, log)); // killed

    let broker = Broker::at(dirs.to_vec(), compacted());
    let log = broker.logs.log(&t(0)).unwrap();
    for value in ["5", "6", "7"] {
        append(&log, &[("k", Some(value))]);
        log.roll().unwrap();
        broker.clock.advance_ms(1000);
        while !broker.cleaner.tick().is_idle() {}
    }
    assert_eq!(values(&log).into_iter().collect::<Vec<_>>(), [(b"k".to_vec(), b"7".to_vec())]);
}

/// Each group is as it was before or as it is after: up to some offset the batches are new, from
/// there on old.
fn assert_wholly(
    found: &[(i64, i64, i32)],
    before: &[(i64, i64, i32)],
    after: &[(i64, i64, i32)],
    mixes: &[i64],
    steps: usize,
) {
    let is_it = |at: &i64| {
        let mut mix: Vec<_> = after.iter().filter(|batch| batch.0 < *at).copied().collect();
        mix.extend(before.iter().filter(|batch| batch.0 >= *at));
        mix == found
    };
    assert!(mixes.iter().any(is_it), "after {steps} steps: {found:?}");
}
