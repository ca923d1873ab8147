//! Who appends in the workload: plain producers, idempotent ones with their transactions, the
//! coordinator of these, followers, and elections between them.
//!
//! What a producer has written, and so what it sends next, it knows from the slow model.

use std::fmt::Write as _;

use alluvium_log_manager::{ErrorCode, LeaderRequest, Log};
use alluvium_record_format::{BatchSettings, Codec, LeaderEpoch, Offset};
use anyhow::{Result, ensure};

use super::agreed;
use super::history::LogHistory;
use super::producers::Producer;
use super::workload::{NOW, Workload};
use crate::proof::{Kind, Writer, marker_batch, stamped_batch_as};

/// The producers of each log.
const PRODUCERS: u64 = 3;

impl Workload {
    /// One append of somebody.
    pub(super) fn append(&mut self, log: &Log) -> Result<()> {
        if self.dice.one_in(8) {
            self.elect(log)?;
        }
        if self.dice.one_in(3) {
            return self.append_by(log, None);
        }
        let id = i64::try_from(1 + self.dice.below(PRODUCERS))?;
        let mut producer = self.producer(log, id);
        if self.dice.one_in(4) {
            self.try_what_is_refused(log, id, &producer)?;
        }
        if producer.open.is_some() && self.dice.one_in(3) {
            return self.end_transaction(log, id, &producer);
        }
        if producer.open.is_none() && self.dice.one_in(6) {
            // It has begun anew: who has the old epoch is fenced.
            (producer.epoch, producer.last) = (producer.epoch + 1, None);
        }
        let kind = if producer.open.is_some() || self.dice.one_in(2) {
            Kind::Transactional
        } else {
            Kind::Plain
        };
        self.append_by(log, Some(producer.next(id, kind)))
    }

    fn producer(&self, log: &Log, id: i64) -> Producer {
        let model = self.history.log(log.name());
        let producers = model.map(LogHistory::producers).unwrap_or_default();
        producers.get(&id).copied().unwrap_or_default()
    }

    /// Where the slow model has the end of a log.
    pub(super) fn end_of(&self, log: &Log) -> Option<i64> {
        self.history.log(log.name()).map(LogHistory::end)
    }

    /// Appends records of this producer, or of one that is not idempotent.
    pub(super) fn append_by(&mut self, log: &Log, writer: Option<Writer>) -> Result<()> {
        let (count, padding) = (1 + self.dice.below(3), self.dice.index(500));
        let codec = if self.dice.one_in(4) { Codec::Lz4 } else { Codec::None };
        let settings = writer.map_or(BatchSettings::new(Offset::new(0)), Writer::settings);
        let stamps = self.stamp..self.stamp + count;
        let mut batch = stamped_batch_as(settings.codec(codec), stamps, padding, NOW)?;
        self.say_append(log, (self.stamp, count), self.epoch, writer)?;
        self.stamp += count;
        log.append_as_leader(&mut batch, LeaderRequest::new(LeaderEpoch::new(self.epoch)))?;
        self.mark(&format!("acked {}", log.name()))
    }

    fn say_append(
        &mut self,
        log: &Log,
        (stamp, count): (u64, u64),
        epoch: i32,
        writer: Option<Writer>,
    ) -> Result<()> {
        let mut text = format!("append {} {stamp} {count} {epoch}", log.name());
        for number in writer.iter().flat_map(|writer| writer.to_numbers()) {
            write!(text, " {number}")?;
        }
        self.mark(&text)
    }

    /// What a producer may send by mistake, or twice.
    fn try_what_is_refused(&mut self, log: &Log, id: i64, producer: &Producer) -> Result<()> {
        let next = producer.next(id, producer.kind_of_records());
        // It may begin a segment all the same.
        let Some(last) = producer.last else { return Ok(()) };
        self.mark(&format!("attempt {}", log.name()))?;
        match self.dice.below(3) {
            0 => agreed::check_again(log, id, producer, last),
            1 => {
                let gap = Writer { sequence: next.sequence + 1, ..next };
                agreed::refused(log, gap, ErrorCode::OutOfOrderSequenceNumber)
            }
            _ if producer.epoch > 0 => {
                let fenced = Writer { epoch: next.epoch - 1, ..next };
                agreed::refused(log, fenced, ErrorCode::InvalidProducerEpoch)
            }
            _ => Ok(()),
        }
    }

    /// The coordinator ends a transaction, by the older protocol or by the newer one, after which
    /// the producer has another epoch.
    fn end_transaction(&mut self, log: &Log, id: i64, producer: &Producer) -> Result<()> {
        let kind = if self.dice.one_in(2) { Kind::Commit } else { Kind::Abort };
        let version = if self.dice.one_in(2) { 1 } else { 2 };
        let mut writer = producer.next(id, kind);
        writer.epoch += version - 1;
        let mut batch = marker_batch(writer, NOW)?;
        self.say_append(log, (0, 1), self.epoch, Some(writer))?;
        let request = LeaderRequest::new(LeaderEpoch::new(self.epoch)).coordinator(version);
        log.append_as_leader(&mut batch, request)?;
        self.mark(&format!("acked {}", log.name()))
    }

    /// All transactions that are open.
    pub(super) fn end_transactions(&mut self, log: &Log) -> Result<()> {
        for id in (1..).take(usize::try_from(PRODUCERS)?) {
            let producer = self.producer(log, id);
            if producer.open.is_some() {
                self.end_transaction(log, id, &producer)?;
            }
        }
        Ok(())
    }

    /// Another leader, which may note its epoch before it appends.
    fn elect(&mut self, log: &Log) -> Result<()> {
        self.epoch += 1;
        if self.dice.one_in(2) {
            log.assign_epoch(LeaderEpoch::new(self.epoch), log.log_end_offset())?;
        }
        Ok(())
    }

    /// A follower takes what its leader wrote in the epoch of what is left here, which may be older
    /// than what was cut off.
    pub(super) fn follow(&mut self, log: &Log) -> Result<()> {
        let epoch = self.history.log(log.name()).and_then(LogHistory::last_epoch);
        // No leader ends inside a batch.
        let Some(epoch) = epoch else { return self.append(log) };
        let count = 1 + self.dice.below(3);
        let settings =
            BatchSettings::new(log.log_end_offset()).leader_epoch(LeaderEpoch::new(epoch));
        let batch = stamped_batch_as(settings, self.stamp..self.stamp + count, 100, NOW)?;
        self.say_append(log, (self.stamp, count), epoch, None)?;
        self.stamp += count;
        let appended = log.append_as_follower(&batch, LeaderEpoch::new(self.epoch))?;
        ensure!(appended.first_offset.is_some(), "a follower took nothing");
        self.mark(&format!("acked {}", log.name()))
    }
}
