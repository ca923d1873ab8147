//! Topics to clean, and what was ever acknowledged in them.

use std::collections::{BTreeMap, BTreeSet};

use alluvium_log_manager::{LeaderRequest, Log};
use alluvium_record_format::{Codec, LeaderEpoch, TxnOutcome};
use anyhow::{Context, Result, ensure};

use crate::kafka::{Client, Seen};
use crate::oracle::ours::View;
use crate::oracle::plan::{Content, Planned, PlannedRecord, Producer};

/// Batches in a turn; enough for several segments.
const BATCHES: i64 = 24;

/// Records in a batch.
const RECORDS: i64 = 8;

/// Our own transactional producer; Kafka gives out ids from 0.
const PRODUCER: i64 = 9_000_000;

const PLAIN: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("internal.segment.bytes", "2500"),
    ("index.interval.bytes", "512"),
    ("min.cleanable.dirty.ratio", "0.01"),
];

/// Tombstones, markers and empty batches go as soon as they may.
const IMPATIENT: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("internal.segment.bytes", "2500"),
    ("index.interval.bytes", "512"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("delete.retention.ms", "0"),
];

/// A topic and all that happened to it.
#[derive(Debug)]
pub(super) struct History {
    pub(super) name: &'static str,
    pub(super) settings: &'static [(&'static str, &'static str)],
    codec: Codec,
    transactional: bool,
    /// The offset after the last record or marker.
    pub(super) end: i64,
    /// Where the log ended when the turn began.
    pub(super) turn_began: i64,
    /// The last committed value of every key.
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    acknowledged: usize,
    sequence: i32,
    is_open: bool,
}

/// Every kind.
pub(super) fn all() -> Vec<History> {
    let topic = |name, settings, codec, transactional| History {
        name,
        settings,
        codec,
        transactional,
        end: 0,
        turn_began: 0,
        values: BTreeMap::new(),
        acknowledged: 0,
        sequence: 0,
        is_open: false,
    };
    vec![
        topic("keyed", PLAIN, Codec::None, false),
        topic("keyed-zstd", PLAIN, Codec::Zstd, false),
        topic("keyed-lz4-impatient", IMPATIENT, Codec::Lz4, false),
        topic("keyed-txn", PLAIN, Codec::None, true),
        topic("keyed-txn-impatient", IMPATIENT, Codec::None, true),
    ]
}

impl History {
    /// Makes the topic.
    ///
    /// # Errors
    ///
    /// When the broker refuses.
    pub(super) fn create(&self, client: &mut Client) -> Result<()> {
        let settings: Vec<String> =
            self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut words = vec!["create", self.name];
        words.extend(settings.iter().map(String::as_str));
        client.run(&words)?;
        Ok(())
    }

    /// Sends the records of a turn through a real producer.
    ///
    /// # Errors
    ///
    /// When the broker refuses.
    pub(super) fn send(&mut self, client: &mut Client, turn: i64) -> Result<()> {
        self.turn_began = self.end;
        if !self.is_open {
            let codec = format!("compression.type={}", self.codec.name());
            let id = format!("transactional.id={}", self.name);
            let words = ["open", self.name, &codec, &id];
            client.run(if self.transactional { &words } else { &words[..3] })?;
            self.is_open = true;
        }
        for part in self.parts(turn) {
            if self.transactional {
                client.run(&["begin", self.name])?;
            }
            for records in &part.batches {
                let to_send: Vec<Seen> = records.iter().map(|it| it.seen(0, None)).collect();
                let sent = client.send(self.name, self.name, &to_send)?;
                ensure!(sent[0].0 >= self.end, "sent to {}, before {}", sent[0].0, self.end);
                self.end = sent[sent.len() - 1].0 + 1;
            }
            if self.transactional {
                let word = if part.is_aborted { "abort" } else { "commit" };
                client.run(&["end", self.name, word])?;
                self.end += 1;
            }
            self.acknowledge(&part);
        }
        Ok(())
    }

    /// Appends the records of a turn to our log.
    ///
    /// # Errors
    ///
    /// When it refuses.
    pub(super) fn append(&mut self, log: &Log, turn: i64) -> Result<()> {
        self.turn_began = self.end;
        let epoch = log.latest_epoch().unwrap_or(LeaderEpoch::new(0));
        for part in self.parts(turn) {
            for records in &part.batches {
                let mut batch = Planned::new(0, records.clone());
                batch.codec = self.codec;
                if self.transactional {
                    let sequence = self.sequence;
                    batch.producer = Some(Producer { id: PRODUCER, epoch: 0, sequence });
                    batch.transactional = true;
                    self.sequence = batch.last_sequence() + 1;
                }
                let request = LeaderRequest::new(epoch);
                let appended = log.append_as_leader(&mut batch.build()?, request)?;
                self.end = appended.last_offset.context("nothing was appended")?.get() + 1;
            }
            if self.transactional {
                let outcome = [TxnOutcome::Commit, TxnOutcome::Abort][usize::from(part.is_aborted)];
                let mut marker = Planned::new(0, Vec::new());
                marker.producer = Some(Producer { id: PRODUCER, epoch: 0, sequence: -1 });
                marker.transactional = true;
                let timestamp = time(turn, 0);
                marker.content = Content::Marker { outcome, coordinator_epoch: 0, timestamp };
                let request = LeaderRequest::new(epoch).coordinator(1);
                log.append_as_leader(&mut marker.build()?, request)?;
                self.end += 1;
            }
            self.acknowledge(&part);
        }
        log.update_high_watermark(log.log_end_offset())?;
        Ok(())
    }

