//! The commands that change something, and those that list what a start would find.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use alluvium_log_manager::{Log, LogConfig};
use alluvium_segment::DirLock;
use serde_json::Value;
use tempfile::TempDir;

use crate::disk::{clean, copy, files, scratch, state, state_but_lock, three_batches};
use crate::process::{Run, command, run};

const LOG: &str = "t-0/00000000000000000000.log";
const MARKER: &str = ".kafka_cleanshutdown";

fn objects(run: &Run) -> Vec<Value> {
    run.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A log directory with a partition whose last batch is torn, and checkpoints.
fn torn() -> TempDir {
    scratch(&[
        (LOG, &three_batches()[..300]),
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0 0\n"),
        ("replication-offset-checkpoint", b"0\n1\nt 0 9\n"),
    ])
}

/// FR-062.
#[test]
fn recover_cuts_a_torn_tail_and_a_dry_run_only_says_so() {
    let dir = torn();
    let before = state(dir.path());
    let dry = run(dir.path(), &["recover", "--dry-run", "t-0"]);
    assert_eq!(dry.code, Some(1), "{}", dry.stderr);
    assert!(dry.text().contains("would cut 00000000000000000000.log from 300 to 236 bytes"));
    assert!(state(dir.path()) == before, "a dry run changes no byte");

    let wet = run(dir.path(), &["recover", "--json", "t-0"]);
    assert_eq!(wet.code, Some(1), "{}", wet.stderr);
    assert_eq!(objects(&wet)[0]["cut_bytes"], 64);
    assert_eq!(fs::metadata(dir.path().join(LOG)).unwrap().len(), 236);
    let recovery = fs::read_to_string(dir.path().join("recovery-point-offset-checkpoint"));
    assert_eq!(recovery.unwrap(), "0\n1\nt 0 6\n");
    assert_eq!(run(dir.path(), &["verify", "."]).code, Some(0));

    let again = run(dir.path(), &["recover", "t-0"]);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""));
}

/// The disk that it leads to is not mounted: the segment is unreadable, not gone.
#[test]
fn a_segment_that_is_a_link_to_nothing_fails_every_command_and_loses_no_file() {
    let dir = scratch(&[
        (LOG, &three_batches()),
        ("t-0/00000000000000000009.index", b""),
        ("t-0/00000000000000000009.timeindex", b""),
        ("t-0/00000000000000000009.snapshot", b"not looked at"),
    ]);
    let link = dir.path().join("t-0/00000000000000000009.log");
    std::os::unix::fs::symlink("/nowhere/9.log", &link).unwrap();
    let names = files(dir.path());
    for args in [
        &["verify", "t-0"][..],
        &["verify", "."],
        &["stat", "t-0"],
        &["retain", "--dry-run", "t-0"],
        &["retain", "t-0"],
        &["compact", "--dry-run", "t-0"],
        &["compact", "t-0"],
        &["recover", "--dry-run", "t-0"],
        &["recover", "t-0"],
        &["recover", "--all", "."],
    ] {
        let run = run(dir.path(), args);
        assert_eq!(run.code, Some(2), "{args:?} {} {}", run.text(), run.stderr);
        assert!(run.stderr.contains("00000000000000000009.log"), "{args:?} {}", run.stderr);
        let left: Vec<_> = files(dir.path()).into_iter().filter(|f| names.contains(f)).collect();
        assert_eq!(left, names, "{args:?}");
    }
}

#[test]
fn a_disk_that_was_closed_cleanly_needs_no_recovery() {
    let dry = run(&clean(), &["recover", "--dry-run", "--json", "."]);
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    for partition in objects(&dry) {
        assert_eq!(partition["cut_bytes"], 0, "{partition}");
        assert_eq!(partition["scanned_bytes"], 0, "{partition}");
    }
}

/// FR-049: whole batches go; checkpoints follow.
#[test]
fn truncate_cuts_whole_batches_and_lowers_checkpoints() {
    let dir = scratch(&[
        (LOG, &three_batches()),
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0 9\n"),
        ("replication-offset-checkpoint", b"0\n1\nt 0 9\n"),
    ]);
    let before = state(dir.path());
    let dry = run(dir.path(), &["truncate", "t-0", "--to", "4", "--dry-run"]);
    assert!(dry.text().contains("would cut t-0/00000000000000000000.log from 354 to 118 bytes"));
    assert!(state(dir.path()) == before, "no byte changes");

    let wet = run(dir.path(), &["truncate", "t-0", "--to", "4"]);
    assert_eq!(wet.code, Some(0), "{}", wet.stderr);
    assert!(dry.text().starts_with("t-0: would cut from offset 9 to 3\n"), "{}", dry.text());
    assert_eq!(wet.text(), "t-0: cut from offset 9 to 3\n");
    assert_eq!(fs::metadata(dir.path().join(LOG)).unwrap().len(), 118);
    for name in ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"] {
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), "0\n1\nt 0 3\n");
    }
    assert_eq!(run(dir.path(), &["verify", "t-0"]).code, Some(0));
    let same = run(dir.path(), &["truncate", "t-0", "--to", "100"]);
    assert!(same.text().ends_with("nothing to cut\n"), "{}", same.text());
}

