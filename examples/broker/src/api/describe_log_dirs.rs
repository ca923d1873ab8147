//! `DescribeLogDirs`: the disks, and the logs on each.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use alluvium_log_manager::Log;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use rustix::fs::statvfs;

use super::codes;
use crate::broker::Node;

pub(super) fn answer(node: &Node, request: &DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    let wanted = wanted(request);
    let mut results: Vec<_> = node
        .manager
        .live_dirs()
        .iter()
        .map(|dir| describe(node, dir, &wanted).with_error_code(codes::NONE))
        .collect();
    for (dir, _reason) in node.manager.offline_dirs() {
        let result = DescribeLogDirsResult::default()
            .with_log_dir(text(&dir))
            .with_error_code(ResponseError::KafkaStorageError.code());
        results.push(result.with_total_bytes(UNKNOWN).with_usable_bytes(UNKNOWN));
    }
    DescribeLogDirsResponse::default().with_error_code(codes::NONE).with_results(results)
}

fn describe(node: &Node, dir: &Path, wanted: &Wanted<'_>) -> DescribeLogDirsResult {
    let mut topics: BTreeMap<String, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for topic in node.topics.all() {
        for (partition, log) in topic.partitions() {
            let Some(log) = log.filter(|log| log.dir().path().parent() == Some(dir)) else {
                continue;
            };
            if wanted.as_ref().is_none_or(|wanted| wanted.contains(&(&*topic.name, partition))) {
                let described = partition_of(partition, log);
                topics.entry(topic.name.to_string()).or_default().push(described);
            }
        }
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        DescribeLogDirsTopic::default()
            .with_name(TopicName(StrBytes::from_string(name)))
            .with_partitions(partitions)
    });
    let (total, usable) = room(dir).unwrap_or((UNKNOWN, UNKNOWN));
    DescribeLogDirsResult::default()
        .with_log_dir(text(dir))
        .with_topics(topics.collect())
        .with_total_bytes(total)
        .with_usable_bytes(usable)
}

/// The bytes of the disk in all, and those that are left to others than root.
fn room(dir: &Path) -> Option<(i64, i64)> {
    let told = statvfs(dir).inspect_err(|error| {
        tracing::debug!(%error, dir = %dir.display(), "a disk does not tell how much room it has");
    });
    let told = told.ok()?;
    let bytes =
        |blocks: u64| i64::try_from(blocks.saturating_mul(told.f_frsize)).unwrap_or(i64::MAX);
    Some((bytes(told.f_blocks), bytes(told.f_bavail)))
}

const UNKNOWN: i64 = -1;

/// The partitions that are asked for; `None` for all.
type Wanted<'a> = Option<HashSet<(&'a str, i32)>>;

fn wanted(request: &DescribeLogDirsRequest) -> Wanted<'_> {
    let topics = request.topics.as_ref()?.iter();
    let all =
        topics.flat_map(|topic| topic.partitions.iter().map(|&it| (topic.topic.as_str(), it)));
    Some(all.collect())
}

fn partition_of(index: i32, log: &Log) -> DescribeLogDirsPartition {
    DescribeLogDirsPartition::default()
        .with_partition_index(index)
        .with_partition_size(i64::try_from(log.size_bytes()).unwrap_or(i64::MAX))
        .with_offset_lag(0)
        .with_is_future_key(false)
}

fn text(dir: &Path) -> StrBytes {
    StrBytes::from_string(dir.to_string_lossy().into_owned())
}
