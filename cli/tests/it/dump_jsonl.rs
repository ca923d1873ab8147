//! `dump --format jsonl` against what Kafka's consumer saw.

use std::fs;

use crate::disk::{clean, golden, scratch, three_batches};
use crate::process::run;

#[test]
fn every_partition_gives_what_a_consumer_saw_in_both_isolation_levels() {
    let mut compared = 0;
    for entry in fs::read_dir(golden("disk/view")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let stem = name.strip_suffix(".jsonl").unwrap();
        let (partition, isolation) = stem.rsplit_once('.').unwrap();
        if isolation == "offsets-for-times" {
            continue;
        }
        let args = ["dump", "--format", "jsonl", "--isolation", isolation, partition];
        let run = run(&clean(), &args);
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
        assert!(run.stdout == fs::read(&path).unwrap(), "{name}:\n{}", run.text());
        compared += 1;
    }
    assert_eq!(compared, 10);
}

#[test]
fn a_partition_is_found_from_inside_its_directory() {
    let inside = run(&clean().join("trimmed-0"), &["dump", "--format", "jsonl", "."]);
    let above = run(&clean(), &["dump", "--format", "jsonl", "trimmed-0"]);
    assert_eq!(inside.stdout, above.stdout, "the log start offset comes from the parent");
}

#[test]
fn values_are_shown_as_asked() {
    let dir = scratch(&[("t-0/00000000000000000000.log", &three_batches())]);
    let first = |values| {
        let run = run(dir.path(), &["dump", "--format", "jsonl", "--values", values, "t-0"]);
        run.text().lines().nth(1).unwrap().to_owned()
    };
    assert!(first("crc32c").contains(r#""value":{"len":10,"crc32c":"#), "{}", first("crc32c"));
    assert!(first("base64").contains(r#""value":"dnZ2dnZ2dnZ2dg==""#));
    assert!(first("utf8").contains(r#""value":"vvvvvvvvvv""#));
}

#[test]
fn the_view_goes_on_behind_a_batch_with_a_wrong_checksum() {
    let mut log = three_batches();
    log[118 + 100] ^= 4;
    let dir = scratch(&[("t-0/00000000000000000000.log", &log)]);
    let run = run(dir.path(), &["dump", "--format", "jsonl", "t-0"]);
    assert_eq!(run.code, Some(1));
    let offsets: Vec<_> = run.text().lines().skip(1).map(|line| &line[10..11]).collect();
    assert_eq!(offsets, ["0", "1", "2", "6", "7", "8"]);
    assert!(
        run.stderr.contains("t-0/00000000000000000000.log: byte 135: stored"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_batch_that_claims_an_offset_of_a_later_segment_hides_nothing_behind_it() {
    let mut log = three_batches();
    // Offset 3 becomes 65,539, which no checksum covers.
    log[118 + 5] = 1;
    let dir =
        scratch(&[("t-0/00000000000000000000.log", &log), ("t-0/00000000000000000009.log", b"")]);
    let run = run(dir.path(), &["dump", "--format", "jsonl", "t-0"]);
    assert_eq!(run.code, Some(1));
    let offsets: Vec<_> = run.text().lines().skip(1).map(|line| &line[10..11]).collect();
    assert_eq!(offsets, ["0", "1", "2", "6", "7", "8"]);
    let what = "00000000000000000000.log: byte 118: offset 65539, but the next segment begins at 9";
    assert!(run.stderr.contains(what), "{}", run.stderr);
}

#[test]
fn options_of_another_form_are_refused() {
    for args in [
        &["dump", "--isolation", "read_committed", "x"][..],
        &["dump", "--format", "kafka", "--values", "utf8", "x"],
        &["dump", "--format", "jsonl", "--print-data-log", "x"],
        &["dump", "--format", "kafka", "--batches", "x"],
    ] {
        let run = run(&clean(), args);
        assert_eq!(run.code, Some(2), "{args:?}");
        assert!(run.stderr.contains("does not go with this --format"), "{}", run.stderr);
    }
}
