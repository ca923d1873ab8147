//! `alluvium compact`: what it says, what it changes, and what it leaves alone.

use std::fs;
use std::path::{Path, PathBuf};

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Offset, Position, SimpleRecord, Timestamp,
};
use tempfile::TempDir;

use crate::disk::{self, metadata};
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
    let args = ["--set", "delete.retention.ms=0", "transactions-0"];
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

/// The clean disk, with a metadata log in which the topic `transactions` has these settings.
fn with_settings(settings: &[(&str, &str)]) -> TempDir {
    let dir = copy();
    let of_topic: Vec<_> =
        settings.iter().map(|(key, value)| ("transactions", *key, *value)).collect();
    let to = dir.path().join("__cluster_metadata-0");
    fs::create_dir(&to).unwrap();
    let log = metadata(&["transactions"], &of_topic);
    fs::write(to.join("00000000000000000000.log"), log).unwrap();
    dir
}

#[test]
fn what_the_metadata_log_says_of_the_topic_counts_and_set_goes_before_it() {
    let compacted = ("cleanup.policy", "compact");
    let args = ["--dry-run", "--explain", "transactions-0"];
    let dir = with_settings(&[compacted, ("delete.retention.ms", "0")]);
    let now = compact(dir.path(), &args);
    assert!(now.text().contains("131 B of 524 B"), "{}{}", now.text(), now.stderr);

    let ten_years = "315360000000";
    let dir = with_settings(&[compacted, ("min.compaction.lag.ms", ten_years)]);
    let young = compact(dir.path(), &args);
    assert_eq!(young.code, Some(0), "{}", young.stderr);
    assert!(young.text().contains("nothing to clean, clean up to 0"), "{}", young.text());
    let why = "up to 0: records there are younger than min.compaction.lag.ms, 315360000000";
    assert!(young.text().contains(why), "{}", young.text());
    let set = [&["--set", "min.compaction.lag.ms=0"][..], &args].concat();
    assert!(compact(dir.path(), &set).text().contains("dirty from 0 up to 4"));
}

#[test]
fn it_is_told_whether_a_broker_would_clean_by_ratio_or_by_age() {
    let dir = copy();
    let explain = |args: &[&str]| {
        let all = [&["--dry-run", "--explain"][..], args, &["transactions-0"]].concat();
        compact(dir.path(), &all).text().to_owned()
    };
    let text = explain(&[]);
    assert!(
        text.contains("dirty ratio 1.00, above min.cleanable.dirty.ratio 0.5: a broker cleans")
    );
    assert!(!text.contains("max.compaction.lag.ms"), "{text}");
    let text = explain(&[
        "--set",
        "min.cleanable.dirty.ratio=1.0",
        "--set",
        "max.compaction.lag.ms=86400000",
    ]);
    assert!(text.contains("not above min.cleanable.dirty.ratio 1: a broker waits"), "{text}");
    assert!(text.contains("late for max.compaction.lag.ms, 86400000: a broker cleans"), "{text}");
}

#[test]
fn a_topic_that_is_known_not_to_be_compacted_is_refused() {
    let dir = with_settings(&[("retention.ms", "1")]);
    let before = contents(dir.path());
    let refused = compact(dir.path(), &["transactions-0"]);
    assert_eq!(refused.code, Some(2), "{}", refused.text());
    assert!(refused.stderr.contains("its topic is not compacted"), "{}", refused.stderr);
    assert!(contents(dir.path()) == before, "no byte changes");
    let forced = ["--dry-run", "--set", "cleanup.policy=compact", "transactions-0"];
    assert_eq!(compact(dir.path(), &forced).code, Some(0));
}

#[test]
fn a_log_directory_is_refused_as_by_every_command_for_one_partition() {
    let dir = copy();
    let refused = compact(dir.path(), &["."]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("partition"), "{}", refused.stderr);
}

#[test]
fn a_batch_below_its_segment_exits_with_1_and_changes_no_byte() {
    // 1.2 MB of ten records: each segment is a group of its own, or all are one.
    let value = vec![b'v'; 120_000];
    let records = |base: i64, count: i64| {
        let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(base)));
        for offset in base..base + count {
            let key = format!("key {offset}");
            builder.append(&SimpleRecord::new().key(key.as_bytes()).value(&value)).unwrap();
        }
        builder.finish().unwrap().to_vec()
    };
    let dir = disk::scratch(&[
        ("t-0/00000000000000000000.log", &records(0, 10)),
        ("t-0/00000000000000000010.log", &[records(5, 1), records(10, 10)].concat()),
        ("t-0/00000000000000000020.log", &records(20, 1)),
    ]);
    let before = contents(dir.path());
    for bytes in ["segment.bytes=1048576", "segment.bytes=1073741824"] {
        let run = compact(dir.path(), &["--set", bytes, "t-0"]);
        assert_eq!(run.code, Some(1), "{}{}", run.text(), run.stderr);
        let named =
            run.stderr.contains("00000000000000000010.log") && run.stderr.contains("byte 0");
        assert!(named, "{}", run.stderr);
        assert!(contents(dir.path()) == before, "no byte changes");
    }
}

#[test]
fn memory_beyond_all_bounds_and_a_time_before_1970_are_wrong_usage() {
    let dir = copy();
    let before = contents(dir.path());
    let bad = ["--map-bytes=18446744073709551615", "--map-bytes=1099511627776", "--map-bytes=0"];
    for arg in bad {
        let run = compact(dir.path(), &[arg, "plain-0"]);
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        assert!(run.stderr.contains("--map-bytes"), "{}", run.stderr);
    }
    let early = run(dir.path(), &["compact", "--now=-1", "plain-0"]);
    assert_eq!(early.code, Some(2), "{}", early.stderr);
    assert!(early.stderr.contains("--now"), "{}", early.stderr);
    assert!(contents(dir.path()) == before, "no byte changes");
}

#[test]
fn what_cannot_be_written_again_is_damage_of_a_batch() {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    for time in [7, 8] {
        let record = SimpleRecord::new().timestamp(Timestamp::new(time)).key(b"k").value(b"v");
        builder.append(&record).unwrap();
    }
    let mut batch = builder.finish().unwrap().to_vec();
    batch[27..35].copy_from_slice(&(-100_i64).to_be_bytes());
    let crc = Batch::parse(&batch, Position::new(0)).unwrap().compute_crc();
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    let dir = disk::scratch(&[
        ("t-0/00000000000000000000.log", &batch),
        ("t-0/00000000000000000002.log", &[]),
    ]);
    let before = contents(dir.path());
    let run = compact(dir.path(), &["t-0"]);
    assert_eq!(run.code, Some(1), "{}{}", run.text(), run.stderr);
    assert!(run.stderr.contains("byte 0: timestamp -99 is negative"), "{}", run.stderr);
    // The indexes that were missing are there now.
    let mut after = contents(dir.path());
    after.retain(|(name, _)| !name.to_string_lossy().ends_with("index"));
    assert!(after == before, "no byte of a log changes, and no file is left");
}

#[test]
fn a_damaged_transaction_index_is_damage() {
    let dir = copy();
    let index = dir.path().join("transactions-0/00000000000000000000.txnindex");
    fs::write(&index, [0xff; 34]).unwrap();
    let before = contents(dir.path());
    let run = compact(dir.path(), &["transactions-0"]);
    assert_eq!(run.code, Some(1), "{}{}", run.text(), run.stderr);
    assert!(run.stderr.contains("00000000000000000000.txnindex"), "{}", run.stderr);
    assert!(contents(dir.path()) == before, "no byte changes");
}
