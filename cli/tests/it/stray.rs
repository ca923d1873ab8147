//! Directories that a start of the broker passes over.

use std::fs;

use crate::disk::{scratch, state, three_batches};
use crate::process::run;

/// A start of the broker passes them over.
#[test]
fn a_stray_shares_nothing_with_the_partition_that_took_its_place() {
    let stray = "t-0.0123456789abcdef0123456789abcdef-stray";
    let stray_log = format!("{stray}/00000000000000000000.log");
    let live = "t-0/00000000000000000100.log";
    let mut log = three_batches();
    for (number, batch) in log.chunks_exact_mut(118).enumerate() {
        batch[7] = u8::try_from(100 + 3 * number).unwrap();
    }
    let points = "recovery-point-offset-checkpoint";
    let starts = "log-start-offset-checkpoint";
    let dir = scratch(&[
        (live, &log),
        (&stray_log, &three_batches()),
        (points, b"0\n1\nt 0 109\n"),
        (starts, b"0\n1\nt 0 103\n"),
    ]);
    let of_stray = state(&dir.path().join(stray));
    for args in [
        &["verify", "."][..],
        &["verify", stray],
        &["recover", "--dry-run", "."],
        &["recover", "."],
        &["recover", "--all", "."],
        &["retain", "--set", "retention.ms=-1", "."],
    ] {
        let run = run(dir.path(), args);
        assert_eq!(run.code, Some(0), "{args:?}: {}{}", run.text(), run.stderr);
        assert!(state(&dir.path().join(stray)) == of_stray, "{args:?}");
        let noted = |name| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((&*noted(points), &*noted(starts)), ("0\n1\nt 0 109\n", "0\n1\nt 0 103\n"));
    }
    // One that is named itself is worked on, by no line of the live one.
    let recovered = run(dir.path(), &["recover", "--all", stray]);
    assert_eq!(recovered.code, Some(0), "{}", recovered.stderr);
    let kept = fs::read(dir.path().join(&stray_log)).unwrap();
    assert!(kept == three_batches(), "the live log start drops nothing");
    assert_eq!(fs::read_to_string(dir.path().join(points)).unwrap(), "0\n1\nt 0 109\n");
}
