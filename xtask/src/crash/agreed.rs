//! Whether an opened log knows of producers, transactions and leader epochs what the slow model
//! says of the batches that it is made of.

use std::collections::BTreeMap;
use std::ops::Range;

use alluvium_log_manager::{AppendError, Appended, ErrorCode, LeaderRequest, Log};
use alluvium_record_format::{Codec, LeaderEpoch, Offset};
use alluvium_recovery::ProducerEntry;
use anyhow::{Context, Result, bail, ensure};

use super::history::LogHistory;
use super::producers::{self, Last, Producer};
use super::workload::NOW;
use crate::proof::{Contents, Found, FoundBatch, Kind, Writer, read_committed, stamped_batch_as};

/// Compares producers, last stable offset, committed records and epochs with the model. Returns
/// the producers that it must know.
///
/// # Errors
///
/// What does not agree.
pub(super) fn check(
    log: &Log,
    model: &LogHistory,
    contents: &Contents,
) -> Result<BTreeMap<i64, Producer>> {
    let all = model.made_of(&contents.batches)?;
    let forgotten = model.start().max(log.log_start_offset().get());
    let view = View { log, all: &all, forgotten };
    view.check_all(contents).with_context(|| view.told())
}

/// Every batch is in the epoch that it says, those that are deleted excepted, and no epoch begins
/// at the end or above.
fn check_epochs(log: &Log, batches: &[FoundBatch], start: i64) -> Result<()> {
    for batch in batches.iter().filter(|batch| batch.last >= start) {
        let at = batch.first.max(start);
        let epoch = log.epoch_for_offset(Offset::new(at)).map(LeaderEpoch::get);
        ensure!(
            epoch == Some(batch.leader_epoch),
            "offset {at} is of leader epoch {}, and is said to be of {epoch:?}",
            batch.leader_epoch
        );
    }
    let Some(last) = log.log_end_offset().get().checked_sub(1).filter(|last| *last >= start) else {
        return Ok(());
    };
    let (latest, of_last) = (log.latest_epoch(), log.epoch_for_offset(Offset::new(last)));
    ensure!(latest == of_last, "epoch {latest:?} begins at the end, {of_last:?} is before it");
    Ok(())
}

/// A log beside the batches that it is made of.
struct View<'a> {
    log: &'a Log,
    all: &'a [FoundBatch],
    /// A start may know nothing of the batches below: their records are deleted.
    forgotten: i64,
}

impl View<'_> {
    fn check_all(&self, contents: &Contents) -> Result<BTreeMap<i64, Producer>> {
        check_epochs(self.log, &contents.batches, self.forgotten)?;
        // What follows the last marker is open by itself alone, not by the high watermark.
        self.log.update_high_watermark(self.log.log_end_offset())?;
        let known = self.check_producers()?;
        self.check_last_stable()?;
        self.check_committed(contents)?;
        Ok(known)
    }

    /// The view, for a person.
    fn told(&self) -> String {
        let (start, end) = (self.log.log_start_offset(), self.log.log_end_offset());
        let batch = |batch: &FoundBatch| {
            let FoundBatch { first, last, leader_epoch, writer } = batch;
            let by = writer.map(|Writer { id, epoch, sequence, kind }| {
                format!(", {kind:?} of {id} in {epoch}, {sequence}")
            });
            format!("\n  {first}..={last} of leader {leader_epoch}{}", by.unwrap_or_default())
        };
        let batches: Vec<_> = self.all.iter().map(batch).collect();
        let forgotten = self.forgotten;
        format!("from {start} to {end}, below {forgotten} deleted:{}", batches.concat())
    }

    /// Each producer is as after all batches, or, where some are deleted, as after the later ones.
    /// Returns those that are as after all.
    fn check_producers(&self) -> Result<BTreeMap<i64, Producer>> {
        let entries = self.log.active_producers()?;
        let entries: BTreeMap<_, _> =
            entries.iter().map(|entry| (entry.producer_id.get(), entry)).collect();
        let expected = producers::after(self.all);
        for id in entries.keys() {
            ensure!(expected.contains_key(id), "nobody knows producer {id}");
        }
        let mut known = BTreeMap::new();
        for (id, producer) in expected {
            let there = entries.get(&id).map(|entry| seen(entry));
            if there == Some(producer) {
                known.insert(id, producer);
                continue;
            }
            let is_right = self.later(id).any(|later| later == there);
            ensure!(is_right, "producer {id} is {producer:?}, and is said to be {there:?}");
        }
        Ok(known)
    }

    /// What a producer is after all batches but some of the first ones, which are deleted.
    fn later(&self, id: i64) -> impl Iterator<Item = Option<Producer>> {
        let deleted = self.all.iter().filter(|batch| batch.first < self.forgotten).count();
        (1..=deleted).map(move |from| producers::after(&self.all[from..]).get(&id).copied())
    }

    /// The last stable offset is where the first open transaction begins, or the end.
    fn check_last_stable(&self) -> Result<()> {
        let (start, end) = (self.log.log_start_offset().get(), self.log.log_end_offset().get());
        let stable = self.log.last_stable_offset().get();
        let mut is_right = stable == end;
        for (id, producer) in producers::after(self.all) {
            let Some(first) = producer.open else { continue };
            let surviving = self.all.iter().find(|batch| {
                let is_its = batch.writer.is_some_and(|writer| writer.id == id);
                is_its && batch.first >= first && batch.last >= self.forgotten
            });
            // Where all of it is deleted, nothing need be held back.
            let latest = surviving.map_or(end, |batch| batch.first.max(start));
            ensure!(
                stable <= latest,
                "the last stable offset is {stable}, a transaction of {id} began at {first}"
            );
            // As in Kafka, where the log starts inside a batch: where that begins.
            let earliest = first.max(start);
            let holding = self.all.iter().find(|batch| batch.last >= earliest);
            is_right |= stable >= holding.map_or(earliest, |batch| batch.first.min(earliest));
        }
        ensure!(is_right, "the last stable offset is {stable}, and no transaction is open there");
        Ok(())
    }

    /// Below the last stable offset a reader of committed records sees these and no other.
    fn check_committed(&self, contents: &Contents) -> Result<()> {
        let stable = self.log.last_stable_offset().get();
        let read = read_committed(self.log).context("the committed records")?;
        let mut read = read.into_iter().filter(|record| record.stamp != 0);
        for record in contents.records.iter().filter(|record| record.offset < stable) {
            if !self.is_committed(record)? {
                continue;
            }
            let next = read.next();
            ensure!(next == Some(*record), "{record:?} is committed, {next:?} is read");
        }
        let more = read.next();
        ensure!(more.is_none(), "{more:?} is read, and not committed");
        Ok(())
    }

    fn is_committed(&self, record: &Found) -> Result<bool> {
        let at = self.all.partition_point(|batch| batch.last < record.offset);
        let writer = self.all.get(at).and_then(|batch| batch.writer);
        Ok(match writer.map(|writer| (writer.id, writer.kind)) {
            None | Some((_, Kind::Plain)) => true,
            Some((_, Kind::Commit | Kind::Abort)) => false,
            Some((id, Kind::Transactional)) => {
                match producers::outcome(self.all, id, record.offset) {
                    Some(kind) => kind == Kind::Commit,
                    None => bail!("the open record at {} is below the last stable", record.offset),
                }
            }
        })
    }
}

