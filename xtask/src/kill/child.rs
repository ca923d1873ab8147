//! The process that is killed.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;

use alluvium_log_manager::{BrokerConfig, LeaderRequest, Log, LogConfig, LogManager, NewLog};
use alluvium_record_format::{Codec, LeaderEpoch};
use alluvium_recovery::TopicPartition;
use anyhow::{Context, Result};

use crate::proof::{Dice, stamped_batch};

/// The folder of the logs, in the folder of the run.
pub(super) const DISK: &str = "disk";

/// The folder of what was acknowledged.
pub(super) const ACKS: &str = "acks";

/// What the process says once its start is done.
pub(super) const READY: &str = "ready";

/// Threads that append, on as many partitions and one: two share the first.
const THREADS: u64 = 3;

/// Starts the logs and appends until the process dies.
pub(super) fn append_until_killed(dir: &Path, seed: u64) -> Result<()> {
    let manager = LogManager::start(broker(&dir.join(DISK))?)?;
    manager.tick_in_background(3);
    let acks = dir.join(ACKS);
    fs::create_dir_all(&acks).context("cannot make the folder of acknowledgements")?;
    let mut logs = Vec::new();
    for partition in partitions() {
        manager.set_topic_config(partition.topic(), topic(partition.topic())?);
        logs.push(manager.get_or_create(&partition, &NewLog::new())?);
    }
    println!("{READY}");
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let number = usize::try_from(thread.saturating_sub(1)).unwrap_or(0);
                let (log, acks) = (&logs[number], &acks);
                let name = format!("{seed:016x}-{thread}");
                // Stamps of one process and thread are its own.
                let stamps = (seed << 40) | (thread << 36);
                scope.spawn(move || append(log, acks, &name, Dice::new(stamps), stamps))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

fn append(log: &Log, acks: &Path, name: &str, mut dice: Dice, mut stamp: u64) -> Result<()> {
    let mut acknowledged = ack_file(acks, name)?;
    let codecs = [Codec::None, Codec::Lz4, Codec::Zstd, Codec::None];
    loop {
        let count = 1 + dice.below(5);
        let codec = codecs[dice.index(codecs.len())];
        let mut batch = stamped_batch(stamp, count, dice.index(400), codec, 1_700_000_000_000)?;
        let request = LeaderRequest::new(LeaderEpoch::new(0));
        let appended = log.append_as_leader(&mut batch, request)?;
        let last = appended.last_offset.context("a batch was appended")?.get();
        let is_flushed = dice.one_in(64);
        if is_flushed {
            log.flush(false)?;
        }
        let line = format!("{} {last} {stamp} {count} {}\n", log.name(), u8::from(is_flushed));
        // One call a line: it is in the page cache as a whole, or not at all.
        acknowledged.write_all(line.as_bytes()).context("cannot acknowledge")?;
        stamp += count;
    }
}

fn ack_file(acks: &Path, name: &str) -> Result<File> {
    let options = OpenOptions::new().create(true).append(true).open(acks.join(name));
    options.context("cannot open the file of acknowledgements")
}

/// The partitions that are written to.
pub(super) fn partitions() -> [TopicPartition; 2] {
    [TopicPartition::new("shared", 0), TopicPartition::new("flushed", 0)]
}

/// How both processes see the disk.
pub(super) fn broker(disk: &Path) -> Result<BrokerConfig> {
    let dirs = disk.display().to_string();
    let properties = [
        ("log.dirs", dirs.as_str()),
        ("log.flush.offset.checkpoint.interval.ms", "20"),
        ("log.flush.start.offset.checkpoint.interval.ms", "50"),
        ("replica.high.watermark.checkpoint.interval.ms", "30"),
        ("log.initial.task.delay.ms", "5"),
    ];
    Ok(BrokerConfig::from_properties(properties)?.0)
}

/// Small segments, so that kills hit rolls; one of the topics flushes by itself.
fn topic(name: &str) -> Result<LogConfig> {
    let config = LogConfig::builder()
        .internal_segment_bytes(Some(200_000))
        .segment_index_bytes(8192)
        .index_interval_bytes(512);
    let config = if name == "flushed" { config.flush_messages(40) } else { config };
    Ok(config.build()?)
}