    /// Compares what a replay gives with the history, and looks for keys that stand twice below
    /// `cleaned`, where a cleaner has been.
    ///
    /// # Errors
    ///
    /// Names what differs.
    pub(super) fn compare(&self, view: &View, cleaned: i64) -> Result<()> {
        ensure!(view.end == self.end, "the log ends at {}, not at {}", view.end, self.end);
        let mut found: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
        let mut below = BTreeSet::new();
        for record in &view.records {
            let key = record.key.as_deref().context("every record has a key")?;
            match &record.value {
                Some(value) => found.insert(key, value),
                None => found.remove(key),
            };
            let is_new = record.offset >= cleaned || below.insert(key);
            let text = String::from_utf8_lossy(key);
            ensure!(is_new, "{text} stands twice below {cleaned}, the second at {}", record.offset);
        }
        for (key, value) in &self.values {
            let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
            let there = found.remove(&**key);
            ensure!(
                there == Some(value),
                "{} is {:?}, not {}",
                text(key),
                there.map(text),
                text(value)
            );
        }
        let more = found.into_keys().next().map(String::from_utf8_lossy);
        ensure!(more.is_none(), "{more:?} was deleted and is there");
        let (seen, of) = (view.records.len(), self.acknowledged);
        ensure!(cleaned == 0 || seen < of, "all {of} records are still there");
        Ok(())
    }

    /// Fails unless it notices a changed value, a lost key, a key too many, and one that stands
    /// twice.
    ///
    /// # Errors
    ///
    /// When it is blind.
    pub(super) fn is_a_judge(&self) -> Result<()> {
        let record = |(offset, (key, value)): (i64, (&Vec<u8>, &Vec<u8>))| Seen {
            offset,
            append_time: false,
            timestamp: 0,
            key: Some(key.clone()),
            value: Some(value.clone()),
            headers: Vec::new(),
        };
        let records: Vec<Seen> = (0..).zip(&self.values).map(record).collect();
        let view = View { begin: 0, end: self.end, records };
        self.compare(&view, self.end)?;
        let spoil: [fn(&mut Vec<Seen>); 4] = [
            |records| records[0].value = Some(b"another".to_vec()),
            |records| drop(records.pop()),
            |records| records[0].key = Some(b"unheard of".to_vec()),
            |records| records.push(records[0].clone()),
        ];
        for (which, spoil) in spoil.iter().enumerate() {
            let mut spoilt = view.clone();
            spoil(&mut spoilt.records);
            ensure!(self.compare(&spoilt, self.end).is_err(), "change {which} is not noticed");
        }
        Ok(())
    }

    fn acknowledge(&mut self, part: &Part) {
        for record in part.batches.iter().flatten() {
            self.acknowledged += 1;
            let Some(key) = record.key.as_ref().filter(|_| !part.is_aborted) else { continue };
            match &record.value {
                Some(value) => self.values.insert(key.clone().into(), value.clone().into()),
                None => self.values.remove(key.as_bytes()),
            };
        }
    }

    /// The batches of a turn, parted into transactions of which every third is aborted.
    fn parts(&self, turn: i64) -> Vec<Part> {
        let batches: Vec<_> = (0..BATCHES).map(|batch| records(turn, batch)).collect();
        let per_part = if self.transactional { 3 } else { batches.len() };
        let parts = batches.chunks(per_part).enumerate();
        let part = |(index, batches): (usize, &[Vec<PlannedRecord>])| Part {
            batches: batches.to_vec(),
            is_aborted: self.transactional && index % 3 == 1,
        };
        parts.map(part).collect()
    }
}

/// Batches that are committed or aborted together.
struct Part {
    batches: Vec<Vec<PlannedRecord>>,
    is_aborted: bool,
}

/// Keys that come again, keys that never do, tombstones.
fn records(turn: i64, batch: i64) -> Vec<PlannedRecord> {
    let record = |index: i64| {
        let at = batch * RECORDS + index;
        let scattered = (at * 37 + turn * 11) % 61;
        let key =
            if at % 29 == 0 { format!("once-{turn}-{at}") } else { format!("key-{scattered}") };
        let filler = "silt ".repeat(usize::try_from(scattered % 9).unwrap_or(0));
        let value = format!("turn {turn}, record {at}: {filler}");
        PlannedRecord {
            timestamp: time(turn, at),
            key: Some(key),
            value: (scattered % 7 != 3).then_some(value),
            headers: Vec::new(),
        }
    };
    (0..RECORDS).map(record).collect()
}

/// Some day in 2025; later turns are later.
const fn time(turn: i64, record: i64) -> i64 {
    1_750_000_000_000 + turn * 1_000_000 + record
}
