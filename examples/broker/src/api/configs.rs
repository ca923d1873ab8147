//! Settings of topics as clients see them: key, value as Kafka's text, kind, origin.

use alluvium_log_manager::{CleanupPolicy, CompressionType, LogConfig};
use alluvium_record_format::{Codec, TimestampType};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_topics_response::CreatableTopicConfigs;
use kafka_protocol::protocol::StrBytes;

use super::codes::Refusal;
use crate::broker::Node;
use crate::store::Overrides;

/// Where a value comes from, by Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Topic = 1,
    /// The properties of the broker.
    Broker = 4,
    Default = 5,
}

/// What has settings, by Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Topic,
    Broker,
}

impl Resource {
    pub(super) const fn from_kafka(number: i8) -> Option<Self> {
        match number {
            2 => Some(Self::Topic),
            4 => Some(Self::Broker),
            _ => None,
        }
    }
}

/// A setting with its value.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) key: &'static str,
    pub(super) value: String,
    pub(super) source: Source,
    /// Kafka's number for the kind of the value.
    pub(super) kind: i8,
}

/// All settings of a topic, in the order of the keys.
pub(super) fn of_topic(defaults: &LogConfig, overrides: &Overrides) -> Vec<Described> {
    let own = crate::store::config_with(defaults, overrides);
    let config = own.as_ref().unwrap_or(defaults);
    let of = |(key, kind, value): (&'static str, i8, String)| {
        let source = if overrides.contains_key(key) { Source::Topic } else { Source::Default };
        Described { key, value, source, kind }
    };
    let min_in_sync = overrides.get("min.insync.replicas").cloned();
    let min_in_sync = ("min.insync.replicas", INT, min_in_sync.unwrap_or_else(|| "1".to_owned()));
    let mut all: Vec<_> = values(config).into_iter().chain([min_in_sync]).map(of).collect();
    all.sort_by_key(|described| described.key);
    all
}

/// The settings of a new topic.
pub(super) fn created(node: &Node, overrides: &Overrides) -> Vec<CreatableTopicConfigs> {
    let of = |described: Described| {
        CreatableTopicConfigs::default()
            .with_name(StrBytes::from_static_str(described.key))
            .with_value(Some(StrBytes::from_string(described.value)))
            .with_config_source(described.source as i8)
    };
    of_topic(node.topics.defaults(), overrides).into_iter().map(of).collect()
}

/// Refuses a name that is not this broker's; no name stands for all brokers.
pub(super) fn check_broker(node: &Node, name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name == node.identity.node_id.to_string() {
        return Ok(());
    }
    Err(Refusal::new(ResponseError::InvalidRequest, "there is no such broker"))
}

/// Settings of the broker itself, in the order of the keys.
pub(super) fn of_broker(node: &Node) -> Vec<Described> {
    let settings = &node.settings;
    let dirs: Vec<_> =
        settings.logs.log_dirs().iter().map(|dir| dir.to_string_lossy().into_owned()).collect();
    let described = |key, kind, value| Described { key, value, source: Source::Broker, kind };
    vec![
        described("auto.create.topics.enable", BOOLEAN, settings.auto_create_topics.to_string()),
        described("fetch.max.bytes", INT, settings.max_fetch_bytes.to_string()),
        described("log.dirs", STRING, dirs.join(",")),
        described("max.connections", INT, settings.max_connections.to_string()),
        described("node.id", INT, node.identity.node_id.to_string()),
        described("num.partitions", INT, settings.partition_count.to_string()),
        described("queued.max.request.bytes", LONG, settings.max_in_flight_bytes.to_string()),
        described("socket.request.max.bytes", INT, settings.max_request_bytes.to_string()),
    ]
}

/// The words of a setting that is a list; `None` where it is none.
pub(super) fn list(defaults: &LogConfig, overrides: &Overrides, key: &str) -> Option<Vec<String>> {
    let described = of_topic(defaults, overrides);
    let found =
        described.iter().find(|described| described.key == key && described.kind == LIST)?;
    let words = found.value.split(',').filter(|word| !word.is_empty());
    Some(words.map(str::to_owned).collect())
}

