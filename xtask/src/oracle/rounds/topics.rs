//! The topics of the rounds, and the batches that we append to them.

use std::collections::BTreeMap;

use alluvium_record_format::{Codec, TxnOutcome};

use super::model::Model;
use crate::oracle::plan::{Content, Planned, PlannedRecord, Producer, after};
use crate::oracle::scenarios;

/// The topic whose log start moves.
pub(super) const LOG_START: &str = "log-start";

/// The topic with a transaction that lives through every kill.
pub(super) const LIVE: &str = "live";

/// Above those of the plans, or the markers would come from a coordinator that is no more.
const COORDINATOR_EPOCH: i32 = 1_000;

/// A topic of one partition.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) codec: Codec,
    /// Kafka's keys, for Kafka and for us.
    pub(super) settings: Vec<(&'static str, &'static str)>,
    /// What its log holds before Kafka sees it.
    pub(super) plan: Vec<Planned>,
    pub(super) model: Model,
    /// The next sequence of each producer of ours.
    sequences: BTreeMap<i64, i32>,
}

/// Every kind.
pub(super) fn all() -> Vec<Topic> {
    let mut plans = scenarios::all();
    for name in [LOG_START, LIVE] {
        plans.push((name.to_owned(), scenarios::chain(24, |_| ())));
    }
    plans.into_iter().map(|(name, plan)| Topic::new(name, plan)).collect()
}

impl Topic {
    fn new(name: String, mut plan: Vec<Planned>) -> Self {
        let mut settings =
            vec![("internal.segment.bytes", "4000"), ("index.interval.bytes", "300")];
        if name.starts_with("append-time") {
            settings.push(("message.timestamp.type", "LogAppendTime"));
        }
        // Below that of any leader to come.
        for batch in &mut plan {
            batch.leader_epoch = 0;
        }
        let codec = plan.first().map_or(Codec::None, |batch| batch.codec);
        let (model, sequences) = (Model::default(), BTreeMap::new());
        Self { name, codec, settings, plan, model, sequences }
    }

    /// Notes that a batch of ours is in the log.
    pub(super) fn appended(&mut self, batch: &Planned, base: i64, append_time: Option<i64>) {
        self.model.batch(batch, base, append_time);
        if let (Some(producer), Content::Records(_)) = (batch.producer, &batch.content) {
            self.sequences.insert(producer.id, after(batch.last_sequence(), 1));
        }
    }

    /// What we append in a later round, offsets from 0 in each batch: the log assigns them.
    pub(super) fn later(&self, round: i64, now: i64) -> Vec<Planned> {
        match &*self.name {
            "transactions" => self.transactions(round, now),
            "idempotent" => (0..3).map(|turn| self.idempotent(turn, now)).collect(),
            _ => (0..3).map(|turn| self.plain(round * 30 + turn * 7, now)).collect(),
        }
    }

    fn plain(&self, from: i64, now: i64) -> Planned {
        let mut batch = Planned::new(0, records(from, 5, now));
        batch.leader_epoch = 0;
        batch.codec = self.codec;
        batch
    }

    /// The next batch of one producer: five records, `turn` batches after what is in the log.
    fn idempotent(&self, turn: i64, now: i64) -> Planned {
        let mut batch = self.plain(turn * 11, now);
        let (id, first) =
            self.sequences.first_key_value().map_or((0, 0), |(id, next)| (*id, *next));
        batch.producer = Some(Producer { id, epoch: 2, sequence: after(first, turn * 5) });
        batch
    }

    /// Ends what is open, begins anew, and ends one of the new ones.
    fn transactions(&self, round: i64, now: i64) -> Vec<Planned> {
        let mut batches = Vec::new();
        let outcome = |is_abort| if is_abort { TxnOutcome::Abort } else { TxnOutcome::Commit };
        for (turn, (&id, &sequence)) in (0..).zip(&self.sequences) {
            let producer = Producer { id, epoch: 1, sequence };
            if self.model.has_open(&id.to_string()) {
                batches.push(marker(producer, outcome(round % 2 == 0), now));
            }
            let mut data = self.plain(round + turn, now);
            data.producer = Some(producer);
            data.transactional = true;
            batches.push(data);
            if turn == 0 {
                batches.push(marker(producer, outcome(round % 2 == 1), now));
            }
        }
        batches
    }
}

fn marker(producer: Producer, outcome: TxnOutcome, timestamp: i64) -> Planned {
    let mut marker = Planned::new(0, Vec::new());
    marker.leader_epoch = 0;
    marker.producer = Some(Producer { sequence: -1, ..producer });
    marker.transactional = true;
    marker.content = Content::Marker { outcome, coordinator_epoch: COORDINATOR_EPOCH, timestamp };
    marker
}

/// Records of every shape at the present time.
pub(super) fn records(from: i64, count: usize, now: i64) -> Vec<PlannedRecord> {
    let mut records = scenarios::records(from, count);
    for (record, step) in records.iter_mut().zip(0..) {
        record.timestamp = now + step;
    }
    records
}
