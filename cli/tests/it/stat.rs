//! `stat`: numbers of partitions.

use alluvium_record_format::{BatchBuilder, BatchSettings, Offset, SimpleRecord, Timestamp};
use serde_json::Value;

use crate::disk::{clean, copy, scratch, three_batches};
use crate::process::run;

fn objects(dir: &std::path::Path, args: &[&str]) -> Vec<Value> {
    let run = run(dir, &[&["stat", "--json"][..], args].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_partition_is_counted() {
    let dir = scratch(&[("t-0/00000000000000000000.log", &three_batches())]);
    let stat = objects(dir.path(), &["t-0"]).remove(0);
    for (field, value) in [
        ("segments", 1),
        ("bytes", 354),
        ("batches", 3),
        ("records", 9),
        ("log_start_offset", 0),
        ("log_end_offset", 9),
        ("earliest", 1000),
        ("latest", 1008),
        ("producers", 0),
        ("damage", 0),
    ] {
        assert_eq!(stat[field], value, "{field}");
    }
    assert_eq!(stat["codecs"]["none"]["payload_bytes"], 354 - 3 * 61);
}

/// Its base timestamp is what the producer said.
#[test]
fn the_times_of_a_topic_with_log_append_time_are_the_brokers() {
    let settings = BatchSettings::new(Offset::new(0)).log_append_time(Timestamp::new(5000));
    let mut builder = BatchBuilder::new(settings);
    builder.append(&SimpleRecord::new().timestamp(Timestamp::new(7))).unwrap();
    let log = builder.finish().unwrap().to_vec();
    let dir = scratch(&[("t-0/00000000000000000000.log", &log)]);
    let stat = objects(dir.path(), &["t-0"]).remove(0);
    assert_eq!((&stat["earliest"], &stat["latest"]), (&5000.into(), &5000.into()));
}

#[test]
fn all_partitions_add_up() {
    let mut stats = objects(&clean(), &["."]);
    let total = stats.pop().unwrap()["total"].clone();
    assert_eq!(total["partitions"], 5);
    for field in ["segments", "bytes", "batches", "records", "other_bytes", "index_entries"] {
        let sum: u64 = stats.iter().map(|stat| stat[field].as_u64().unwrap()).sum();
        assert_eq!(total[field], sum, "{field}");
    }
    let trimmed = stats.iter().find(|stat| stat["partition"] == "./trimmed-0").unwrap();
    assert_eq!(trimmed["log_start_offset"], 37);
}

#[test]
fn the_ratio_is_that_of_inflated_and_stored_bytes() {
    let zstd = objects(&clean(), &["codec-zstd-0"])[0]["codecs"]["zstd"].clone();
    let (stored, inflated) = (&zstd["payload_bytes"], &zstd["inflated_bytes"]);
    let ratio = inflated.as_f64().unwrap() / stored.as_f64().unwrap();
    assert!(ratio > 1.5, "{zstd}");
    assert!((zstd["ratio"].as_f64().unwrap() - ratio).abs() < 1e-9);
    let quick = objects(&clean(), &["--quick", "codec-zstd-0"])[0]["codecs"]["zstd"].clone();
    assert_eq!((&quick["ratio"], &quick["payload_bytes"]), (&Value::Null, stored));
}

#[test]
fn an_open_transaction_is_shown() {
    let dir = copy("disk/clean/transactions-0");
    // The last segment goes, and with it the snapshot that knows of the end of all transactions.
    for file in ["00000000000000000083.log", "00000000000000000091.snapshot"] {
        std::fs::remove_file(dir.path().join(file)).unwrap();
    }
    let log = dir.path().join("00000000000000000004.log");
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 78]).unwrap();
    let stat = objects(dir.path(), &["."]).remove(0);
    let open = stat["open_transactions"].as_array().unwrap();
    // One began in the batch before the marker that was cut off, one was never ended.
    assert_eq!(open.iter().map(|txn| &txn["since"]).collect::<Vec<_>>(), [78, 79], "{stat}");
}

#[test]
fn damage_is_counted_and_the_rest_measured() {
    let log = three_batches();
    let dir = scratch(&[("t-0/00000000000000000000.log", &log[..300])]);
    let run = run(dir.path(), &["stat", "t-0"]);
    assert_eq!(run.code, Some(1));
    assert!(run.text().contains("  records     6 in 2 batches\n"), "{}", run.text());
    assert!(run.text().contains("  damage      1 place:"), "{}", run.text());
}

#[test]
fn a_partition_that_the_cleaner_knows_shows_tombstones_and_how_dirty_it_is() {
    let dir = copy("disk/clean");
    let stat = |args: &[&str]| objects(dir.path(), args).remove(0);
    let clean = stat(&["compacted-0"]);
    assert_eq!((&clean["dirty_ratio"], &clean["first_dirty_offset"]), (&0.0.into(), &510.into()));
    let view = run(dir.path(), &["dump", "--format", "jsonl", "compacted-0"]);
    let is_tombstone =
        |line: &&str| line.contains("\"value\":null") && !line.contains("\"key\":null");
    let tombstones = view.text().lines().filter(is_tombstone).count();
    assert!(tombstones > 0);
    assert_eq!(clean["tombstones"], tombstones);
    assert_eq!(stat(&["--quick", "compacted-0"])["tombstones"], Value::Null);
    assert_eq!(stat(&["plain-0"]).get("dirty_ratio"), None, "not known to the cleaner");

    // 282 bytes of a segment are clean, 1,820 of another are not; the active one does not count.
    let noted = dir.path().join("cleaner-offset-checkpoint");
    std::fs::write(&noted, "0\n1\ncompacted 0 421\n").unwrap();
    let dirty = stat(&["compacted-0"]);
    let size = |base: &str| {
        let log = dir.path().join("compacted-0").join(base).with_extension("log");
        std::fs::metadata(log).unwrap().len()
    };
    let (clean, cleanable) = (size("00000000000000000211"), size("00000000000000000421"));
    assert_eq!(dirty["cleanable_bytes"], cleanable);
    let ratio = dirty["dirty_ratio"].as_f64().unwrap();
    let whole = u32::try_from(clean + cleanable).unwrap();
    assert!((ratio * f64::from(whole) - f64::from(u32::try_from(cleanable).unwrap())).abs() < 1e-6);
    let text = run(dir.path(), &["stat", "compacted-0"]);
    assert!(text.text().contains("  dirty       0.87 of what can be cleaned, from 421 to 510\n"));
}

/// Nothing but what the file says is unknown then.
#[test]
fn a_checkpoint_that_is_damaged_is_named_once_and_the_rest_is_counted() {
    let log = three_batches();
    for name in [
        "cleaner-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
    ] {
        let dir = scratch(&[
            ("cleaner-offset-checkpoint", b"0\n2\nt 0 0\nt 1 0\n"),
            (name, b"0\n2\nt 0 0\nt 1\n"),
            ("t-0/00000000000000000000.log", &log),
            ("t-1/00000000000000000000.log", &log),
        ]);
        let run = run(dir.path(), &["stat", "--json", "."]);
        assert_eq!(run.code, Some(1), "{name}: {}", run.stderr);
        assert_eq!(run.stderr.matches(&format!("{name}: byte 10: ")).count(), 1, "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{name}: {}", run.stderr);
        for line in run.text().lines().take(2) {
            let stat: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&stat["log_end_offset"], &stat["records"]), (&9.into(), &9.into()));
        }
    }
}
