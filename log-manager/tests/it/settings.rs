//! Settings are taken and refused as by Kafka.

use alluvium_log_manager::{BrokerConfig, ConfigError, LogConfig};

/// Lines of kind, key, default, texts that are taken, texts that are refused.
const KAFKAS: &str = include_str!("../golden/4.4.0/settings.tsv");

/// What Kafka takes, to fail or to stand still by it later.
const REFUSED_HERE: &[(&str, &[&str])] = &[
    ("internal.segment.bytes", &["0", "-1", "-2", "-131072", "-131073", "-2147483648"]),
    ("min.cleanable.dirty.ratio", &["NaN", "0x1p-1"]),
    ("log.cleaner.min.cleanable.ratio", &["NaN", "0x1p-1"]),
    (
        "log.cleaner.io.buffer.load.factor",
        &["5.", "NaN", "Infinity", "-Infinity", "0x1p-1", "1.0000001", "1e400", "-0.1", "1000000"],
    ),
    (
        "log.cleaner.io.max.bytes.per.second",
        &["NaN", "-Infinity", "-0.0", "0", "0x1p-1", "1e-400", "-0.1"],
    ),
];

/// A line of the table.
struct Row {
    kind: &'static str,
    key: &'static str,
    default: &'static str,
    taken: Vec<&'static str>,
    refused: Vec<&'static str>,
}

fn rows() -> Vec<Row> {
    let texts = |field: &'static str| field.split('|').collect();
    let row = |line: &'static str| {
        let [kind, key, default, taken, refused] =
            line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        Row { kind, key, default, taken: texts(taken), refused: texts(refused) }
    };
    KAFKAS.lines().map(row).collect()
}

/// All settings of a broker and its logs once `key` says `text`.
fn read(kind: &str, key: &str, text: &str) -> Result<BrokerConfig, ConfigError> {
    if kind == "topic" {
        let log = LogConfig::from_properties([(key, text)])?;
        return BrokerConfig::builder().log_defaults(log).build();
    }
    BrokerConfig::from_properties([(key, text)]).map(|(broker, _)| broker)
}

#[test]
fn each_text_of_a_setting_is_taken_or_refused_as_by_kafka() {
    for Row { kind, key, taken, refused, .. } in rows() {
        let excepted = REFUSED_HERE.iter().find(|(other, _)| *other == key);
        let excepted = excepted.map_or(&[][..], |(_, texts)| texts);
        for text in taken {
            let read = read(kind, key, text);
            assert_eq!(read.is_ok(), !excepted.contains(&text), "{key}={text}: {read:?}");
        }
        for text in refused {
            assert!(read(kind, key, text).is_err(), "{key}={text}");
        }
    }
}

#[test]
fn each_default_is_kafkas() {
    for Row { kind, key, default, .. } in rows() {
        if default != "null" {
            let read = read(kind, key, default).unwrap();
            assert_eq!(read, BrokerConfig::default(), "{key}={default}");
        }
    }
}

#[test]
fn each_setting_of_a_log_and_of_a_broker_is_in_the_table() {
    let rows = rows();
    let is_there = |key: &&str| rows.iter().any(|row| row.key == *key);
    assert_eq!(LogConfig::KEYS.iter().find(|key| !is_there(key)), None);
    assert_eq!(BrokerConfig::KEYS.iter().find(|key| !is_there(key)), None);
    assert_eq!(rows.len(), 75);
}

/// A topic may have any of Kafka's keys.
#[test]
fn topic_keys_of_other_parts_of_a_broker_are_passed_over() {
    for key in LogConfig::OTHER_KEYS {
        let read = LogConfig::from_properties([(*key, "true")]);
        assert_eq!(read, Ok(LogConfig::default()), "{key}");
    }
    // What `LogConfig.configDef` of Kafka 4.4.0 counts.
    assert_eq!(LogConfig::KEYS.len() + LogConfig::OTHER_KEYS.len(), 38);
}

/// Kafka runs a task once whose period is none.
#[test]
fn a_period_below_zero_is_one_run() {
    let read = |pairs: &[(&str, &str)]| {
        BrokerConfig::from_properties(pairs.iter().copied()).map(|(broker, _)| broker)
    };
    let watermarks = read(&[("replica.high.watermark.checkpoint.interval.ms", "-1")]).unwrap();
    assert_eq!(watermarks.high_watermark_interval_ms(), 0);
    // Alone it is the flush time of logs too, which is refused; behind that it is taken.
    let (look, time) = (("log.flush.scheduler.interval.ms", "-1"), ("log.flush.interval.ms", "5"));
    let refused = read(&[look]).unwrap_err().to_string();
    assert!(refused.starts_with("`log.flush.scheduler.interval.ms` is -1, expected"), "{refused}");
    let both = read(&[look, time]).unwrap();
    assert_eq!((both.flush_check_interval_ms(), both.log_defaults().flush_ms()), (0, 5));
}

#[test]
fn every_thread_of_the_cleaner_needs_its_room_for_keys() {
    let with = |threads, bytes| {
        BrokerConfig::builder().cleaner_threads(threads).cleaner_dedupe_buffer_bytes(bytes).build()
    };
    assert!(with(2, 2 * 1_048_577).is_ok());
    let refused = with(2, 2 * 1_048_577 - 1).unwrap_err().to_string();
    let expected = "`log.cleaner.dedupe.buffer.size` is 2097153, expected a whole number from \
                    2097154 to 9223372036854775807";
    assert_eq!(refused, expected);
    // A cleaner that is off needs it too.
    let off = BrokerConfig::builder().cleaner_enable(false).cleaner_dedupe_buffer_bytes(0);
    assert!(off.build().is_err());
}

#[test]
fn a_log_directory_without_a_name_is_refused_and_one_given_twice_counts_once() {
    let read = |pairs: &[(&str, &str)]| {
        let read = BrokerConfig::from_properties(pairs.iter().copied());
        read.map(|(broker, _)| broker.log_dirs()).map_err(|refused| refused.to_string())
    };
    assert_eq!(read(&[("log.dirs", "/b,/a, /b ")]), Ok(vec!["/b".into(), "/a".into()]));
    let hidden = read(&[("log.dirs", "/a"), ("log.dir", "")]);
    let expected = "`log.dir` is empty, expected paths of directories, with commas between";
    assert_eq!(hidden, Err(expected.to_owned()));
    assert!(read(&[("log.dirs", "/a,,/b")]).is_err());
}