/// A compacted log may begin far behind the base of its segment, or hold nothing below the offset.
#[test]
fn truncate_leaves_the_end_that_the_next_start_finds() {
    let batches = three_batches();
    for (log, to, end, base) in [
        // The first batch is gone: nothing is left below 2.
        (&batches[118..], "2", 2, 2),
        (&batches[118..], "3", 3, 3),
        (&batches[118..], "4", 4, 4),
        // The second one is gone.
        (&[&batches[..118], &batches[236..]].concat()[..], "5", 3, 0),
        (&batches[..], "0", 0, 0),
    ] {
        let checkpoint = b"0\n1\nt 0 9\n";
        let dir = scratch(&[(LOG, log), ("recovery-point-offset-checkpoint", checkpoint)]);
        let dry = run(dir.path(), &["truncate", "t-0", "--to", to, "--dry-run"]);
        let text = format!("t-0: would cut from offset 9 to {end}\n");
        assert!(dry.text().starts_with(&text), "{to}: {}", dry.text());
        let cut = run(dir.path(), &["truncate", "t-0", "--to", to]);
        assert_eq!(cut.text(), format!("t-0: cut from offset 9 to {end}\n"), "{}", cut.stderr);
        assert!(dir.path().join(format!("t-0/{base:020}.log")).exists(), "{to}");
        let listed = objects(&run(dir.path(), &["checkpoints", "--json", "."]));
        assert_eq!(
            (&listed[0]["log_end_offset"], &listed[0]["recovery_point"]),
            (&end.into(), &end.into())
        );
        let verified = run(dir.path(), &["verify", "t-0"]);
        assert_eq!(verified.code, Some(0), "{to}: {}", verified.text());
        let opened = Log::open(dir.path().join("t-0"), LogConfig::default()).unwrap();
        assert_eq!(opened.log_end_offset().get(), end, "{to}");
    }
}

/// `DeleteRecords` moves the log start into the batch of 3 to 5.
#[test]
fn truncate_tells_the_end_of_a_log_that_starts_inside_the_cut_batch() {
    for (to, end) in [("3", 3), ("4", 4), ("5", 4), ("6", 6), ("2", 2)] {
        let dir = scratch(&[
            (LOG, &three_batches()),
            ("log-start-offset-checkpoint", b"0\n1\nt 0 4\n"),
            ("recovery-point-offset-checkpoint", b"0\n1\nt 0 9\n"),
        ]);
        let dry = run(dir.path(), &["truncate", "t-0", "--to", to, "--dry-run"]);
        let cut = run(dir.path(), &["truncate", "t-0", "--to", to]);
        assert_eq!(cut.text(), format!("t-0: cut from offset 9 to {end}\n"), "{}", cut.stderr);
        let told = format!("t-0: would cut from offset 9 to {end}\n");
        assert!(dry.text().starts_with(&told), "{to}: {}", dry.text());
        let starts = dir.path().join("log-start-offset-checkpoint");
        let start = end.min(4);
        assert_eq!(fs::read_to_string(starts).unwrap(), format!("0\n1\nt 0 {start}\n"), "{to}");
        let stat = objects(&run(dir.path(), &["checkpoints", "--json", "."])).remove(0);
        assert_eq!(stat["log_end_offset"], end, "{to}");
    }
}

/// Kafka drops all segments of a log that starts beyond its end.
#[test]
fn truncate_leaves_no_log_that_ends_below_its_start() {
    let batches = three_batches();
    let gap = [&batches[..118], &batches[236..]].concat();
    // What stays ends at 3, and the log starts at 5, above the gap.
    let dir = scratch(&[
        (LOG, &gap),
        ("log-start-offset-checkpoint", b"0\n1\nt 0 5\n"),
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0 9\n"),
    ]);
    let dry = run(dir.path(), &["truncate", "t-0", "--to", "6", "--dry-run"]);
    assert!(dry.text().starts_with("t-0: would cut from offset 9 to 5\n"), "{}", dry.text());
    let cut = run(dir.path(), &["truncate", "t-0", "--to", "6"]);
    assert_eq!(cut.text(), "t-0: cut from offset 9 to 5\n", "{}", cut.stderr);
    let left = files(&dir.path().join("t-0"));
    let names: Vec<_> = left.iter().filter_map(|file| file.to_str()).collect();
    assert!(names.contains(&"00000000000000000005.log"), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".deleted")), "{names:?}");
    assert_eq!(run(dir.path(), &["verify", "."]).code, Some(0));
    let opened = Log::open(dir.path().join("t-0"), LogConfig::default()).unwrap();
    assert_eq!(opened.log_end_offset().get(), 5);
}

