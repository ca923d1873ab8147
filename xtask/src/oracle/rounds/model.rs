//! What a partition must hold, by what was acknowledged: the judge of both sides.

use std::collections::BTreeSet;

use alluvium_log_manager::Isolation;
use alluvium_record_format::TxnOutcome;
use anyhow::{Context, Result, ensure};

use crate::kafka::Seen;
use crate::oracle::ours::View;
use crate::oracle::plan::{Content, Planned};

/// A partition as it must be.
#[derive(Debug, Default)]
pub(super) struct Model {
    start: i64,
    end: i64,
    /// Each record with the transaction that it is part of.
    records: Vec<(Seen, Option<usize>)>,
    transactions: Vec<Transaction>,
}

#[derive(Debug)]
struct Transaction {
    producer: String,
    first_offset: i64,
    outcome: Option<TxnOutcome>,
}

impl Model {
    /// The offset after the last record or marker.
    pub(super) const fn end(&self) -> i64 {
        self.end
    }

    /// Records below `offset` are deleted.
    pub(super) fn delete_before(&mut self, offset: i64) {
        self.start = self.start.max(offset);
    }

    /// A record has been acknowledged; `producer` names the one whose transaction it is part of.
    pub(super) fn record(&mut self, seen: Seen, producer: Option<&str>) {
        let offset = seen.offset;
        let transaction = producer.map(|producer| self.transaction(producer, offset));
        self.end = offset + 1;
        self.records.push((seen, transaction));
    }

    /// A batch of ours has been appended at `base`, with this time if the log sets it.
    pub(super) fn batch(&mut self, batch: &Planned, base: i64, append_time: Option<i64>) {
        let producer = batch.producer.filter(|_| batch.transactional).map(|it| it.id.to_string());
        match &batch.content {
            Content::Records(records) => {
                for (offset, record) in (base..).zip(records) {
                    self.record(record.seen(offset, append_time), producer.as_deref());
                }
            }
            Content::Marker { outcome, .. } => {
                self.end_transaction(&producer.unwrap_or_default(), *outcome);
            }
        }
    }

    /// A marker stands at the end of the log.
    pub(super) fn end_transaction(&mut self, producer: &str, outcome: TxnOutcome) {
        self.end += 1;
        if let Some(open) = self.open(producer) {
            self.transactions[open].outcome = Some(outcome);
        }
    }

    /// What a consumer must see.
    pub(super) fn expected(&self, isolation: Isolation) -> View {
        let (records, end) = if isolation == Isolation::TxnCommitted {
            let undecided = self.transactions.iter().filter(|txn| txn.outcome.is_none());
            let end = undecided.map(|txn| txn.first_offset).min().unwrap_or(self.end);
            let is_aborted = |txn: usize| self.transactions[txn].outcome == Some(TxnOutcome::Abort);
            let stands = |&(_, txn): &&(Seen, Option<usize>)| !txn.is_some_and(is_aborted);
            (self.records.iter().filter(stands).collect::<Vec<_>>(), end)
        } else {
            (self.records.iter().collect(), self.end)
        };
        let seen = records.into_iter().map(|(seen, _)| seen);
        let within = seen.filter(|seen| (self.start..end).contains(&seen.offset));
        View { begin: self.start, end, records: within.cloned().collect() }
    }

    /// Compares what was seen with what must be, record by record, and returns their number.
    ///
    /// # Errors
    ///
    /// Names the first difference.
    pub(super) fn compare(&self, isolation: Isolation, seen: &View) -> Result<usize> {
        let expected = self.expected(isolation);
        ensure!(
            (seen.begin, seen.end) == (expected.begin, expected.end),
            "offsets {}..{}, expected {}..{}",
            seen.begin,
            seen.end,
            expected.begin,
            expected.end
        );
        for (ours, theirs) in expected.records.iter().zip(&seen.records) {
            ensure!(ours == theirs, "expected {}, found {}", shown(ours), shown(theirs));
        }
        let offsets = |view: &View| view.records.iter().map(|seen| seen.offset).collect();
        let (ours, theirs): (BTreeSet<i64>, BTreeSet<i64>) = (offsets(&expected), offsets(seen));
        ensure!(
            ours == theirs && expected.records.len() == seen.records.len(),
            "{} records, expected {}: missing {:?}, too many {:?}",
            seen.records.len(),
            expected.records.len(),
            ours.difference(&theirs).collect::<Vec<_>>(),
            theirs.difference(&ours).collect::<Vec<_>>()
        );
        Ok(seen.records.len())
    }

    /// Fails unless a view with one bit of one value changed, and one that lacks a record, are
    /// both told from the right one: the judge must be able to say no.
    ///
    /// # Errors
    ///
    /// When it is blind, or when no record has a value.
    pub(super) fn is_a_judge(&self) -> Result<()> {
        let mut changed = self.expected(Isolation::HighWatermark);
        let values = changed.records.iter_mut().filter_map(|seen| seen.value.as_mut());
        let byte = values.flat_map(|value| value.iter_mut()).next_back();
        *byte.context("no record has a value")? ^= 1;
        let refused = self.compare(Isolation::HighWatermark, &changed).is_err();
        ensure!(refused, "a changed value is not noticed");
        let mut short = self.expected(Isolation::HighWatermark);
        short.records.pop();
        let refused = self.compare(Isolation::HighWatermark, &short).is_err();
        ensure!(refused, "a lost record is not noticed");
        Ok(())
    }

    /// Whether a producer has begun what it has not ended.
    pub(super) fn has_open(&self, producer: &str) -> bool {
        self.open(producer).is_some()
    }

    fn transaction(&mut self, producer: &str, first_offset: i64) -> usize {
        self.open(producer).unwrap_or_else(|| {
            let producer = producer.to_owned();
            self.transactions.push(Transaction { producer, first_offset, outcome: None });
            self.transactions.len() - 1
        })
    }

    fn open(&self, producer: &str) -> Option<usize> {
        let is_open = |txn: &Transaction| txn.producer == producer && txn.outcome.is_none();
        self.transactions.iter().position(is_open)
    }
}

fn shown(record: &Seen) -> String {
    let text = |it: &Option<Vec<u8>>| {
        it.as_ref().map_or("null".to_owned(), |it| format!("`{}`", String::from_utf8_lossy(it)))
    };
    let Seen { offset, append_time, timestamp, key, value, headers } = record;
    let (key, value) = (text(key), text(value));
    let headers = headers.iter().map(|(name, it)| text(&Some(name.clone())) + "=" + &text(it));
    let headers = headers.collect::<Vec<_>>().join(" ");
    let kind = if *append_time { "append time" } else { "time" };
    format!("{offset} ({kind} {timestamp}) {key}: {value} [{headers}]")
}
