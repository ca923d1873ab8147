//! Our side: the directory opened, read, written to, and left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use alluvium_log_manager::{
    BrokerConfig, Isolation, LeaderRequest, Log, LogManager, NewLog, StartReport,
};
use alluvium_record_format::{
    Batch, ControlRecord, Decompressor, Entries, Entry, LeaderEpoch, Offset, Position, ProducerId,
    Record, Timestamp, TimestampType, Uuid,
};
use alluvium_recovery::TopicPartition;
use anyhow::{Context, Result, bail, ensure};

use super::model::View;
use super::topics::Topic;
use crate::kafka::Seen;
use crate::oracle::plan::{Content, Planned};

/// Bytes of a fetch: a few batches.
const FETCH_BYTES: u32 = 2_000;

/// No batch of ours inflates to more.
const INFLATED_BYTES: usize = 1 << 20;

/// Starts our logs on `data`.
///
/// # Errors
///
/// When they do not start, or the directory or one of its logs is not sound.
pub(super) fn open(data: &Path, topics: &[Topic]) -> Result<(LogManager, StartReport)> {
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
    for topic in topics {
        let settings = topic.settings.iter().copied();
        let config = defaults.to_builder().properties(settings)?.build()?;
        options = options.topic(&topic.name, config);
    }
    let (manager, report) = options.start()?;
    for dir in &report.dirs {
        ensure!(dir.failure.is_none(), "{}: {:?}", dir.path.display(), dir.failure);
        ensure!(dir.bad_checkpoints.is_empty(), "checkpoints: {:?}", dir.bad_checkpoints);
        ensure!(dir.foreign.is_empty(), "foreign names: {:?}", dir.foreign);
    }
    Ok((manager, report))
}

/// Makes the log of a topic that Kafka knows, by this id, and fills it.
///
/// # Errors
///
/// When a batch is refused.
pub(super) fn create(manager: &LogManager, topic: &mut Topic, topic_id: Uuid) -> Result<()> {
    let partition = TopicPartition::new(topic.name.as_str(), 0);
    let log = manager.get_or_create(&partition, &NewLog::new().is_new().topic_id(topic_id))?;
    for batch in std::mem::take(&mut topic.plan) {
        log.append_as_follower(&batch.build()?, LeaderEpoch::new(batch.leader_epoch))?;
        topic.appended(&batch, batch.base_offset, batch.append_time);
    }
    log.update_high_watermark(log.log_end_offset())?;
    Ok(())
}

/// The log of a topic.
///
/// # Errors
///
/// When it is not here.
pub(super) fn log(manager: &LogManager, topic: &Topic) -> Result<Log> {
    let log = manager.log(&TopicPartition::new(topic.name.as_str(), 0))?;
    // One replica: whatever is in the log is committed.
    log.update_high_watermark(log.log_end_offset())?;
    Ok(log)
}

/// Appends as a leader, and each batch of an idempotent producer twice: the second must be known.
///
/// # Errors
///
/// When an append is refused, or gets another offset than it must.
pub(super) fn append(log: &Log, topic: &mut Topic, batches: &[Planned]) -> Result<()> {
    for batch in batches {
        let epoch = log.latest_epoch().unwrap_or(LeaderEpoch::new(0));
        let is_marker = matches!(batch.content, Content::Marker { .. });
        let request = LeaderRequest::new(epoch);
        let request = if is_marker { request.coordinator(1) } else { request };
        let appended = log.append_as_leader(&mut batch.build()?, request)?;
        let base = appended.first_offset.context("nothing was appended")?.get();
        let expected = topic.model.end();
        ensure!(base == expected, "appended at {base}, not at the end {expected}");
        topic.appended(batch, base, appended.log_append_time.map(Timestamp::get));
        if batch.producer.is_some() && !is_marker {
            let again = log.append_as_leader(&mut batch.build()?, request)?;
            let is_known = again.is_duplicate && again.first_offset == appended.first_offset;
            ensure!(is_known, "a repetition was appended: {again:?}");
        }
    }
    log.update_high_watermark(log.log_end_offset())?;
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

/// Leaves half a batch at the end of a log, as a kill in the middle of a write does.
///
/// # Errors
///
/// When there is no log.
pub(super) fn tear(data: &Path, topic: &Topic) -> Result<()> {
    let dir = data.join(format!("{}-0", topic.name));
    let mut logs = crate::workspace::entries(&dir)?;
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    let last = logs.pop().context("a partition has a log")?;
    let mut bytes = fs::read(&last).with_context(|| format!("cannot read {}", last.display()))?;
    let mut batch = Planned::new(topic.model.end(), super::topics::records(0, 4, 0)).build()?;
    batch.truncate(batch.len() - 9);
    bytes.extend(batch);
    fs::write(&last, bytes).with_context(|| format!("cannot write {}", last.display()))
}

/// Where `log` begins after everything below `offset` is deleted.
///
/// # Errors
///
/// When that is refused.
pub(super) fn delete_before(log: &Log, offset: i64) -> Result<()> {
    let start = log.delete_records(Some(Offset::new(offset)))?;
    ensure!(start.get() == offset, "the log starts at {start}, not at {offset}");
    Ok(())
}
