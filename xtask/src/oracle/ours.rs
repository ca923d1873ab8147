//! Our side of a directory that changes hands: our logs on it, and what they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use alluvium_cleaner::CleanerGate;
use alluvium_log_manager::{BrokerConfig, Isolation, Log, LogManager, StartReport};
use alluvium_record_format::{
    Batch, ControlRecord, Decompressor, Entries, Entry, Position, ProducerId, Record, Timestamp,
    TimestampType,
};
use alluvium_recovery::TopicPartition;
use anyhow::{Context, Result, bail, ensure};

use crate::kafka::Seen;

/// Bytes of a fetch: a few batches.
const FETCH_BYTES: u32 = 2_000;

/// No batch of ours inflates to more.
const INFLATED_BYTES: usize = 1 << 20;

/// What somebody saw of a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) records: Vec<Seen>,
}

/// A topic of one partition and its settings, in Kafka's keys.
pub(super) type Settings<'a> = (&'a str, &'a [(&'static str, &'static str)]);

/// Starts our logs on `data`, with a cleaner where there is a gate for it.
///
/// # Errors
///
/// When they do not start, or the directory is not sound.
pub(super) fn open<'a>(
    data: &Path,
    topics: impl Iterator<Item = Settings<'a>>,
    gate: Option<Arc<CleanerGate>>,
) -> Result<(LogManager, StartReport)> {
    let dir = data.to_string_lossy().into_owned();
    let properties = [
        ("log.dirs", &*dir),
        ("log.index.size.max.bytes", "4096"),
        ("log.retention.ms", "-1"),
        // There is no coordinator here to verify them with.
        ("transaction.partition.verification.enable", "false"),
    ];
    let (config, _unknown) = BrokerConfig::from_properties(properties)?;
    let defaults = config.log_defaults();
    let mut options = LogManager::options(config);
    if let Some(gate) = gate {
        options = options.cleaning_gate(gate);
    }
    for (topic, settings) in topics {
        let config = defaults.to_builder().properties(settings.iter().copied())?.build()?;
        options = options.topic(topic, config);
    }
    let (manager, report) = options.start()?;
    for dir in &report.dirs {
        ensure!(dir.failure.is_none(), "{}: {:?}", dir.path.display(), dir.failure);
        ensure!(dir.bad_checkpoints.is_empty(), "checkpoints: {:?}", dir.bad_checkpoints);
        ensure!(dir.foreign.is_empty(), "foreign names: {:?}", dir.foreign);
    }
    Ok((manager, report))
}

/// The log of a topic.
///
/// # Errors
///
/// When it is not here.
pub(super) fn log(manager: &LogManager, topic: &str) -> Result<Log> {
    let log = manager.log(&TopicPartition::new(topic, 0))?;
    // One replica: whatever is in the log is committed.
    log.update_high_watermark(log.log_end_offset())?;
    Ok(log)
}

/// Stops our logs.
///
/// # Errors
///
/// When one of them cannot be closed properly.
pub(super) fn stop(manager: &LogManager) -> Result<()> {
    let report = manager.stop(None)?;
    for dir in report.dirs {
        ensure!(dir.is_clean, "not stopped properly: {:?}", dir.failed);
    }
    Ok(())
}

/// Reads a log as a consumer does.
///
/// # Errors
///
/// When a batch is damaged or a read yields nothing.
pub(super) fn view(log: &Log, isolation: Isolation) -> Result<View> {
    let begin = log.log_start_offset();
    let end = match isolation {
        Isolation::TxnCommitted => log.last_stable_offset(),
        _ => log.high_watermark(),
    };
    let mut reader = Reader { begin: begin.get(), ..Reader::default() };
    let (mut next, mut bytes) = (begin, Vec::new());
    while next < end {
        let fetched = log.read(next, FETCH_BYTES, isolation, true)?;
        let slice = fetched.slice.as_ref().context("nothing to read below the end")?;
        bytes.clear();
        slice.read_to(&mut bytes).context("cannot read a slice")?;
        let before = next;
        reader.aborted = BTreeMap::new();
        for txn in fetched.aborted.into_iter().flatten() {
            reader.aborted.entry(txn.first_offset.get()).or_default().insert(txn.producer_id);
        }
        reader.dropping.clear();
        for entry in Entries::new(&bytes, Position::new(0)) {
            // A fetch may end inside a batch: the next one begins with it.
            let Ok(entry) = entry else { break };
            let Entry::Batch(batch) = entry else { bail!("a message of an old format") };
            reader.take(&batch)?;
            next = batch.header().next_offset();
        }
        ensure!(next > before, "no whole batch at {before}");
    }
    Ok(View { begin: begin.get(), end: end.get(), records: reader.records })
}

/// Takes batches apart, and leaves out what was aborted.
#[derive(Default)]
struct Reader {
    begin: i64,
    decompressor: Decompressor,
    inflated: Vec<u8>,
    /// Producers by the first offset of their transaction.
    aborted: BTreeMap<i64, BTreeSet<ProducerId>>,
    /// Producers inside a transaction that was aborted.
    dropping: BTreeSet<ProducerId>,
    records: Vec<Seen>,
}

impl Reader {
    fn take(&mut self, batch: &Batch<'_>) -> Result<()> {
        batch.verify_crc()?;
        let header = batch.header();
        let later = self.aborted.split_off(&header.next_offset().get());
        self.dropping.extend(std::mem::replace(&mut self.aborted, later).into_values().flatten());
        let attributes = header.attributes();
        let producer = header.producer_id();
        let append_time = attributes.timestamp_type() == TimestampType::LogAppendTime;
        let records = self.decompressor.inflate(batch, INFLATED_BYTES, &mut self.inflated)?;
        for record in records {
            let record = record?;
            if attributes.is_control() {
                let marker = ControlRecord::parse(record.key(), record.value());
                ensure!(marker.is_ok(), "a control record that is none at {}", record.offset());
                producer.map(|producer| self.dropping.remove(&producer));
                continue;
            }
            let is_dropped = attributes.is_transactional()
                && producer.is_some_and(|producer| self.dropping.contains(&producer));
            if !is_dropped && record.offset().get() >= self.begin {
                self.records.push(seen(&record, append_time));
            }
        }
        Ok(())
    }
}

fn seen(record: &Record<'_>, append_time: bool) -> Seen {
    let headers = record.headers();
    Seen {
        offset: record.offset().get(),
        append_time,
        timestamp: record.timestamp().map_or(-1, Timestamp::get),
        key: record.key().map(<[u8]>::to_vec),
        value: record.value().map(<[u8]>::to_vec),
        headers: headers.map(|it| (it.key.to_vec(), it.value.map(<[u8]>::to_vec))).collect(),
    }
}
