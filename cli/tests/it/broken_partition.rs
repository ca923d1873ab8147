//! A partition that cannot be read among others that can.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use crate::disk::{copy, scratch, state, three_batches};
use crate::process::run;

const FIRST: &str = "t-0/00000000000000000000.log";
const LAST: &str = "t-2/00000000000000000000.log";
const MARKER: &str = ".kafka_cleanshutdown";

/// Three partitions, torn at the end; the log of the second is a link to nothing, or its index is a
/// directory.
fn disk(is_linked: bool) -> TempDir {
    let torn = &three_batches()[..300];
    let whole = three_batches();
    let dir = scratch(&[
        (FIRST, torn),
        ("t-1/leader-epoch-checkpoint", b"0\n1\n0 0\n"),
        (LAST, torn),
        (MARKER, b""),
        ("recovery-point-offset-checkpoint", b"0\n3\nt 0 0\nt 1 0\nt 2 0\n"),
        ("replication-offset-checkpoint", b"0\n3\nt 0 9\nt 1 9\nt 2 9\n"),
    ]);
    let second = dir.path().join("t-1");
    if is_linked {
        symlink("/nowhere/0.log", second.join("00000000000000000000.log")).unwrap();
    } else {
        fs::write(second.join("00000000000000000000.log"), whole).unwrap();
        fs::create_dir(second.join("00000000000000000000.index")).unwrap();
    }
    dir
}

#[test]
fn every_command_goes_on_behind_a_partition_that_cannot_be_read() {
    for (args, seen) in [
        (&["recover", "--dry-run", "."][..], ["./t-0: 300 B", "./t-2: 300 B"]),
        (&["recover", "--dry-run", "--json", "."], ["\"./t-0\"", "\"./t-2\""]),
        (&["checkpoints", "."], ["t-0", "t-2"]),
        (&["epochs", "."], ["t-0", "t-2"]),
        (&["residency", "."], ["t-0", "t-2"]),
        (&["reindex", "--dry-run", "."], [FIRST, LAST]),
        (&["verify", "."], ["t-0", "t-2"]),
        (&["stat", "."], ["t-0", "t-2"]),
        (&["doctor", "."], ["2 partitions", "2 segments"]),
    ] {
        let dir = disk(true);
        let before = state(&dir.path().join("t-0"));
        let run = run(dir.path(), args);
        assert_eq!(run.code, Some(2), "{args:?} {} {}", run.text(), run.stderr);
        assert!(run.stderr.contains("t-1/00000000000000000000.log"), "{args:?} {}", run.stderr);
        for part in seen {
            assert!(run.text().contains(part), "{args:?} lacks {part}: {}", run.text());
        }
        assert!(state(&dir.path().join("t-0")) == before, "{args:?} changes a byte");
    }
}

#[test]
fn producers_are_listed_behind_a_partition_that_cannot_be_read() {
    let dir = copy("disk/clean");
    fs::create_dir(dir.path().join("a-0")).unwrap();
    symlink("/nowhere/0.log", dir.path().join("a-0/00000000000000000000.log")).unwrap();
    let run = run(dir.path(), &["producers", "."]);
    assert_eq!(run.code, Some(2), "{} {}", run.text(), run.stderr);
    assert!(run.stderr.contains("a-0/00000000000000000000.log"), "{}", run.stderr);
    assert!(run.text().contains("transactions-0"), "{}", run.text());
}

/// FR-071: of one partition alone.
#[test]
fn recover_mends_the_others_and_leaves_the_marker_away() {
    for is_linked in [true, false] {
        let dir = disk(is_linked);
        let run = run(dir.path(), &["recover", "--all", "."]);
        assert_eq!(run.code, Some(2), "{} {}", run.text(), run.stderr);
        assert!(run.stderr.contains("t-1/00000000000000000000."), "{}", run.stderr);
        for log in [FIRST, LAST] {
            assert_eq!(fs::metadata(dir.path().join(log)).unwrap().len(), 236, "{log}");
        }
        let points = fs::read_to_string(dir.path().join("recovery-point-offset-checkpoint"));
        assert_eq!(points.unwrap(), "0\n3\nt 0 6\nt 1 0\nt 2 6\n");
        assert!(!dir.path().join(MARKER).exists(), "t-1 has not been recovered");
    }
}

#[test]
fn several_partitions_that_cannot_be_read_are_all_named() {
    let dir = disk(true);
    let first = dir.path().join(FIRST);
    fs::remove_file(&first).unwrap();
    symlink("/nowhere/0.log", &first).unwrap();
    for command in ["recover", "checkpoints"] {
        let run = run(dir.path(), &[command, "."]);
        assert_eq!(run.code, Some(2), "{command}");
        for name in ["t-0/", "t-1/"] {
            assert!(run.stderr.contains(name), "{command}: {}", run.stderr);
        }
    }
}
