//! Directories, pipes, sockets and devices under the names of files of a log.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::disk::{scratch, three_batches};
use crate::process::run;

const LOG: &str = "t-0/00000000000000000000.log";

/// Makes something at a path that is no regular file.
type Make = fn(&Path);

const ODD: [(&str, Make); 5] = [
    ("directory", |path| fs::create_dir(path).unwrap()),
    ("pipe", |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
    ("socket", |path| drop(UnixListener::bind(path).unwrap())),
    ("link to a device", |path| symlink("/dev/zero", path).unwrap()),
    ("link to nothing", |path| symlink("/nowhere", path).unwrap()),
];

/// Every command on a partition, with those first that only look.
const COMMANDS: [&[&str]; 19] = [
    &["dump", "t-0"],
    &["dump", "--format", "jsonl", "t-0"],
    &["verify", "t-0"],
    &["verify", "."],
    &["stat", "t-0"],
    &["stat", "."],
    &["lookup", "t-0", "--offset", "5"],
    &["lookup", "t-0", "--timestamp", "1001"],
    &["compact", "--dry-run", "t-0"],
    &["recover", "--dry-run", "t-0"],
    &["reindex", "--dry-run", "t-0"],
    &["truncate", "--dry-run", "t-0", "--to", "3"],
    &["retain", "--dry-run", "t-0"],
    &["compact", "t-0"],
    &["recover", "--all", "t-0"],
    &["reindex", "t-0"],
    &["truncate", "t-0", "--to", "3"],
    &["retain", "--set", "retention.ms=1", "t-0"],
    &["salvage", "t-0", "out-0"],
];

/// A partition with one segment, and something odd under `name`.
fn partition(name: &str, make: Make) -> TempDir {
    let dir = scratch(&[(LOG, &three_batches())]);
    make(&dir.path().join(name));
    dir
}

/// What can be read, before and after.
fn logs(dir: &TempDir) -> Vec<u8> {
    fs::read(dir.path().join(LOG)).unwrap()
}

#[test]
fn a_segment_that_is_no_regular_file_is_named_and_stops_every_change() {
    for (what, make) in ODD {
        for name in ["t-0/00000000000000000009.log", "t-0/00000000000000000000.index"] {
            let dir = partition(name, make);
            let before = logs(&dir);
            for args in COMMANDS {
                let run = run(dir.path(), args);
                let told = format!("{}{}", run.text(), run.stderr);
                assert!(matches!(run.code, Some(1 | 2)), "{what} {args:?}: {:?} {told}", run.code);
                assert!(told.contains(&name[4..]), "{what} {args:?}: {told}");
                assert_eq!(logs(&dir), before, "{what} {args:?}");
            }
            assert!(!dir.path().join("out-0").exists(), "{what}");
        }
    }
}

/// The partition's other segments are there to be read.
#[test]
fn a_dump_goes_on_beside_a_segment_that_is_no_regular_file() {
    let dir = partition("t-0/00000000000000000009.log", ODD[1].1);
    let run = run(dir.path(), &["dump", "t-0"]);
    assert_eq!(run.code, Some(2));
    let path = "t-0/00000000000000000009.log";
    let message = format!("alluvium: {path} is a pipe, socket or device, not a regular file\n");
    assert_eq!(run.stderr, message);
    let alone = scratch(&[(LOG, &three_batches())]);
    assert_eq!(run.text(), crate::process::run(alone.path(), &["dump", "t-0"]).text());
}

/// A pipe without a writer is not waited for.
#[test]
fn a_small_file_that_is_a_pipe_keeps_no_command_waiting() {
    let names = [
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "replication-offset-checkpoint",
        ".kafka_cleanshutdown",
        "t-0/leader-epoch-checkpoint",
        "t-0/partition.metadata",
    ];
    let pipe = ODD[1].1;
    for name in names {
        for args in COMMANDS {
            let dir = partition(name, pipe);
            let run = run(dir.path(), args);
            assert!(matches!(run.code, Some(0..=2)), "{name} {args:?}: {run:?}");
        }
    }
}