/// Neither command was asked to drop what a start drops.
#[test]
fn truncate_and_retain_refuse_a_log_that_a_start_would_cut() {
    let torn = torn();
    let starts_late = scratch(&[
        (LOG, &three_batches()),
        ("log-start-offset-checkpoint", b"0\n1\nt 0 20\n"),
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0 9\n"),
    ]);
    let unlocked = |dir: &TempDir| state_but_lock(dir.path());
    for (dir, reason) in [
        (&torn, "because damage at byte 236"),
        (&starts_late, "because the log starts beyond its end"),
    ] {
        let before = unlocked(dir);
        for args in [
            &["truncate", "t-0", "--to", "1000"][..],
            &["truncate", "t-0", "--to", "3", "--dry-run"],
            &["retain", "--set", "retention.bytes=1000", "t-0"],
            &["retain", "--set", "retention.bytes=1000", "--dry-run", "."],
        ] {
            let refused = run(dir.path(), args);
            assert_eq!(refused.code, Some(2), "{args:?}: {}", refused.text());
            assert!(refused.stderr.contains(reason), "{args:?}: {}", refused.stderr);
            assert!(refused.stderr.contains("run alluvium recover first"), "{}", refused.stderr);
            assert!(unlocked(dir) == before, "{args:?}: no byte changes");
        }
        run(dir.path(), &["recover", "t-0"]);
        let done = run(dir.path(), &["truncate", "t-0", "--to", "1000"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
}

#[test]
fn truncate_lowers_the_kept_log_start_before_it_cuts() {
    let dir = scratch(&[
        (LOG, &three_batches()),
        ("log-start-offset-checkpoint", b"0\n1\nt 0 4\n"),
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0 9\n"),
    ]);
    fs::create_dir(dir.path().join("log-start-offset-checkpoint.tmp")).unwrap();
    let failed = run(dir.path(), &["truncate", "t-0", "--to", "3"]);
    assert_eq!(failed.code, Some(2), "{}", failed.text());
    assert!(fs::read(dir.path().join(LOG)).unwrap() == three_batches(), "nothing is cut");
}

#[test]
fn the_marker_of_a_clean_stop_stays_away_from_checkpoints_beyond_the_end() {
    let dir = scratch(&[
        (LOG, &three_batches()),
        ("replication-offset-checkpoint", b"0\n1\nt 0 9\n"),
        (MARKER, br#"{"version":0,"brokerEpoch":7}"#),
    ]);
    // The checkpoint cannot be written: as good as a crash before it is.
    let obstacle = dir.path().join("replication-offset-checkpoint.tmp");
    fs::create_dir(&obstacle).unwrap();
    let failed = run(dir.path(), &["truncate", "t-0", "--to", "4"]);
    assert_eq!(failed.code, Some(2), "{}", failed.text());
    assert_eq!(fs::metadata(dir.path().join(LOG)).unwrap().len(), 118, "it is cut");
    assert!(!dir.path().join(MARKER).exists());

    fs::remove_dir(&obstacle).unwrap();
    fs::write(dir.path().join(MARKER), br#"{"version":0,"brokerEpoch":7}"#).unwrap();
    let done = run(dir.path(), &["truncate", "t-0", "--to", "3"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(dir.path().join(MARKER).exists(), "it comes back when all is done");
}

#[test]
fn salvage_keeps_every_sound_batch_and_lists_what_is_lost() {
    let mut log = three_batches();
    log[118 + 90] ^= 1;
    let dir = scratch(&[(LOG, &log)]);
    let before = state(dir.path());
    let saved = run(dir.path(), &["salvage", "--json", "t-0", "out/t-0"]);
    assert_eq!(saved.code, Some(1), "{}", saved.stderr);
    let lines = objects(&saved);
    assert_eq!((&lines[0]["first_offset"], &lines[0]["last_offset"]), (&3.into(), &5.into()));
    assert_eq!(lines[1]["summary"]["kept_batches"], 2);
    assert_eq!(fs::read(dir.path().join(LOG)).unwrap(), log, "nothing in the source changes");
    assert_eq!(state(&dir.path().join("t-0")).len(), before.len());
    let expected = [&log[..118], &log[236..]].concat();
    let out = dir.path().join("out").join(LOG);
    assert_eq!(fs::read(out).unwrap(), expected);
    assert_eq!(run(dir.path(), &["verify", "out/t-0"]).code, Some(0));

    let again = run(dir.path(), &["salvage", "t-0", "out/t-0"]);
    assert_eq!(again.code, Some(2), "an existing directory is left alone");
}

#[test]
fn salvage_that_is_refused_leaves_no_directory_behind() {
    let dir = scratch(&[(LOG, &three_batches()), ("used/meta.properties", b"")]);
    let lock = DirLock::acquire(&dir.path().join("used")).unwrap();
    for args in [
        &["salvage", "--set", "index.interval.bites=1", "t-0", "out/t-0"][..],
        &["salvage", "t-0", "used/t-0"],
    ] {
        let run = run(dir.path(), args);
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(!dir.path().join(args.last().unwrap()).exists(), "{args:?}");
    }
    drop(lock);
    for out in ["out/t-0", "used/t-0", "t-1"] {
        let run = run(dir.path(), &["salvage", "t-0", out]);
        assert_eq!(run.code, Some(0), "{out}: {}", run.stderr);
    }
}

#[test]
fn salvage_leaves_out_a_topic_id_that_kafka_cannot_read() {
    let sound = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ";
    let dir = scratch(&[
        ("t-0/00000000000000000000.log", &three_batches()),
        ("t-0/partition.metadata", sound),
    ]);
    let (from, to) = (dir.path().join("t-0/partition.metadata"), dir.path().join("out"));
    let saved = run(dir.path(), &["salvage", "t-0", "out/t-0"]);
    assert_eq!((saved.code, &*saved.stderr), (Some(0), ""), "{}", saved.text());
    assert_eq!(fs::read(to.join("t-0/partition.metadata")).unwrap(), sound);

    fs::write(from, b"version: 0\ntopic_id: xx\n").unwrap();
    let saved = run(dir.path(), &["salvage", "t-0", "out/t-1"]);
    assert_eq!(saved.code, Some(1), "{}", saved.text());
    assert!(saved.stderr.contains("t-0/partition.metadata: byte 11"), "{}", saved.stderr);
    assert!(saved.text().contains("1 loss"), "{}", saved.text());
    assert!(!to.join("t-1/partition.metadata").exists());
    assert_eq!(run(dir.path(), &["verify", "out/t-1"]).code, Some(0));
}

/// Zeros are passed over by the stride, and a header may lie across the end of one.
#[test]
fn salvage_finds_a_batch_behind_any_number_of_zeros() {
    let batches = three_batches();
    for zeros in [1, 16, 60, 61, 65_475, 65_476, 65_519, 65_520, 65_536, 131_072, 200_000] {
        let log = [&batches[..118], &vec![0; zeros], &batches[118..]].concat();
        let dir = scratch(&[(LOG, &log)]);
        let saved = run(dir.path(), &["salvage", "--json", "t-0", "out/t-0"]);
        let summary = objects(&saved).pop().unwrap();
        assert_eq!(summary["summary"]["kept_batches"], 3, "{zeros}: {}", saved.text());
        assert_eq!(fs::read(dir.path().join("out").join(LOG)).unwrap(), batches, "{zeros}");
    }
}

#[test]
fn salvage_goes_on_behind_broken_lengths_in_every_segment() {
    let dir = copy("disk/clean");
    let log = dir.path().join("plain-0/00000000000000000000.log");
    let mut bytes = fs::read(&log).unwrap();
    bytes[8] = 0x7f;
    fs::write(&log, bytes).unwrap();
    let saved = run(dir.path(), &["salvage", "--json", "plain-0", "rescue/plain-0"]);
    assert_eq!(saved.code, Some(1), "{}", saved.stderr);
    let lines = objects(&saved);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(run(dir.path(), &["verify", "rescue/plain-0"]).code, Some(0));
    let view = run(dir.path(), &["dump", "--format", "jsonl", "rescue/plain-0"]);
    let original = run(&clean(), &["dump", "--format", "jsonl", "plain-0"]);
    let kept: Vec<_> = view.text().lines().skip(1).collect();
    assert!(kept.len() > 100 && original.text().contains(&kept.join("\n")));
}

#[test]
fn epochs_producers_and_checkpoints_are_listed() {
    let dir = clean();
    let epochs = objects(&run(&dir, &["epochs", "--json", "plain-0"]));
    assert_eq!(epochs[0]["start_offset"], 0);
    assert_eq!(epochs.last().unwrap()["end_offset"], 240);

    let checkpoints = objects(&run(&dir, &["checkpoints", "--json", "."]));
    assert_eq!(checkpoints.len(), 5);
    let trimmed = checkpoints.iter().find(|line| line["partition"] == "trimmed-0").unwrap();
    assert_eq!(trimmed["log_start_offset"], 37);
    assert_eq!(trimmed["log_end_offset"], trimmed["recovery_point"]);

    let producers = run(&dir, &["producers", "--json", "transactions-0"]);
    assert_eq!(producers.code, Some(0), "{}", producers.stderr);
    let open = run(&dir, &["producers", "--open", "--json", "."]);
    let open = objects(&open);
    assert_eq!(open.len(), 1, "{open:?}");
    // Where a read_committed consumer of this partition stops.
    assert_eq!(open[0]["open_since"], 79);
    for command in ["epochs", "producers", "checkpoints"] {
        let text = run(&dir, &[command, "."]);
        assert_eq!(text.code, Some(0), "{command}: {}", text.stderr);
    }
}

/// Not damage of a batch, but records go all the same.
#[test]
fn recover_exits_with_1_where_records_go_for_other_reasons_than_damage() {
    let starts_late = [
        (LOG, &three_batches()[..]),
        ("log-start-offset-checkpoint", b"0\n1\nt 0 20\n"),
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0 9\n"),
    ];
    let doubled = [three_batches(), three_batches()].concat();
    let doubled = [(LOG, &doubled[..]), ("recovery-point-offset-checkpoint", b"0\n1\nt 0 0\n")];
    for files in [&starts_late[..], &doubled] {
        let dir = scratch(files);
        // What is indexed is compared, as in Kafka: here every batch but the first.
        let recover = ["recover", "--set", "index.interval.bytes=100", "t-0"];
        for args in [[&recover[..], &["--dry-run"]].concat(), recover.to_vec()] {
            let run = run(dir.path(), &args);
            assert_eq!(run.code, Some(1), "{args:?}: {}{}", run.text(), run.stderr);
        }
        assert_eq!(run(dir.path(), &recover).code, Some(0));
    }
}

#[test]
fn what_mends_takes_no_log_directory_for_a_partition() {
    let dir = torn();
    let before = state(dir.path());
    for args in [
        &["truncate", ".", "--to", "5"][..],
        &["truncate", ".", "--to", "5", "--dry-run"],
        &["salvage", ".", "out/t-0"],
        &["salvage", "t-0", "out/nonsense"],
    ] {
        let run = run(dir.path(), args);
        assert_eq!(run.code, Some(2), "{args:?}");
        assert!(run.stderr.contains("is no partition directory"), "{}", run.stderr);
    }
    assert!(state(dir.path()) == before, "no byte changes");
}

#[test]
fn settings_are_checked() {
    let dir = torn();
    let run = |setting| run(dir.path(), &["recover", "--dry-run", "--set", setting, "t-0"]);
    assert_eq!(run("index.interval.bytes=512").code, Some(1));
    for wrong in ["index.interval.bites=512", "index.interval.bytes=-5", "nonsense"] {
        assert_eq!(run(wrong).code, Some(2), "{wrong}");
    }
}

/// `alluvium recover . | head -1`.
#[test]
fn work_is_done_to_its_end_though_nobody_reads_the_output() {
    let set = ["--set", "index.interval.bytes=64"];
    for (args, bytes, code) in [(&["reindex"][..], 354, 0), (&["recover", "--all"], 300, 1)] {
        let dir = scratch(&[
            ("t-9/00000000000000000000.log", &three_batches()[..bytes]),
            ("recovery-point-offset-checkpoint", b"0\n1\nt 9 0\n"),
            (MARKER, b""),
        ]);
        for number in 10..40 {
            let partition = dir.path().join(format!("t-{number}"));
            fs::create_dir(&partition).unwrap();
            fs::write(partition.join("leader-epoch-checkpoint"), "0\n0\n").unwrap();
        }
        // Each line names the path: more than what is collected before it is written.
        let path = "./".repeat(1500);
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        let args = [args, &set, &[&path]].concat();
        let output = command(dir.path(), &args).stdout(OwnedFd::from(theirs)).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(code), ""), "{}", args[0]);
        let index = dir.path().join("t-9/00000000000000000000.index");
        assert!(fs::metadata(index).unwrap().len() > 0, "{} has not come to t-9", args[0]);
        assert!(dir.path().join(MARKER).exists(), "{} lost the marker", args[0]);
    }
}
