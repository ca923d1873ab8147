//! `alluvium compact`: what it says, what it changes, and what it leaves alone.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::disk;
use crate::process::{Run, run};

/// A copy of the clean disk.
fn copy() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in disk::files(&disk::clean()) {
        let to = dir.path().join(&file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, fs::read(disk::clean().join(file)).unwrap()).unwrap();
    }
    dir
}

/// Every file with its bytes, the lock excepted.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = disk::files(dir).into_iter().filter(|file| !file.ends_with(".lock"));
    files.map(|file| (file.clone(), fs::read(dir.join(file)).unwrap())).collect()
}

fn compact(dir: &Path, args: &[&str]) -> Run {
    run(dir, &[&["compact", "--now", "1900000000000"], args].concat())
}

/// Key, value and offset of all that a consumer sees, newest of each key alone.
fn newest(dir: &Path, partition: &str) -> Vec<String> {
    let args = ["dump", "--format", "jsonl", "--isolation", "read_committed", partition];
    let dumped = run(dir, &args);
    assert_eq!(dumped.code, Some(0), "{}", dumped.stderr);
    let key = |line: &str| line.split("\"key\":").nth(1)?.split(',').next().map(str::to_owned);
    let mut newest = std::collections::BTreeMap::new();
    for line in dumped.text().lines().skip(1) {
        newest.insert(key(line), line.to_owned());
    }
    newest.into_values().collect()
}

#[test]
fn a_dry_run_changes_no_byte_and_says_why_the_range_is_what_it_is() {
    let dir = copy();
    let before = contents(dir.path());
    let run = compact(dir.path(), &["--dry-run", "--explain", "plain-0"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.text().contains("no checkpoint is there"), "{}", run.text());
    assert!(run.text().contains("the active segment begins there"), "{}", run.text());
    assert!(run.text().contains("would keep"), "{}", run.text());
    assert!(contents(dir.path()) == before, "no byte changes");
    assert!(!dir.path().join(".lock").exists());
}

#[test]
fn a_run_keeps_the_newest_record_of_every_key_and_moves_the_checkpoint() {
    let dir = copy();
    let before = newest(dir.path(), "transactions-0");
    let args = ["--delete-retention-ms", "0", "transactions-0"];
    let first = compact(dir.path(), &args);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(first.text().contains("131 B of 524 B"), "{}", first.text());
    let keyed = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| !line.contains("\"key\":null")).cloned().collect()
    };
    assert_eq!(keyed(&newest(dir.path(), "transactions-0")), keyed(&before));
    let checkpoint = fs::read_to_string(dir.path().join("cleaner-offset-checkpoint")).unwrap();
    assert!(checkpoint.contains("transactions 0 4"), "{checkpoint}");
    let verified = run(dir.path(), &["verify", "."]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.text(), verified.stderr);
    let again = compact(dir.path(), &args);
    assert!(again.text().contains("nothing to clean"), "{}", again.text());
}

#[test]
fn damage_exits_with_1_and_leaves_the_partition() {
    let dir = copy();
    let log = dir.path().join("plain-0/00000000000000000000.log");
    let mut bytes = fs::read(&log).unwrap();
    bytes[100] ^= 1;
    fs::write(&log, bytes).unwrap();
    let before = contents(dir.path());
    let run = compact(dir.path(), &["plain-0"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("00000000000000000000.log"), "{}", run.stderr);
    assert!(contents(dir.path()) == before, "no byte changes");
}

#[test]
fn an_interrupted_change_is_left_for_recovery() {
    let dir = copy();
    let swap = dir.path().join("plain-0/00000000000000000000.log.swap");
    fs::write(&swap, b"").unwrap();
    let run = compact(dir.path(), &["plain-0"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("recover the partition first"), "{}", run.stderr);
}
