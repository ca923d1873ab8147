//! What holds for every command that changes something: it keeps off a disk in use, and a dry
//! run changes no byte.

use std::fs;

use alluvium_segment::DirLock;

use crate::disk::{copy, state};
use crate::process::run;

/// Every command that changes something, called so that it has something to change.
const CHANGING: &[&[&str]] = &[
    &["compact", "--now", "1900000000000", "plain-0"],
    &["recover", "--all", "."],
    &["recover", "--all", "plain-0"],
    &["reindex", "--set", "index.interval.bytes=100", "."],
    &["retain", "--now", "1900000000000", "--set", "retention.ms=1", "."],
    &["retain", "--now", "1900000000000", "--set", "retention.ms=1", "plain-0"],
    &["salvage", "plain-0", "rescue-0"],
    &["truncate", "plain-0", "--to", "3"],
];

/// Those that can say what they would do.
fn dry() -> Vec<Vec<&'static str>> {
    let can = CHANGING.iter().filter(|args| args[0] != "salvage");
    can.map(|args| [args, &["--dry-run"][..]].concat()).collect()
}

/// The golden disk, one index damaged so that a start would rebuild it.
fn disk() -> tempfile::TempDir {
    let dir = copy("disk/clean");
    let index = dir.path().join("plain-0/00000000000000000000.index");
    let mut bytes = fs::read(&index).unwrap();
    bytes[7] ^= 1;
    fs::write(index, bytes).unwrap();
    fs::write(dir.path().join(".lock"), b"").unwrap();
    dir
}

#[test]
fn the_list_holds_every_command_with_a_dry_run_and_salvage() {
    let app = alluvium::command();
    let has_dry_run = |command: &&clap::Command| {
        command.get_name() == "salvage"
            || command.get_arguments().any(|arg| arg.get_id() == "dry_run")
    };
    let mut expected: Vec<_> =
        app.get_subcommands().filter(has_dry_run).map(clap::Command::get_name).collect();
    expected.sort_unstable();
    let mut listed: Vec<_> = CHANGING.iter().map(|args| args[0]).collect();
    listed.dedup();
    assert_eq!(listed, expected);
}

#[test]
fn a_disk_that_another_process_holds_is_refused_and_left_alone() {
    let dir = disk();
    let before = state(dir.path());
    // The command is another process than this one, which holds the lock as a broker does.
    // Reading the lock file here meanwhile would drop it.
    let lock = DirLock::acquire(dir.path()).unwrap();
    for args in CHANGING.iter().map(|args| args.to_vec()).chain(dry()) {
        let run = run(dir.path(), &args);
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("stop the broker first"), "{args:?}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{args:?}: {}", run.text());
    }
    drop(lock);
    assert!(state(dir.path()) == before, "no byte changes");
}

#[test]
fn a_dry_run_changes_no_byte_where_the_run_changes_some() {
    for args in dry() {
        let dir = disk();
        fs::remove_file(dir.path().join(".lock")).unwrap();
        let before = state(dir.path());
        let dry = run(dir.path(), &args);
        assert!(state(dir.path()) == before, "{args:?}");
        assert!(!dry.stdout.is_empty() && dry.code != Some(2), "{args:?}: {}", dry.stderr);
        let wet = run(dir.path(), &args[..args.len() - 1]);
        assert_ne!(wet.code, Some(2), "{args:?}: {}", wet.stderr);
        assert!(state(dir.path()) != before, "{args:?}");
    }
}

#[test]
fn a_lock_that_cannot_be_opened_is_not_blamed_on_a_broker() {
    let dir = disk();
    let lock = dir.path().join(".lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    for args in CHANGING.iter().filter(|args| args[0] != "salvage") {
        let run = run(dir.path(), args);
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("cannot be locked"), "{args:?}: {}", run.stderr);
        assert!(!run.stderr.contains("broker"), "{args:?}: {}", run.stderr);
    }
}
