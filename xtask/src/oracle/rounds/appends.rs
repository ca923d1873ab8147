//! What we do to the topics of the rounds.

use std::fs;
use std::path::Path;

use alluvium_log_manager::{LeaderRequest, Log, LogManager, NewLog};
use alluvium_record_format::{LeaderEpoch, Offset, Timestamp, Uuid};
use alluvium_recovery::TopicPartition;
use anyhow::{Context, Result, ensure};

use super::topics::Topic;
use crate::oracle::plan::{Content, Planned};

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
