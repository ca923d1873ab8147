//! `alluvium retain`: which segments go, why the others stay, and what a run changes.

use std::fs;

use serde_json::Value;

use crate::disk::{
    BROKER, TOPIC, clean, copy, files, metadata, metadata_of, scratch, state, state_but_lock,
    three_batches,
};
use crate::process::{Run, run};

/// A day after the newest record of the golden disk's `plain-0`.
const A_DAY_AFTER: &str = "1750086408806";

fn objects(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What is dropped, and by which rule.
fn dropped(partition: &Value) -> Vec<(i64, String)> {
    let segments = partition["segments"].as_array().unwrap();
    let dropped = segments.iter().filter_map(|segment| {
        let base = segment["base_offset"].as_i64().unwrap();
        Some((base, segment["dropped_by"].as_str()?.to_owned()))
    });
    dropped.collect()
}

fn plan(args: &[&str]) -> Value {
    let all = [&["retain", "--dry-run", "--json", "--now", A_DAY_AFTER][..], args].concat();
    objects(&run(&clean(), &all)).remove(0)
}

/// FR-053: what is left is never less than the limit.
#[test]
fn size_and_time_drop_whole_segments_from_the_oldest_on() {
    let rule = |base, rule: &str| (base, rule.to_owned());
    let (time, size) = ("retention.ms", "retention.bytes");
    for (settings, expected) in [
        (&["--set", "retention.ms=86400000"][..], vec![rule(0, time)]),
        (&["--set", "retention.ms=86399999"], vec![rule(0, time), rule(214, time)]),
        (&["--set", "retention.bytes=3468"], vec![rule(0, size)]),
        (&["--set", "retention.bytes=3469"], vec![]),
        (&["--set", "cleanup.policy=compact", "--set", "retention.ms=1"], vec![]),
        (&[], vec![]),
    ] {
        let plan = plan(&[settings, &["plain-0"]].concat());
        assert_eq!(dropped(&plan), expected, "{settings:?}");
    }
}

#[test]
fn every_segment_says_which_rule_keeps_it_and_since_when() {
    let args = ["retain", "--dry-run", "--explain", "--now", A_DAY_AFTER, "plain-0"];
    let explained = run(&clean(), &args);
    let text = explained.text();
    assert!(text.starts_with("plain-0: 2 segments, all stay\n  segment 0 (23.6 KiB) stays\n"));
    for line in [
        "log start        the next segment begins at 214, above the log start 0",
        "retention.bytes  not set: keeps all",
        "retention.ms     newest record of 2025-06-15T15:06:47.881Z, 1 d ago: not older than 7 d \
         until 2025-06-22T15:06:47.882Z",
        "log start        the active segment; behind segment 0, which stays",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn settings_come_from_a_file_of_the_broker_and_the_command_line_wins() {
    let dir = copy("disk/clean");
    fs::write(
        dir.path().join("server.properties"),
        "log.retention.hours=1\nlog.retention.byte=1\n",
    )
    .unwrap();
    let base = ["retain", "--dry-run", "--json", "--now", A_DAY_AFTER];
    let file = ["--config", "server.properties", "plain-0"];
    let by_file = run(dir.path(), &[&base[..], &file].concat());
    assert!(by_file.stderr.contains("did you mean log.retention.bytes?"), "{}", by_file.stderr);
    assert_eq!(dropped(&objects(&by_file)[0]).len(), 2);
    let both = [&base[..], &["--set", "retention.ms=-1"], &file].concat();
    assert_eq!(dropped(&objects(&run(dir.path(), &both))[0]).len(), 0);
}

#[test]
fn nothing_goes_above_the_high_watermark() {
    let dir = copy("disk/clean");
    let noted = dir.path().join("replication-offset-checkpoint");
    fs::write(noted, "0\n1\nplain 0 213\n").unwrap();
    let args = ["retain", "--dry-run", "--json", "--explain", "--set", "retention.ms=1", "plain-0"];
    let plan = objects(&run(dir.path(), &args)).remove(0);
    assert_eq!(dropped(&plan), []);
    let reason = plan["segments"][0]["rules"][2]["reason"].as_str().unwrap();
    assert_eq!(reason, "ends at 214, above the high watermark 213");
}

/// It may lie anywhere: the safe place is the log start.
#[test]
fn nothing_goes_where_the_high_watermark_cannot_be_read() {
    let dir = copy("disk/clean");
    fs::write(dir.path().join("replication-offset-checkpoint"), "0\n3\nplain 0 21").unwrap();
    for more in [&["--dry-run"][..], &[]] {
        let base = ["retain", "--json", "--now", A_DAY_AFTER, "--set", "retention.ms=1"];
        let kept = run(dir.path(), &[&base[..], more, &["plain-0"]].concat());
        assert_eq!(kept.code, Some(1), "{}", kept.stderr);
        let plan: Value = serde_json::from_str(kept.text().trim()).unwrap();
        assert_eq!(dropped(&plan), [], "{more:?}");
    }
}

#[test]
fn a_partition_that_fails_keeps_retain_from_no_other() {
    let dir = copy("disk/clean");
    let log = dir.path().join("compacted-0/00000000000000000000.log");
    fs::remove_dir_all(dir.path().join("compacted-0")).unwrap();
    fs::create_dir_all(log).unwrap();
    let args = ["retain", "--now", A_DAY_AFTER, "--set", "retention.ms=86400000", "."];
    let done = run(dir.path(), &args);
    assert_eq!(done.code, Some(2), "{}", done.text());
    assert!(done.stderr.contains("compacted-0"), "{}", done.stderr);
    assert!(
        !files(&dir.path().join("plain-0"))
            .iter()
            .any(|file| file.starts_with("0000000000000000000"))
    );
    assert!(done.text().contains("plain-0: "), "{}", done.text());
}

#[test]
fn a_compacted_partition_and_an_internal_one_lose_nothing_by_age() {
    let dir = copy("disk/clean");
    for name in ["__consumer_offsets-0", "__cluster_metadata-0"] {
        let to = dir.path().join(name);
        fs::create_dir(&to).unwrap();
        fs::write(to.join("00000000000000000000.log"), three_batches()).unwrap();
    }
    let args = ["retain", "--dry-run", "--json", "--set", "retention.ms=1", "."];
    let partitions = objects(&run(dir.path(), &args));
    let find = |name: &str| {
        let path = format!("./{name}");
        partitions.iter().find(|partition| partition["partition"] == path)
    };
    for name in ["__consumer_offsets-0", "compacted-0"] {
        let partition = find(name).unwrap();
        assert_eq!(partition["taken_for_compacted"], true, "{name}");
        assert_eq!(partition["dropped_segments"], 0, "{name}");
    }
    assert_eq!(find("plain-0").unwrap()["dropped_segments"], 2);
    assert_eq!(find("__cluster_metadata-0"), None);
}

#[test]
fn a_run_drops_what_the_dry_run_says_and_moves_the_log_start() {
    let dir = copy("disk/clean");
    let base = ["retain", "--json", "--now", A_DAY_AFTER, "--set", "retention.ms=86400000"];
    let wet = objects(&run(dir.path(), &[&base[..], &["plain-0"]].concat())).remove(0);
    assert_eq!(wet["new_log_start_offset"], 214);
    assert_eq!(wet["segments"], plan(&["--set", "retention.ms=86400000", "plain-0"])["segments"]);
    let left: Vec<_> = files(&dir.path().join("plain-0"))
        .iter()
        .map(|file| file.display().to_string())
        .filter(|name| name.starts_with('0'))
        .collect();
    assert!(left.iter().all(|name| name.starts_with("000000000000000002")), "{left:?}");
    let checked = run(dir.path(), &["verify", "."]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.text(), checked.stderr);
    let stat = objects(&run(dir.path(), &["stat", "--json", "plain-0"])).remove(0);
    assert_eq!((&stat["log_start_offset"], &stat["log_end_offset"]), (&214.into(), &240.into()));
}

/// One sync does for many segments, and only where the log start is durable before the first goes.
#[test]
fn many_segments_go_only_once_the_log_start_is_kept() {
    let log = three_batches();
    let batch = |base: u8| {
        let mut bytes = log[..118].to_vec();
        bytes[7] = base;
        bytes
    };
    let bases = [0, 3, 6, 9, 12, 15];
    let segments = bases.map(|base| (format!("t-0/{base:020}.log"), batch(base)));
    let files = segments.each_ref().map(|(name, bytes)| (name.as_str(), &bytes[..]));
    let dir = scratch(&files);
    let obstacle = dir.path().join("log-start-offset-checkpoint.tmp");
    fs::create_dir(&obstacle).unwrap();
    let args = ["retain", "--set", "retention.bytes=118", "--set", "retention.ms=-1", "t-0"];
    let failed = run(dir.path(), &args);
    assert_eq!(failed.code, Some(2), "{}", failed.text());
    assert!(failed.stderr.contains("log-start-offset-checkpoint"), "{}", failed.stderr);
    for (name, bytes) in &segments {
        assert!(fs::read(dir.path().join(name)).unwrap() == *bytes, "{name}");
    }

    fs::remove_dir(&obstacle).unwrap();
    let done = run(dir.path(), &args);
    assert!(done.text().contains("dropped 5 with 590 B; log start 15"), "{}", done.text());
    let kept = fs::read_to_string(dir.path().join("log-start-offset-checkpoint")).unwrap();
    assert_eq!(kept, "0\n1\nt 0 15\n");
    assert_eq!(run(dir.path(), &["verify", "."]).code, Some(0));
}

/// Where all goes, a log of one empty segment stays, and offsets go on.
#[test]
fn a_log_whose_last_segment_goes_keeps_its_end() {
    let dir = scratch(&[("t-0/00000000000000000000.log", &three_batches())]);
    let wet = run(dir.path(), &["retain", "--set", "retention.ms=1", "t-0"]);
    assert_eq!(wet.code, Some(0), "{}", wet.stderr);
    assert!(wet.text().contains("dropped 1 with 354 B; log start 9"), "{}", wet.text());
    let stat = objects(&run(dir.path(), &["stat", "--json", "t-0"])).remove(0);
    assert_eq!((&stat["log_start_offset"], &stat["log_end_offset"]), (&9.into(), &9.into()));
}

#[test]
fn a_record_from_the_future_is_named() {
    let dir = scratch(&[("t-0/00000000000000000000.log", &three_batches())]);
    let args = ["retain", "--dry-run", "--explain", "--now", "8", "t-0"];
    let text = run(dir.path(), &args);
    assert!(text.text().contains("1970-01-01T00:00:01.008Z, 1 s in the future"), "{}", text.text());
}

/// Kafka's default of a week need not be what the topic has.
#[test]
fn without_a_setting_of_retention_nothing_is_dropped() {
    let dir = copy("disk/clean");
    let before = state(dir.path());
    for settings in [&[][..], &["--set", "segment.ms=5"]] {
        let run = run(dir.path(), &[&["retain"][..], settings, &["plain-0"]].concat());
        assert_eq!(run.code, Some(2));
        assert!(run.stderr.contains("--set retention.ms"), "{}", run.stderr);
    }
    assert!(state_but_lock(dir.path()) == before, "no byte changes");
    fs::write(dir.path().join("server.properties"), "log.retention.hours=1\n").unwrap();
    let args = ["retain", "--config", "server.properties", "plain-0"];
    assert_eq!(run(dir.path(), &args).code, Some(0));
}

#[test]
fn a_topics_own_settings_go_before_the_brokers_and_the_command_line_before_both() {
    let dir = copy("disk/clean");
    let settings = [
        ("plain", "retention.ms", "-1"),
        ("trimmed", "retention.ms", "1"),
        ("compacted", "cleanup.policy", "compact"),
    ];
    let log = metadata(&["plain", "trimmed", "compacted", "transactions", "codec-zstd"], &settings);
    let to = dir.path().join("__cluster_metadata-0");
    fs::create_dir(&to).unwrap();
    fs::write(to.join("00000000000000000000.log"), log).unwrap();
    fs::write(dir.path().join("server.properties"), "log.retention.hours=1000000\n").unwrap();
    let dropped = |args: &[&str]| -> Vec<String> {
        let all = [&["retain", "--dry-run", "--json"][..], args, &["."]].concat();
        let partitions = objects(&run(dir.path(), &all));
        let some = partitions.iter().filter(|partition| partition["dropped_segments"] != 0);
        some.map(|partition| partition["partition"].as_str().unwrap().to_owned()).collect()
    };
    let file = ["--config", "server.properties"];
    assert_eq!(dropped(&file), ["./trimmed-0"]);
    let now = ["--now", "9000000000000", "--set", "retention.ms=1"];
    let all = ["./codec-zstd-0", "./plain-0", "./transactions-0", "./trimmed-0"];
    assert_eq!(dropped(&now), all);

    // What the topic says itself is enough for a run.
    let wet = run(dir.path(), &["retain", "--explain", "trimmed-0"]);
    assert_eq!(wet.code, Some(0), "{}", wet.stderr);
    assert!(wet.text().contains("  set at the topic: retention.ms=1\n"), "{}", wet.text());
    assert!(wet.text().contains("dropped 1"), "{}", wet.text());
}

/// `log.cleanup.policy` is what topics have that say nothing; these may say something.
#[test]
fn a_brokers_default_policy_takes_nothing_from_a_compacted_or_internal_partition() {
    let dir = copy("disk/clean");
    let internal = dir.path().join("__consumer_offsets-0");
    fs::create_dir(&internal).unwrap();
    fs::write(internal.join("00000000000000000000.log"), three_batches()).unwrap();
    let file = "log.cleanup.policy=delete\nlog.retention.hours=1\n";
    fs::write(dir.path().join("server.properties"), file).unwrap();
    let now = ["retain", "--now", "9000000000000", "--dry-run", "--json"];
    let base = [&now[..], &["--config", "server.properties"]].concat();
    for (name, taken) in [("compacted-0", true), ("__consumer_offsets-0", true), ("plain-0", false)]
    {
        let plan = objects(&run(dir.path(), &[&base[..], &[name]].concat())).remove(0);
        assert_eq!(plan["taken_for_compacted"], taken, "{name}");
        assert_eq!(plan["dropped_segments"] == 0, taken, "{name}: {plan}");
    }
    let said = [&base[..], &["--set", "cleanup.policy=delete", "compacted-0"]].concat();
    let plan = objects(&run(dir.path(), &said)).remove(0);
    assert_ne!(plan["dropped_segments"], 0, "the command line knows better");
}

/// A copy of the golden disk with a metadata log.
fn with_metadata(log: &[u8]) -> tempfile::TempDir {
    let dir = copy("disk/clean");
    let to = dir.path().join("__cluster_metadata-0");
    fs::create_dir(&to).unwrap();
    fs::write(to.join("00000000000000000000.log"), log).unwrap();
    dir
}

/// The broker's file may say a year.
#[test]
fn a_topic_that_sets_nothing_itself_is_left_to_the_brokers_settings() {
    let dir = with_metadata(&metadata(&["plain"], &[("plain", "segment.ms", "5")]));
    let before = state(dir.path());
    let run = run(dir.path(), &["retain", "plain-0"]);
    assert_eq!(run.code, Some(2), "{}", run.text());
    assert!(run.stderr.contains("--set retention.ms"), "{}", run.stderr);
    assert!(state_but_lock(dir.path()) == before, "no byte changes");
}

#[test]
fn a_rule_that_nobody_set_drops_nothing_beside_one_that_was() {
    let dir = copy("disk/clean");
    for more in [&["--dry-run"][..], &[]] {
        let base = ["retain", "--json", "--explain", "--set", "retention.bytes=1000000", "plain-0"];
        let kept = objects(&run(dir.path(), &[&base[..], more].concat())).remove(0);
        assert_eq!(dropped(&kept), [], "{more:?}");
        assert_eq!(kept["segments"][0]["rules"][2]["reason"], "not set: keeps all", "{kept}");
    }
}

#[test]
fn what_the_cluster_sets_for_a_broker_goes_before_its_file() {
    let year = "31536000000000";
    for (name, expected) in [("", 0), ("1", 0), ("2", 2)] {
        let log = metadata_of(&["plain"], &[(BROKER, name, "log.retention.ms", year)]);
        let dir = with_metadata(&log);
        let meta = "version=1\ncluster.id=x\nnode.id=1\n";
        fs::write(dir.path().join("meta.properties"), meta).unwrap();
        fs::write(dir.path().join("server.properties"), "log.retention.ms=1\n").unwrap();
        let args = ["retain", "--dry-run", "--json", "--config", "server.properties", "plain-0"];
        let plan = objects(&run(dir.path(), &args)).remove(0);
        assert_eq!(plan["dropped_segments"], expected, "{name}");
    }
}

/// It may have said that the topic keeps all.
#[test]
fn nothing_is_changed_by_the_settings_of_a_damaged_metadata_log() {
    let settings = [("plain", "retention.ms", "1"), ("plain", "retention.bytes", "1")];
    let sound = metadata(&["plain"], &settings);
    let mut flipped = sound.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for (log, byte) in [(&flipped[..], 17), (&sound[..sound.len() - 1], 0)] {
        let dir = with_metadata(log);
        let before = state(dir.path());
        for args in [
            &["retain", "plain-0"][..],
            &["retain", "--set", "retention.ms=1", "."],
            &["compact", "--set", "cleanup.policy=compact", "plain-0"],
        ] {
            let refused = run(dir.path(), args);
            assert_eq!(refused.code, Some(2), "{args:?}: {}", refused.text());
            assert!(refused.stderr.contains(&format!("log: byte {byte}:")), "{}", refused.stderr);
            assert!(state_but_lock(dir.path()) == before, "{args:?}: no byte changes");
        }
        let dry = run(dir.path(), &["retain", "--dry-run", "plain-0"]);
        assert_eq!(dry.code, Some(1), "{}", dry.stderr);
        assert!(dry.text().starts_with("plain-0: "), "{}", dry.text());
    }
}

/// With a file, a cluster and a command line, the message says which of them to correct.
#[test]
fn a_setting_that_is_refused_is_told_with_where_it_stands() {
    let bad = "expected a whole number from -1 to 9223372036854775807";
    let refused = |file: &str, args: &[&str], settings: &[(u8, &str, &str, &str)]| {
        let dir = copy("disk/clean");
        let to = dir.path().join("__cluster_metadata-0");
        fs::create_dir(&to).unwrap();
        let log = metadata_of(&["plain"], settings);
        fs::write(to.join("00000000000000000000.log"), log).unwrap();
        fs::write(dir.path().join("server.properties"), file).unwrap();
        let all = ["retain", "--dry-run", "--config", "server.properties", "plain-0"];
        let run = run(dir.path(), &[&all[..], args].concat());
        assert_eq!(run.code, Some(2), "{}", run.text());
        run.stderr
    };
    let whence = |text: &str| format!("alluvium: cannot use the settings {text}: ");
    let file = refused("retention.ms=-2", &[], &[]);
    assert_eq!(file, whence("in server.properties") + "`retention.ms` is -2, " + bad + "\n");
    let said = refused("", &["--set", "retention.ms=-3"], &[]);
    assert_eq!(said, whence("of the command line") + "`retention.ms` is -3, " + bad + "\n");
    let topic = refused("", &[], &[(TOPIC, "plain", "retention.ms", "-4")]);
    let of_topic = whence("of topic plain in the metadata log");
    assert_eq!(topic, of_topic.clone() + "`retention.ms` is -4, " + bad + "\n");
    let lags = [(TOPIC, "plain", "max.compaction.lag.ms", "4")];
    let above = "`min.compaction.lag.ms` is above `max.compaction.lag.ms`\n";
    let other = ["--set", "retention.ms=1"];
    let in_file = refused("min.compaction.lag.ms=5\nmax.compaction.lag.ms=4", &other, &[]);
    assert_eq!(in_file, whence("in server.properties") + above);
    let said = refused("", &["--set", "min.compaction.lag.ms=5"], &lags);
    assert_eq!(said, whence("of the command line") + above);
    let of_both = refused("min.compaction.lag.ms=5", &other, &lags);
    assert_eq!(of_both, of_topic + above);
    let broker = refused("", &[], &[(BROKER, "", "log.retention.ms", "0")]);
    let of_broker = whence("of the broker in the metadata log");
    assert!(broker.starts_with(&(of_broker + "`log.retention.ms` is 0, expected")), "{broker}");
}