fn seen(entry: &ProducerEntry) -> Producer {
    let last = entry.last_batch().map(|batch| Last {
        sequence: batch.last_sequence.get(),
        from: batch.first_offset().get(),
        to: batch.last_offset.get(),
    });
    let open = entry.current_txn_first_offset.map(Offset::get);
    Producer { epoch: entry.producer_epoch.get(), last, open }
}

/// Appends as each of these producers: its last batch again, one behind a gap, one of an epoch
/// that is over, and the next one.
///
/// # Errors
///
/// When one of these is not answered as it must be.
pub(super) fn go_on(log: &Log, known: &BTreeMap<i64, Producer>, stamps: Range<u64>) -> Result<()> {
    for ((id, producer), stamp) in known.iter().zip(stamps) {
        let (id, kind) = (*id, producer.kind_of_records());
        if let Some(last) = producer.last {
            check_again(log, id, producer, last)?;
        }
        let (epoch, sequence) = (producer.epoch, producer.next_sequence());
        let gap = Writer { id, epoch, sequence: sequence + 1, kind };
        refused(log, gap, ErrorCode::OutOfOrderSequenceNumber)?;
        if epoch > 0 {
            let fenced = Writer { id, epoch: epoch - 1, sequence, kind };
            refused(log, fenced, ErrorCode::InvalidProducerEpoch)?;
        }
        let (end, next) = (log.log_end_offset(), Writer { id, epoch, sequence, kind });
        let appended = append(log, next, stamp..stamp + 1).with_context(|| format!("{next:?}"))?;
        let is_new = !appended.is_duplicate && appended.first_offset == Some(end);
        ensure!(is_new, "{next:?} is taken for {:?}", appended.first_offset);
    }
    Ok(())
}

/// The last batch of a producer once more is recognized.
///
/// # Errors
///
/// When it is not.
pub(super) fn check_again(log: &Log, id: i64, producer: &Producer, last: Last) -> Result<()> {
    let count = last.count();
    let sequence = last.sequence - i32::try_from(count - 1)?;
    let kind = producer.kind_of_records();
    let writer = Writer { id, epoch: producer.epoch, sequence, kind };
    let again = append(log, writer, 1..1 + count.unsigned_abs());
    let again = again.with_context(|| format!("{writer:?} again"))?;
    let at = again.first_offset.map(Offset::get);
    ensure!(
        again.is_duplicate && at == Some(last.from),
        "{writer:?} at {} is written again, to {at:?}",
        last.from
    );
    Ok(())
}

/// A batch that must be refused so.
///
/// # Errors
///
/// When it is not.
pub(super) fn refused(log: &Log, writer: Writer, code: ErrorCode) -> Result<()> {
    match append(log, writer, 1..2) {
        Ok(appended) => bail!("{writer:?} is not refused but {appended:?}"),
        Err(error) if error.code() == code => Ok(()),
        Err(error) => Err(error).with_context(|| format!("{writer:?} is not refused by {code:?}")),
    }
}

fn append(log: &Log, writer: Writer, stamps: Range<u64>) -> Result<Appended, AppendError> {
    let settings = writer.settings().codec(Codec::None);
    // Nothing of ours is too large for a batch.
    let mut batch = stamped_batch_as(settings, stamps, 8, NOW).unwrap_or_default();
    let epoch = log.latest_epoch().unwrap_or(LeaderEpoch::new(0));
    log.append_as_leader(&mut batch, LeaderRequest::new(epoch))
}

impl Producer {
    /// What its next records are.
    pub(super) fn kind_of_records(&self) -> Kind {
        if self.open.is_some() { Kind::Transactional } else { Kind::Plain }
    }

    /// Its next records, a transaction or not.
    pub(super) fn next(&self, id: i64, kind: Kind) -> Writer {
        let sequence = if kind.is_marker() { -1 } else { self.next_sequence() };
        Writer { id, epoch: self.epoch, sequence, kind }
    }
}
