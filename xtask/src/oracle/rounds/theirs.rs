//! The other side: real clients of a real broker.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use alluvium_record_format::TxnOutcome;
use anyhow::{Context, Result, ensure};

use super::topics::{LIVE, LOG_START, Topic, records};
use crate::kafka::{Client, Kafka, Seen};
use crate::oracle::ours::View;

/// Whose open transaction lives through every kill.
const LIVE_PRODUCER: &str = "live";

/// Whose transactions end within the round, by a new client each time.
const AGAIN_PRODUCER: &str = "again";

/// Real clients. The producers live on from round to round: what they knew of their sequences,
/// the broker must still know.
pub(super) struct Clients {
    client: Client,
    open: Vec<String>,
}

impl Clients {
    /// Starts them.
    ///
    /// # Errors
    ///
    /// When there is no JVM.
    pub(super) fn start(kafka: &Kafka, bootstrap: &str) -> Result<Self> {
        Ok(Self { client: Client::start(kafka, bootstrap)?, open: Vec::new() })
    }

    /// Makes the topics.
    ///
    /// # Errors
    ///
    /// When the broker refuses.
    pub(super) fn create(&mut self, topics: &[Topic]) -> Result<()> {
        for topic in topics {
            let mut words = vec!["create".to_owned(), topic.name.clone()];
            words.extend(topic.settings.iter().map(|(key, value)| format!("{key}={value}")));
            self.run(&words)?;
        }
        Ok(())
    }

    /// What a consumer sees.
    ///
    /// # Errors
    ///
    /// When it does not get to the end.
    pub(super) fn read(&mut self, topic: &str, isolation: &str, end: i64) -> Result<View> {
        let (begin, end, records) = self.client.read(topic, isolation, end)?;
        Ok(View { begin, end, records })
    }

    /// Sends more to every topic: plain records by an idempotent producer of its codec; two
    /// transactions to one; to another the end of an open transaction and a new one.
    ///
    /// # Errors
    ///
    /// When the broker refuses.
    pub(super) fn produce(&mut self, topics: &mut [Topic], round: i64, now: i64) -> Result<()> {
        for topic in topics {
            match &*topic.name {
                LIVE => self.live(topic, round, now)?,
                "transactions" => self.again(topic, round, now)?,
                _ => {
                    let codec = topic.codec.name();
                    let config = format!("compression.type={codec}");
                    self.ready(codec, &[&config, "linger.ms=5"])?;
                    self.send(codec, topic, false, round, now)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the transaction of the round before, and begins one that the kill will find open.
    fn live(&mut self, topic: &mut Topic, round: i64, now: i64) -> Result<()> {
        self.ready(LIVE_PRODUCER, &["transactional.id=live", "transaction.timeout.ms=900000"])?;
        if topic.model.has_open(LIVE_PRODUCER) {
            let outcome = if round == 2 { TxnOutcome::Commit } else { TxnOutcome::Abort };
            self.end(LIVE_PRODUCER, topic, outcome)?;
        }
        self.run(&["begin", LIVE_PRODUCER])?;
        self.send(LIVE_PRODUCER, topic, true, round, now)
    }

    /// Two transactions of a producer that comes back under its old name.
    fn again(&mut self, topic: &mut Topic, round: i64, now: i64) -> Result<()> {
        if self.open.iter().any(|open| open == AGAIN_PRODUCER) {
            self.run(&["close", AGAIN_PRODUCER])?;
            self.open.retain(|open| open != AGAIN_PRODUCER);
        }
        self.ready(AGAIN_PRODUCER, &["transactional.id=again", "compression.type=lz4"])?;
        for outcome in [TxnOutcome::Commit, TxnOutcome::Abort] {
            self.run(&["begin", AGAIN_PRODUCER])?;
            self.send(AGAIN_PRODUCER, topic, true, round, now)?;
            self.end(AGAIN_PRODUCER, topic, outcome)?;
        }
        Ok(())
    }

    /// Moves the log start of one topic, and waits until that is on disk: a kill forgets what
    /// stands in memory alone.
    ///
    /// # Errors
    ///
    /// When the broker refuses or forgets.
    pub(super) fn delete(&mut self, topics: &mut [Topic], data: &Path, round: i64) -> Result<()> {
        let topic = topics.iter_mut().find(|topic| topic.name == LOG_START);
        let topic = topic.context("the topic is there")?;
        let offset = topic.model.end() - 3 - round;
        let answer = self.run(&["delete", LOG_START, &offset.to_string()])?;
        ensure!(answer == [offset.to_string()], "the log starts at {answer:?}, not {offset}");
        topic.model.delete_before(offset);
        let (file, line) =
            (data.join("log-start-offset-checkpoint"), format!("{LOG_START} 0 {offset}"));
        let start = Instant::now();
        while !fs::read_to_string(&file).unwrap_or_default().lines().any(|it| it == line) {
            ensure!(start.elapsed() < Duration::from_secs(20), "no log start in the checkpoint");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn send(
        &mut self,
        producer: &str,
        topic: &mut Topic,
        in_transaction: bool,
        round: i64,
        now: i64,
    ) -> Result<()> {
        let append_time = topic.name.starts_with("append-time");
        let planned = records(round * 13, 6, now);
        let to_send: Vec<Seen> = planned.iter().map(|record| record.seen(0, None)).collect();
        let sent = self.client.send(producer, &topic.name, &to_send)?;
        for (record, (offset, time)) in planned.iter().zip(sent) {
            let expected = topic.model.end();
            ensure!(offset == expected, "{}: sent to {offset}, not to {expected}", topic.name);
            let record = record.seen(offset, append_time.then_some(time));
            topic.model.record(record, in_transaction.then_some(producer));
        }
        Ok(())
    }

    fn end(&mut self, producer: &str, topic: &mut Topic, outcome: TxnOutcome) -> Result<()> {
        let word = if outcome == TxnOutcome::Commit { "commit" } else { "abort" };
        self.run(&["end", producer, word])?;
        topic.model.end_transaction(producer, outcome);
        Ok(())
    }

    /// Opens a producer that is not open yet.
    fn ready(&mut self, producer: &str, config: &[&str]) -> Result<()> {
        if !self.open.iter().any(|open| open == producer) {
            let words = [&["open", producer], config].concat();
            self.run(&words)?;
            self.open.push(producer.to_owned());
        }
        Ok(())
    }

    fn run(&mut self, words: &[impl AsRef<str>]) -> Result<Vec<String>> {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        self.client.run(&words)
    }
}
