//! A crash after every system call of a cleaning, and the start that follows.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alluvium_cleaner::CleanOptions;
use alluvium_record_format::{Offset, Timestamp, TxnOutcome::Abort};
use alluvium_recovery::{LoadConfig, load};
use alluvium_segment::{Io, IoCall, IoHook, IoVerdict};

use crate::support::{Fixture, NOW, aborted, batch, config, marker, options, transactional};

/// Lets so many changes through, and then none: the process is gone.
struct Crash {
    left: AtomicUsize,
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

/// Starts on what a crash left, and reads.
fn start(log_dir: &Path) -> Fixture {
    let fixture = Fixture::at(log_dir, Io::new());
    let settings = LoadConfig::new(Timestamp::new(NOW)).segment(config());
    let loaded = load(&fixture.dir, &settings, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(loaded.log_end_offset, Offset::new(8));
    drop(loaded);
    fixture
}

#[test]
fn after_a_crash_at_any_step_the_log_holds_the_same_values() {
    let whole = Fixture::new();
    let options = fill(&whole);
    let values = whole.values();
    let before = whole.batches();
    let report = whole.clean(&options).unwrap();
    assert!(report.groups.len() >= 2, "{report:?}");
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
        let started = start(log_dir.path());
        assert_eq!(started.values(), values, "after {steps} steps");
        assert_wholly(&started.batches(), &before, &after, steps);
        if outcome.is_ok() {
            break;
        }
        // And the next cleaning ends where an undisturbed one does.
        started.clean(&options).unwrap();
        assert_eq!(started.values(), values, "after {steps} steps and a cleaning");
        steps += 1;
    }
    assert!(steps > 40, "only {steps} steps");
}

/// Each group is as it was before or as it is after: up to some offset the batches are new, from
/// there on old.
fn assert_wholly(
    found: &[(i64, i64, i32)],
    before: &[(i64, i64, i32)],
    after: &[(i64, i64, i32)],
    steps: usize,
) {
    let mixes = [0, 2, 4, 6, 8].map(|at| {
        let mut mix: Vec<_> = after.iter().filter(|batch| batch.0 < at).copied().collect();
        mix.extend(before.iter().filter(|batch| batch.0 >= at));
        mix
    });
    assert!(mixes.iter().any(|mix| mix == found), "after {steps} steps: {found:?}");
}
