//! `alluvium doctor`: settings of file, command line and cluster, sound, refused or lost.

use std::time::Duration;

use serde_json::Value;

use crate::disk::{BROKER, TOPIC, metadata, metadata_of, three_batches};
use crate::doctor::{Patient, says_of_broker, uncleaned};

/// The damaged batch may hold any setting, so that nothing found is no good news.
#[test]
fn damage_of_the_metadata_log_is_named_where_nothing_else_is_found() {
    let patient = Patient::healthy();
    let mut log = metadata(&["t"], &[("t", "flush.messages", "1")]);
    *log.last_mut().unwrap() ^= 1;
    patient.write("disk/__cluster_metadata-0/00000000000000000000.log", log);
    let run = patient.examine();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("00000000000000000000.log: byte 17: "), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.text().contains(r#""findings":0"#), "{}", run.text());
}

/// Kafka takes some that are refused here.
#[test]
fn a_setting_that_is_refused_is_named_once_and_hides_nothing_else() {
    let patient = Patient::healthy();
    uncleaned(&patient, Duration::from_hours(48));
    patient.write("disk/t-1/00000000000000000000.log", three_batches());
    patient.setting("log.roll.ms=0\nlog.flush.interval.messages=1");
    let settings = [
        (BROKER, "", "log.retention.ms", "0"),
        (BROKER, "", "log.segment.bytes", "1048576"),
        (TOPIC, "t", "min.cleanable.dirty.ratio", "NaN"),
        (TOPIC, "t", "cleanup.policy", "compact"),
        (TOPIC, "t", "min.compaction.lag.ms", "5"),
        (TOPIC, "t", "max.compaction.lag.ms", "4"),
        (TOPIC, "t", "segment.ms", "1000"),
    ];
    let path = "disk/__cluster_metadata-0/00000000000000000000.log";
    patient.write(path, metadata_of(&["t"], &settings));
    let run = patient.examine();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let refused: Vec<_> = run.stderr.lines().map(|line| line.split('`').nth(1).unwrap()).collect();
    let expected = ["log.roll.ms", "log.retention.ms", "min.cleanable.dirty.ratio"];
    assert_eq!(refused, [&expected[..], &["min.compaction.lag.ms"]].concat(), "{}", run.stderr);
    let lines = run.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found: Vec<_> =
        lines.filter_map(|line| Some(line["finding"].as_str()?.to_owned())).collect();
    for text in ["flush.messages is 1", "segment.bytes is 1048576", "segments roll after 1000 ms"] {
        assert!(found.iter().any(|found| found.starts_with(text)), "{text}: {found:?}");
    }
    assert!(found.iter().any(|found| found.contains("ratio 1.00 above 0.5")), "{found:?}");
}

/// The command line is the caller's own.
#[test]
fn a_setting_of_the_command_line_that_is_refused_ends_the_doctor() {
    let mut patient = Patient::healthy();
    patient.arg("--set", "retention.ms=-2");
    let run = patient.examine();
    assert_eq!((run.code, run.text()), (Some(2), ""), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

/// The subject says who has to change it.
#[test]
fn a_setting_of_the_cluster_is_not_told_of_the_file() {
    let patient = Patient::healthy();
    patient.setting("log.flush.interval.messages=1");
    let subjects = || -> Vec<String> {
        let run = patient.examine();
        let lines = run.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| Some(line["subject"].as_str()?.to_owned())).collect()
    };
    assert_eq!(subjects(), ["server.properties"]);
    says_of_broker(&patient, &[("log.flush.interval.messages", "1"), ("log.roll.ms", "60000")]);
    assert_eq!(subjects(), ["server.properties", "the broker's settings in the cluster"]);
}
