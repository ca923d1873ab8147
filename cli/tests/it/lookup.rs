//! `lookup`: by offset and by time.

use std::fs;

use serde_json::Value;

use crate::disk::{clean, golden, hex, scratch, three_batches};
use crate::process::run;

#[test]
fn every_answer_by_time_is_the_brokers() {
    let mut compared = 0;
    for entry in fs::read_dir(golden("disk/view")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(partition) = name.strip_suffix(".offsets-for-times.jsonl") else { continue };
        let expected = objects(&fs::read_to_string(&path).unwrap());
        let mut args = vec!["lookup".to_owned(), partition.to_owned(), "--json".to_owned()];
        for answer in &expected {
            args.extend(["--timestamp".to_owned(), answer["timestamp"].to_string()]);
        }
        let run = run(&clean(), &args);
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
        let answers = objects(run.text());
        assert_eq!(answers.len(), expected.len(), "{name}");
        for (answer, expected) in answers.iter().zip(&expected) {
            for field in ["timestamp", "offset", "found_timestamp"] {
                assert_eq!(answer[field], expected[field], "{name}: {answer}");
            }
        }
        compared += answers.len();
    }
    assert_eq!(compared, 135);
}

#[test]
fn an_offset_leads_to_its_record_or_the_next_one() {
    let log = three_batches();
    let index = hex("00000005 00000076");
    let dir = scratch(&[
        ("t-0/00000000000000000000.log", &[&log[..118], &log[236..]].concat()),
        ("t-0/00000000000000000000.index", &hex("00000008 00000076")),
        ("u-0/00000000000000000000.log", &log),
        ("u-0/00000000000000000000.index", &index),
    ]);
    let answer = |partition: &str, offset: &str| {
        let run = run(dir.path(), &["lookup", partition, "--json", "--offset", offset]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        objects(run.text()).remove(0)
    };
    assert_eq!(answer("t-0", "2")["offset"], 2);
    assert_eq!(answer("t-0", "4")["offset"], 6, "4 was cleaned away");
    assert_eq!(answer("t-0", "9")["offset"], Value::Null);
    let found = answer("u-0", "7");
    assert_eq!(found["index_entry"]["offset"], 5);
    assert_eq!((&found["scan_start"], &found["scanned_bytes"]), (&118.into(), &236.into()));
    assert_eq!(found["batch_position"], 236);
}

/// FR-034: an index is a hint, which the log has to bear out.
#[test]
fn an_index_that_leads_astray_is_named_and_the_log_scanned_instead() {
    for entry in ["00000005 7fffffff", "00000005 00000010", "00000008 00000162"] {
        let dir = scratch(&[
            ("t-0/00000000000000000000.log", &three_batches()),
            ("t-0/00000000000000000000.index", &hex(entry)),
        ]);
        let run = run(dir.path(), &["lookup", "t-0", "--json", "--offset", "8"]);
        assert_eq!(run.code, Some(1), "{entry}");
        assert_eq!(objects(run.text())[0]["offset"], 8, "{entry}");
        assert!(run.stderr.contains("the log is scanned instead"), "{}", run.stderr);
    }
}

#[test]
fn times_are_read_in_milliseconds_and_in_rfc_3339() {
    let dir = scratch(&[("t-0/00000000000000000000.log", &three_batches())]);
    for time in ["1004", "1970-01-01T00:00:01.004Z", "1970-01-01T02:00:01.004+02:00"] {
        let run = run(dir.path(), &["lookup", "t-0", "--timestamp", time]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.text().contains("offset 4, 1970-01-01T00:00:01.004Z"), "{}", run.text());
    }
    let run = run(dir.path(), &["lookup", "t-0", "--timestamp", "yesterday"]);
    assert_eq!(run.code, Some(2));
}

#[test]
fn a_lookup_needs_a_target() {
    let run = run(&clean(), &["lookup", "plain-0"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("--offset"), "{}", run.stderr);
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
