//! `verify`: what it says of sound disks, and of damaged ones.

use std::fs;
use std::path::Path;

use alluvium_record_format::{BatchBuilder, BatchSettings, Offset, SimpleRecord, Timestamp};
use serde_json::Value;

use crate::disk::{clean, copy, files, golden, hex, scratch, three_batches};
use crate::process::{Run, run};

const LOG: &str = "t-0/00000000000000000000.log";
const INDEX: &str = "t-0/00000000000000000000.index";
const TIME_INDEX: &str = "t-0/00000000000000000000.timeindex";

/// Runs `verify --json`; returns the findings as `kind path:byte`.
fn findings(dir: &Path, paths: &[&str]) -> (Run, Vec<String>) {
    let run = run(dir, &[&["verify", "--json"][..], paths].concat());
    let objects = run.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = objects
        .filter(|object| object.get("kind").is_some())
        .map(|object| {
            let kind = object["kind"].as_str().unwrap();
            let path = object["path"].as_str().unwrap();
            format!("{kind} {path}:{}", object["byte"])
        })
        .collect();
    (run, found)
}

/// The findings of a partition `t-0` with these files.
fn damaged(files: &[(&str, &[u8])]) -> Vec<String> {
    let dir = scratch(files);
    let (run, found) = findings(dir.path(), &["t-0"]);
    let is_damage = run.text().contains(r#""severity":"damage""#);
    assert_eq!(run.code, Some(i32::from(is_damage)), "{found:?} {}", run.stderr);
    found
}

#[test]
fn a_disk_that_kafka_closed_cleanly_is_sound() {
    let (run, found) = findings(&clean(), &["."]);
    assert_eq!(run.code, Some(0), "{found:?}");
    // The golden disk holds fewer partitions than its checkpoints name.
    let strangers = found.iter().filter(|found| found.starts_with("checkpoint-stranger "));
    assert_eq!(strangers.count(), found.len(), "{found:?}");
    let summary: Value = serde_json::from_str(run.text().lines().last().unwrap()).unwrap();
    assert_eq!(summary["summary"]["partitions"], 5);
    assert!(summary["summary"]["records"].as_u64() > Some(400));
}

#[test]
fn each_partition_and_each_file_is_sound_alone() {
    for file in files(&clean()) {
        let name = file.to_str().unwrap();
        let is_known = !matches!(name, ".kafka_cleanshutdown") && !name.ends_with(".deleted");
        let (run, found) = findings(&clean(), &[name]);
        assert_eq!(run.code, Some(if is_known { 0 } else { 2 }), "{name}: {}", run.stderr);
        assert_eq!(found, [""; 0], "{name}");
    }
    for partition in ["plain-0", "transactions-0", "compacted-0", "trimmed-0", "codec-zstd-0"] {
        assert_eq!(findings(&clean(), &[partition]).1, [""; 0], "{partition}");
    }
}

#[test]
fn logs_of_magic_0_and_1_are_sound() {
    let (run, found) = findings(&golden("legacy"), &["magic0-0", "magic1-0"]);
    assert_eq!(run.code, Some(0), "{found:?}");
    assert!(found.iter().all(|found| found.starts_with("index-missing ")), "{found:?}");
}

/// FR-079: silent damage in sealed data is named, and so is what follows.
#[test]
fn the_check_goes_on_behind_a_wrong_checksum() {
    let mut log = three_batches();
    log[118 + 116] ^= 1;
    log[236 + 100] ^= 1;
    let found =
        damaged(&[(LOG, &log), (INDEX, &[]), (TIME_INDEX, &hex("00000000000003ea 00000002"))]);
    assert_eq!(found, [format!("batch-crc {LOG}:118"), format!("batch-crc {LOG}:236")]);
}

/// FR-008, FR-067: a length or magic that cannot be; the batch behind it is found.
#[test]
fn a_broken_batch_does_not_hide_the_next_one() {
    for (byte, value, at) in [(126, 0x80, 126), (129, 0, 126), (134, 3, 134), (134, 0, 134)] {
        let mut log = three_batches();
        log[byte] = value;
        let dir = scratch(&[(LOG, &log), (INDEX, &[]), (TIME_INDEX, &[])]);
        let (run, found) = findings(dir.path(), &["t-0"]);
        assert_eq!(found, [format!("batch-broken {LOG}:{at}")], "{byte}");
        assert!(run.text().contains("118 bytes are lost"), "{}", run.text());
        assert!(run.text().contains(r#""batches":2,"#), "{}", run.text());
    }
}

/// FR-062.
#[test]
fn tails_are_told_apart() {
    let log = three_batches();
    let tail = |log: &[u8]| {
        let found = damaged(&[(LOG, log), (INDEX, &[]), (TIME_INDEX, &[])]);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    };
    for cut in [1, 60, 110] {
        assert_eq!(tail(&log[..354 - cut]), format!("torn-tail {LOG}:236"), "{cut}");
    }
    for zeros in [1, 16, 17, 18, 4096] {
        let padded = [&log[..], &vec![0; zeros]].concat();
        assert_eq!(tail(&padded), format!("zero-tail {LOG}:354"), "{zeros}");
    }
    let noisy = [&log[..], &[0xaa; 500]].concat();
    assert!(tail(&noisy).starts_with("batch-broken "));
}

/// FR-033, FR-034.
#[test]
fn every_entry_of_an_offset_index_is_compared_with_the_log() {
    let log = three_batches();
    let times = hex("00000000000003ea 00000002 00000000000003f0 00000008");
    let check = |index: &str| damaged(&[(LOG, &log), (INDEX, &hex(index)), (TIME_INDEX, &times)]);
    let entry = |byte| format!("index-entry {INDEX}:{byte}");
    assert_eq!(check("00000005 00000076 00000008 000000ec"), [""; 0]);
    assert_eq!(check("00000005 00000010"), [entry(0)], "inside a batch");
    assert_eq!(check("00000005 7fffffff"), [entry(0)], "behind the end");
    assert_eq!(check("00000008 00000162"), [entry(0)], "at the end");
    assert_eq!(check("00000004 00000076"), [entry(0)], "another offset");
    assert_eq!(check("00000005 00000076 00000007 000000ec"), [entry(8)], "another offset");
    assert_eq!(check("00000008 000000ec 00000005 00000076"), [entry(8), entry(8)], "order");
    assert_eq!(check("00000005"), [format!("index-length {INDEX}:0")], "cut");
    assert_eq!(check(&"00".repeat(1024)), [""; 0], "padding of the active segment");
    assert_eq!(check("0000000000000000 00000008 000000ec"), [entry(8)], "behind padding");
    assert_eq!(
        check("00000008 00000076"),
        [format!("index-old-style {INDEX}:null")],
        "as brokers before 4.1 wrote it for one append of two batches"
    );
}

#[test]
fn every_entry_of_a_time_index_is_compared_with_the_log() {
    let log = three_batches();
    let check = |times: &str| damaged(&[(LOG, &log), (INDEX, &[]), (TIME_INDEX, &hex(times))]);
    let entry = |byte| format!("time-index-entry {TIME_INDEX}:{byte}");
    assert_eq!(check("00000000000003ed 00000005 00000000000003f0 00000008"), [""; 0]);
    assert_eq!(check("00000000000003ee 00000005"), [entry(0)], "another time");
    assert_eq!(check("00000000000003ed 00000009"), [entry(0)], "behind the end");
    assert_eq!(check("00000000000003ed 00000008"), [entry(0)], "reached before");
    let falling = check("00000000000003f0 00000008 00000000000003ed 00000005");
    assert!(falling.contains(&entry(12)), "{falling:?}");
    assert_eq!(check("00000000000003ed 00000004"), [format!("index-old-style {TIME_INDEX}:null")]);
}

#[test]
fn the_time_index_of_a_sealed_segment_ends_with_its_largest_time() {
    let log = three_batches();
    let next = "t-0/00000000000000000009.log";
    let found = damaged(&[
        (LOG, &log),
        (INDEX, &[]),
        (TIME_INDEX, &hex("00000000000003ed 00000005")),
        (next, &[]),
    ]);
    assert_eq!(found, [format!("time-index-end {TIME_INDEX}:null")]);
}

/// Its slot holds zeros alone, as padding does.
#[test]
fn a_record_from_1970_at_the_base_offset_has_a_sound_time_index() {
    let next = "t-0/00000000000000000001.log";
    let of_times = |times: &[i64]| {
        let batch = |(offset, time): (i64, &i64)| {
            let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(offset)));
            builder.append(&SimpleRecord::new().timestamp(Timestamp::new(*time))).unwrap();
            builder.finish().unwrap().to_vec()
        };
        (0..).zip(times).flat_map(batch).collect::<Vec<u8>>()
    };
    let check = |times: &[i64], next, entries: &str| {
        let index = hex(entries);
        damaged(&[(LOG, &of_times(times)), (INDEX, &[]), (TIME_INDEX, &index), (next, &[])])
    };
    let zero = "0000000000000000 00000000";
    assert_eq!(check(&[0], next, zero), [""; 0]);
    let two = "t-0/00000000000000000002.log";
    assert_eq!(check(&[0, 5], two, &format!("{zero} 0000000000000005 00000001")), [""; 0]);
    let missing = format!("time-index-end {TIME_INDEX}:null");
    assert!(check(&[5], next, zero).contains(&missing));
    assert!(check(&[0], next, "").contains(&missing));
}

#[test]
fn offsets_must_not_reach_into_a_neighbour() {
    let log = three_batches();
    let (before, after) = ("t-0/00000000000000000000.log", "t-0/00000000000000000005.log");
    let found = damaged(&[(before, &log[..236]), (after, &log[236..])]);
    assert!(found.contains(&format!("batch-order {before}:118")), "{found:?}");
    let found = damaged(&[(after, &log[118..])]);
    assert!(found.contains(&format!("batch-order {after}:0")), "{found:?}");
    let swapped = [&log[118..236], &log[..118]].concat();
    let found = damaged(&[(before, &swapped)]);
    assert!(found.contains(&format!("batch-order {before}:118")), "{found:?}");
}

#[test]
fn an_aborted_transaction_must_be_in_the_transaction_index() {
    let dir = copy("disk/clean/transactions-0");
    let txns = dir.path().join("00000000000000000004.txnindex");
    let bytes = fs::read(&txns).unwrap();
    fs::write(&txns, &bytes[34..]).unwrap();
    let (run, found) = findings(dir.path(), &["."]);
    assert_eq!((run.code, found.len()), (Some(1), 1), "{found:?}");
    assert!(found[0].starts_with("txn-index-entry ./00000000000000000004.log:"), "{found:?}");

    // Another producer, offset or version in the first entry.
    for byte in [1, 9, 17, 25] {
        let mut bytes = bytes.clone();
        bytes[byte] ^= 1;
        fs::write(&txns, &bytes).unwrap();
        let (_, found) = findings(dir.path(), &["."]);
        assert!(found.iter().any(|found| found.contains(".txnindex:0")), "{byte}: {found:?}");
    }
    // FR-043.
    fs::write(&txns, [&bytes[..], &[0; 6]].concat()).unwrap();
    let (_, found) = findings(dir.path(), &["."]);
    assert_eq!(found, [format!("index-length ./00000000000000000004.txnindex:{}", bytes.len())]);
}

/// FR-083.
#[test]
fn damaged_snapshots_are_named() {
    let log = three_batches();
    for bad in ["", "0001deadbeef00000000", "006348674bc700000000", "000148674bc70000000000"] {
        let snapshot = "t-0/00000000000000000009.snapshot";
        let files: [(&str, &[u8]); 2] = [(LOG, &log), (snapshot, &hex(bad))];
        let found = damaged(&files);
        let named = found.iter().filter(|found| found.starts_with(&format!("snapshot {snapshot}")));
        assert_eq!(named.count(), 1, "{bad}: {found:?}");
    }
    let ahead = "t-0/00000000000000000500.snapshot";
    let found = damaged(&[(LOG, &log), (ahead, &hex("000148674bc700000000"))]);
    assert!(found.contains(&format!("snapshot-ahead {ahead}:null")), "{found:?}");
}

/// FR-060, FR-087.
#[test]
fn leader_epochs_are_compared_with_the_batches() {
    let log = three_batches();
    let check = |epochs: &str| {
        let files: [(&str, &[u8]); 4] = [
            (LOG, &log),
            (INDEX, &[]),
            (TIME_INDEX, &[]),
            ("t-0/leader-epoch-checkpoint", epochs.as_bytes()),
        ];
        damaged(&files)
    };
    assert_eq!(check("0\n2\n0 0\n1 6\n"), [""; 0]);
    assert_eq!(check("0\n3\n0 0\n1 6\n2 9\n"), [""; 0], "a later epoch without records");
    for empty in ["", "0\n"] {
        assert_eq!(check(empty), [""; 0]);
    }
    assert_eq!(check("0\n1\n0 0\n"), [format!("batch-epoch {LOG}:248")]);
    assert_eq!(check("0\n2\n0 0\n1 3\n"), [format!("batch-epoch {LOG}:130")]);
    for damaged in ["0\n2\n0 0\n", "1\n1\n0 0\n", "0\n1\n0 0\n0 0", "0\n1\nx 0\n"] {
        assert!(check(damaged)[0].starts_with("epoch-file t-0/leader-epoch-checkpoint:"));
    }
    assert_eq!(check("0\n3\n0 0\n1 6\n2 10\n"), ["epoch-ahead t-0/leader-epoch-checkpoint:null"]);
}

/// FR-074, FR-060.
#[test]
fn checkpoints_are_compared_with_the_partitions() {
    let log = three_batches();
    let check = |name: &str, text: &str| {
        let files: [(&str, &[u8]); 4] =
            [(LOG, &log), (INDEX, &[]), (TIME_INDEX, &[]), (name, text.as_bytes())];
        let dir = scratch(&files);
        let whole = findings(dir.path(), &["."]).1;
        let alone = findings(dir.path(), &["t-0"]).1;
        (whole, alone.len())
    };
    let recovery = "recovery-point-offset-checkpoint";
    assert_eq!(check(recovery, "0\n1\nt 0 9\n"), (vec![], 0));
    let ahead = vec![format!("checkpoint-ahead ./{recovery}:null")];
    assert_eq!(check(recovery, "0\n1\nt 0 10\n"), (ahead, 1));
    let stranger = vec![format!("checkpoint-stranger ./{recovery}:null")];
    assert_eq!(check(recovery, "0\n1\nu 0 10\n"), (stranger, 0));
    let start = "log-start-offset-checkpoint";
    let beyond = vec![format!("log-start ./{start}:null")];
    assert_eq!(check(start, "0\n1\nt 0 100\n"), (beyond, 1));
    for damaged in ["0\n2\nt 0 9\n", "7\n1\nt 0 9\n", "0\n1\nt 0\n"] {
        let (whole, _) = check("replication-offset-checkpoint", damaged);
        assert!(whole[0].starts_with("checkpoint ./replication-offset-checkpoint:"), "{whole:?}");
    }
}

/// FR-057, FR-069, FR-071.
#[test]
fn names_that_kafka_trips_over_are_named() {
    let log = three_batches();
    let dir = scratch(&[
        (LOG, &log),
        (INDEX, &[]),
        (TIME_INDEX, &[]),
        ("t-0/5.log", b"x"),
        ("t-0/junk.log", b"x"),
        ("t-0/99999999999999999999.log", b"x"),
        ("t-0/-0000000000000000001.log", b"x"),
        ("t-0/00000000000000000003.log/inside", b"x"),
        ("t-0/00000000000000000050.index", &[]),
        ("t-0/00000000000000000000.log.swap", &log),
        ("t-0/00000000000000000060.log.deleted", &log),
        ("lost+found/x", b"x"),
        ("u-0.0123456789abcdef0123456789abcdef-delete/x", b"x"),
        (
            "u-1.0123456789abcdef0123456789abcdef-future/partition.metadata",
            b"version: 0\ntopic_id: x",
        ),
    ]);
    let (run, mut found) = findings(dir.path(), &["."]);
    found.sort();
    assert_eq!(run.code, Some(1));
    assert_eq!(
        found,
        [
            "index-orphan ./t-0/00000000000000000050.index:null",
            "left-over ./t-0/00000000000000000000.log.swap:null",
            "metadata ./u-1.0123456789abcdef0123456789abcdef-future/partition.metadata:11",
            "name ./lost+found:null",
            "name ./t-0/-0000000000000000001.log:null",
            "name ./t-0/00000000000000000003.log:null",
            "name ./t-0/5.log:null",
            "name ./t-0/99999999999999999999.log:null",
            "name ./t-0/junk.log:null",
        ]
    );
}

/// FR-075.
#[test]
fn offsets_that_do_not_fit_a_segment_are_named() {
    let mut far = three_batches();
    far[236..244].copy_from_slice(&2_147_483_648_i64.to_be_bytes());
    let found = damaged(&[(LOG, &far), (INDEX, &[]), (TIME_INDEX, &[])]);
    assert_eq!(found, [format!("batch-order {LOG}:236")]);
}

/// FR-027: Kafka takes such records from clients, so they are no damage.
#[test]
fn records_out_of_order_are_a_note() {
    let descending = hex("0000000000000000000000430000000002ddd1a41500000000000100000000000003e8
         00000000000003e8ffffffffffffffffffffffffffff000000021000000202
         6b02760010000000026b027700");
    let found = damaged(&[(LOG, &descending), (INDEX, &[]), (TIME_INDEX, &[])]);
    assert_eq!(found, [format!("record-offsets {LOG}:0")]);
}

/// FR-001, FR-002, FR-024: what passes its checksum and yet cannot be read.
#[test]
fn a_payload_that_cannot_be_read_is_named() {
    for batch in [
        "00000000000000000000003a0000000002f998403700000000000000000000000003e8
         00000000000003e8ffffffffffffffffffffffffffffffffffff10000000026b027600",
        "00000000000000000000003a0000000002e120aa2f00000000000000000000000003e8
         00000000000003e8ffffffffffffffffffffffffffff7fffffff10000000026b027600",
        "00000000000000000000004e00000000028daa2c5c00010000000000000000000003e8
         00000000000003e8ffffffffffffffffffffffffffff7fffffff1f8b08000000000000ff
         1360606060ca662a630000a37fcfa609000000",
        "00000000000000000000003a00000000021de7089d00050000000000000000000003e8
         00000000000003e8ffffffffffffffffffffffffffff0000000110000000026b027600",
    ] {
        let found = damaged(&[(LOG, &hex(batch)), (INDEX, &[]), (TIME_INDEX, &[])]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("batch-payload "), "{found:?}");
    }
}

/// Readers pass over the payload, and the checksum is right: nothing else tells.
#[test]
fn a_batch_that_counts_no_record_of_those_that_it_holds_is_named() {
    let batch = "00000000000000000000003a0000000002ba3c1a2c00000000000000000000000003e8
        00000000000003e8ffffffffffffffffffffffffffff0000000010000000026b027600";
    let found = damaged(&[(LOG, &hex(batch)), (INDEX, &[]), (TIME_INDEX, &[])]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("batch-count "), "{found:?}");
}

#[test]
fn the_report_for_people_names_file_byte_and_what_to_do() {
    let dir = scratch(&[(LOG, &three_batches()[..300]), (INDEX, &[]), (TIME_INDEX, &[])]);
    let run = run(dir.path(), &["verify", "t-0"]);
    assert_eq!(run.code, Some(1));
    let lines: Vec<_> = run.text().lines().collect();
    assert_eq!(lines[0], format!("damage torn-tail {LOG}, byte 236"));
    assert_eq!(lines[1], "  the last 64 bytes are no whole batch");
    assert!(lines[2].contains("recovery cuts the tail"), "{}", lines[2]);
    assert!(lines.last().unwrap().starts_with("1 damaged: 1 partition, 1 segment, 2 batches"));
}

#[test]
fn the_help_explains_every_finding() {
    let help = run(&clean(), &["verify", "--help"]);
    for code in ["batch-crc", "torn-tail", "time-index-end", "checkpoint-ahead", "left-over"] {
        assert!(help.text().contains(code), "{code}");
    }
}

#[test]
fn what_is_not_kafkas_is_an_error() {
    let dir = scratch(&[("x/readme.txt", b"x")]);
    for path in ["x", "x/readme.txt", "missing"] {
        let run = run(dir.path(), &["verify", path]);
        assert_eq!(run.code, Some(2), "{path}");
        assert!(run.stderr.contains(path), "{}", run.stderr);
    }
}

#[test]
fn findings_come_in_the_same_order_on_any_number_of_threads() {
    let dir = copy("disk/clean");
    for file in files(dir.path()).iter().filter(|file| file.extension().is_some_and(|e| e == "log"))
    {
        let path = dir.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        if let Some(byte) = bytes.get_mut(70) {
            *byte ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    let one = findings(dir.path(), &["--jobs", "1", "."]).1;
    let eight = findings(dir.path(), &["--jobs", "8", "."]).1;
    assert!(one.len() > 8);
    assert_eq!(one, eight);
}

/// A sparse file takes no room on the disk, whatever its length.
#[test]
fn an_index_that_is_longer_than_that_of_any_log_comes_to_an_end() {
    let dir = scratch(&[(LOG, &three_batches()), (INDEX, &[]), (TIME_INDEX, &[])]);
    let index = fs::File::options().write(true).open(dir.path().join(INDEX)).unwrap();
    index.set_len(1 << 40).unwrap();
    let (run, found) = findings(dir.path(), &["t-0"]);
    assert_eq!(run.code, Some(1), "{found:?} {}", run.stderr);
    assert!(found.contains(&format!("index-length {INDEX}:1073741824")), "{found:?}");
}

/// A pipe would keep the command waiting, a device would never end.
#[test]
fn a_pipe_or_a_device_in_the_place_of_a_file_is_refused_by_name() {
    let dir = scratch(&[(LOG, &three_batches()), (INDEX, &[]), (TIME_INDEX, &[])]);
    for (file, make) in [(LOG, &["mkfifo"][..]), (TIME_INDEX, &["ln", "-s", "/dev/zero"])] {
        let path = dir.path().join(file);
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new(make[0]).args(&make[1..]).arg(&path).status();
        assert!(made.unwrap().success());
        for args in [&["verify", "t-0"][..], &["verify", file], &["dump", file]] {
            let run = run(dir.path(), args);
            assert_ne!(run.code, Some(0), "{args:?} {}", run.stderr);
            let said = run.text().to_owned() + &run.stderr;
            assert!(said.contains(file), "{args:?} {said}");
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, []).unwrap();
    }
}

/// Neither has bytes to check, and neither has a wrong name.
#[test]
fn a_pipe_or_a_directory_with_the_name_of_a_segment_is_no_regular_file() {
    let dir = scratch(&[(LOG, &three_batches()), (INDEX, &[]), (TIME_INDEX, &[])]);
    let other = dir.path().join("t-0/00000000000000000009.log");
    let made = std::process::Command::new("mkfifo").arg(&other).status();
    assert!(made.unwrap().success());
    let said = run(dir.path(), &["verify", "t-0"]).text().to_owned();
    assert!(said.contains("not a regular file") && !said.contains("20 digits"), "{said}");
    fs::remove_file(&other).unwrap();
    fs::create_dir(&other).unwrap();
    let said = run(dir.path(), &["verify", "t-0"]).text().to_owned();
    assert!(said.contains("not a regular file") && !said.contains("20 digits"), "{said}");
}
