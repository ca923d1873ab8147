//! What Kafka's dump tool must print for a whole partition, from the plan alone.

use std::collections::BTreeMap;
use std::path::Path;

use alluvium_record_format::TxnOutcome;
use anyhow::{Context, Result, ensure};

use super::plan::{Content, Planned, Producer};
use crate::workspace::{entries, name};

/// The text for each log of a partition, by path from the folder above. How the batches spread
/// over the logs is taken from the names of the files, everything else from the plan.
///
/// # Errors
///
/// When a batch cannot be built, or belongs to no log.
pub(super) fn logs(partition: &Path, batches: &[Planned]) -> Result<BTreeMap<String, String>> {
    let mut bases = Vec::new();
    for path in entries(partition)? {
        if let Some(base) = name(&path).strip_suffix(".log") {
            bases.push(base.parse::<i64>().context("a log is named by an offset")?);
        }
    }
    let mut texts = BTreeMap::new();
    let mut rest = batches;
    for (index, base) in bases.iter().enumerate() {
        let next = bases.get(index + 1).copied().unwrap_or(i64::MAX);
        let file = format!("{}/{base:020}.log", name(partition));
        let mut lines = vec![format!("Dumping {file}"), format!("Log starting offset: {base}")];
        let mut position = 0;
        while let Some((batch, after)) = rest.split_first().filter(|(it, _)| it.base_offset < next)
        {
            let built = batch.build()?;
            lines.extend(batch.expected(&built, position)?);
            position += built.len();
            rest = after;
        }
        texts.insert(file, lines.join("\n") + "\n");
    }
    ensure!(rest.is_empty(), "{} batches are in no log", rest.len());
    Ok(texts)
}

/// The lines of all transaction indexes, in order.
pub(super) fn aborted(batches: &[Planned]) -> String {
    let mut open: BTreeMap<i64, i64> = BTreeMap::new();
    let mut lines = Vec::new();
    for batch in batches.iter().filter(|batch| batch.transactional) {
        let Some(Producer { id, .. }) = batch.producer else { continue };
        let Content::Marker { outcome, .. } = batch.content else {
            open.entry(id).or_insert(batch.base_offset);
            continue;
        };
        let Some(first) = open.remove(&id) else { continue };
        if outcome == TxnOutcome::Abort {
            let marker = batch.base_offset;
            let stable = open.values().min().copied().unwrap_or(marker + 1);
            lines.push(format!(
                "version: 0 producerId: {id} firstOffset: {first} lastOffset: {marker} \
                 lastStableOffset: {stable}\n"
            ));
        }
    }
    lines.concat()
}

/// The lines of the newest snapshot, in any order.
pub(super) fn producers(batches: &[Planned]) -> String {
    let mut lines: BTreeMap<i64, Line> = BTreeMap::new();
    for batch in batches {
        if let Some(producer) = batch.producer {
            lines.entry(producer.id).or_default().update(producer, batch);
        }
    }
    lines.into_iter().map(|(id, line)| line.text(id)).collect()
}

/// What a snapshot holds of one producer.
#[derive(Debug)]
struct Line {
    epoch: i16,
    coordinator_epoch: i32,
    open_from: Option<i64>,
    last_time: i64,
    last_batch: Option<String>,
}

impl Default for Line {
    fn default() -> Self {
        Self { epoch: -1, coordinator_epoch: -1, open_from: None, last_time: -1, last_batch: None }
    }
}

impl Line {
    fn update(&mut self, producer: Producer, batch: &Planned) {
        self.epoch = producer.epoch;
        self.last_time = batch.time().1;
        if let Content::Marker { coordinator_epoch, .. } = batch.content {
            self.coordinator_epoch = coordinator_epoch;
            self.open_from = None;
            return;
        }
        if batch.transactional {
            self.open_from.get_or_insert(batch.base_offset);
        }
        let last = batch.next_offset() - 1;
        let delta = last - batch.base_offset;
        self.last_batch = Some(format!(
            " firstSequence: {} lastSequence: {} lastOffset: {last} offsetDelta: {delta} \
             timestamp: ",
            producer.sequence,
            batch.last_sequence(),
        ));
    }

    fn text(&self, id: i64) -> String {
        let Self { epoch, coordinator_epoch, open_from, last_time, last_batch } = self;
        let open =
            open_from.map_or("OptionalLong.empty".to_owned(), |at| format!("OptionalLong[{at}]"));
        // The file has one time a producer, of batch or marker, and the tool prints it twice.
        let last_batch = last_batch.as_ref().map_or(String::new(), |it| format!("{it}{last_time}"));
        format!(
            "producerId: {id} producerEpoch: {epoch} coordinatorEpoch: {coordinator_epoch} \
             currentTxnFirstOffset: {open} lastTimestamp: {last_time}{last_batch}\n"
        )
    }
}