/// Key, kind and value of each setting.
fn values(config: &LogConfig) -> Vec<(&'static str, i8, String)> {
    let or_minus_1 = |value: Option<u64>| value.map_or_else(|| "-1".to_owned(), |v| v.to_string());
    vec![
        ("cleanup.policy", LIST, policy(config.cleanup_policy())),
        ("compression.gzip.level", INT, config.compression_gzip_level().to_string()),
        ("compression.lz4.level", INT, config.compression_lz4_level().to_string()),
        ("compression.type", STRING, compression(config.compression_type()).to_owned()),
        ("compression.zstd.level", INT, config.compression_zstd_level().to_string()),
        ("delete.retention.ms", LONG, config.delete_retention_ms().to_string()),
        ("file.delete.delay.ms", LONG, config.file_delete_delay_ms().to_string()),
        ("flush.messages", LONG, config.flush_messages().to_string()),
        ("flush.ms", LONG, config.flush_ms().to_string()),
        ("index.interval.bytes", INT, config.index_interval_bytes().to_string()),
        ("max.compaction.lag.ms", LONG, config.max_compaction_lag_ms().to_string()),
        ("max.message.bytes", INT, config.max_message_bytes().to_string()),
        (
            "message.timestamp.after.max.ms",
            LONG,
            config.message_timestamp_after_max_ms().to_string(),
        ),
        (
            "message.timestamp.before.max.ms",
            LONG,
            config.message_timestamp_before_max_ms().to_string(),
        ),
        ("message.timestamp.type", STRING, time(config.message_timestamp_type()).to_owned()),
        ("min.cleanable.dirty.ratio", DOUBLE, config.min_cleanable_dirty_ratio().to_string()),
        ("min.compaction.lag.ms", LONG, config.min_compaction_lag_ms().to_string()),
        ("preallocate", BOOLEAN, config.preallocate().to_string()),
        ("retention.bytes", LONG, or_minus_1(config.retention_bytes())),
        ("retention.ms", LONG, or_minus_1(config.retention_ms())),
        ("segment.bytes", INT, config.segment_bytes().to_string()),
        ("segment.index.bytes", INT, config.segment_index_bytes().to_string()),
        ("segment.jitter.ms", LONG, config.segment_jitter_ms().to_string()),
        ("segment.ms", LONG, config.segment_ms().to_string()),
    ]
}

fn policy(policy: CleanupPolicy) -> String {
    let words = [(policy.compacts(), "compact"), (policy.deletes(), "delete")];
    let words: Vec<_> = words.iter().filter(|(is_on, _)| *is_on).map(|(_, word)| *word).collect();
    words.join(",")
}

const fn compression(kind: CompressionType) -> &'static str {
    match kind {
        CompressionType::Codec(Codec::None) => "uncompressed",
        CompressionType::Codec(codec) => codec.name(),
        _ => "producer",
    }
}

const fn time(kind: TimestampType) -> &'static str {
    match kind {
        TimestampType::LogAppendTime => "LogAppendTime",
        _ => "CreateTime",
    }
}

const BOOLEAN: i8 = 1;
const STRING: i8 = 2;
const INT: i8 = 3;
const LONG: i8 = 5;
const DOUBLE: i8 = 6;
const LIST: i8 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_read_back_as_it_is() {
        let own = Overrides::from([
            ("cleanup.policy".to_owned(), "compact,delete".to_owned()),
            ("compression.type".to_owned(), "lz4".to_owned()),
            ("retention.ms".to_owned(), "-1".to_owned()),
            ("min.insync.replicas".to_owned(), "2".to_owned()),
        ]);
        let all = of_topic(&LogConfig::default(), &own);
        let pairs = all.iter().map(|described| (described.key, described.value.as_str()));
        let config = LogConfig::from_properties(pairs).unwrap();
        let expected = crate::store::config_with(&LogConfig::default(), &own).unwrap();
        assert_eq!(config, expected);
        let from_topic = all.iter().filter(|described| described.source == Source::Topic);
        assert_eq!(from_topic.count(), 4);
    }
}
