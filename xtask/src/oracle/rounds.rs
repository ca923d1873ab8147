//! One directory in turns: we write it, a real broker serves it to real clients and takes more,
//! is killed, and we go on. Every record is compared by value, on both sides, in every round.

mod appends;
mod model;
mod theirs;
mod topics;

use std::fs;
use std::path::Path;

use alluvium_log_manager::{Clock, Isolation, LogManager, StartReport, SystemClock};
use alluvium_recovery::PartitionMetadata;
use alluvium_segment::Io;
use anyhow::{Context, Result, ensure};

use self::theirs::Clients;
use self::topics::Topic;
use super::ours;
use crate::kafka::{Broker, Kafka, Relay};
use crate::tally::Tally;
use crate::workspace;

/// Turns of each side.
const ROUNDS: i64 = 3;

/// What consumers can ask for.
const ISOLATIONS: [(Isolation, &str); 2] =
    [(Isolation::HighWatermark, "read_uncommitted"), (Isolation::TxnCommitted, "read_committed")];

/// Logs that are left with half a batch at their end by each kill.
const TORN: [&str; 3] = ["codec-zstd", "transactions", "live"];

/// Runs all rounds.
///
/// # Errors
///
/// When the broker or the clients cannot go on.
pub(super) fn check(kafka: &Kafka, work: &Path, tally: &mut Tally) -> Result<()> {
    workspace::empty_dir(work)?;
    let data = work.join("data");
    let mut rounds = Rounds { topics: topics::all(), compared: 0 };
    let relay = Relay::start()?;
    let start = |turn: i64| {
        let log = work.join(format!("broker-{turn}.log"));
        let listeners = format!("advertised.listeners=PLAINTEXT://{}", relay.address());
        let broker = Broker::start(kafka, &data, &log, &listeners)?;
        relay.point_at(broker.port());
        anyhow::Ok(broker)
    };
    let mut clients = Clients::start(kafka, &relay.address())?;
    let broker = start(0)?;
    clients.create(&rounds.topics)?;
    broker.stop()?;
    rounds.write_first(&data, tally)?;
    for round in 1..=ROUNDS {
        let broker = start(round)?;
        rounds.serves(&mut clients, &format!("round {round}, as we left it"), tally);
        clients.produce(&mut rounds.topics, round, now())?;
        rounds.serves(&mut clients, &format!("round {round}, with more"), tally);
        clients.delete(&mut rounds.topics, &data, round)?;
        relay.point_at(0);
        broker.kill()?;
        rounds.go_on(&data, round, tally)?;
    }
    let broker = start(ROUNDS + 1)?;
    rounds.serves(&mut clients, "at the end", tally);
    broker.stop()?;
    for topic in &rounds.topics {
        tally.check(&format!("the judge of {} can say no", topic.name), topic.model.is_a_judge());
    }
    println!("oracle: {} records compared by value in {ROUNDS} rounds", rounds.compared);
    Ok(())
}

fn now() -> i64 {
    SystemClock::default().now().get()
}

/// The topics and how much was compared.
struct Rounds {
    topics: Vec<Topic>,
    compared: usize,
}

impl Rounds {
    /// Puts directories of ours in the place of the empty ones that Kafka made.
    fn write_first(&mut self, data: &Path, tally: &mut Tally) -> Result<()> {
        let mut ids = Vec::new();
        for topic in &self.topics {
            let dir = data.join(format!("{}-0", topic.name));
            let metadata = PartitionMetadata::read(&Io::default(), &dir)?;
            ids.push(metadata.context("Kafka gives each topic an id")?.topic_id);
            fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        let (manager, report) = self.open(data)?;
        tally.check("Kafka's clean stop is one for us", was_clean(&report, true));
        for (topic, id) in self.topics.iter_mut().zip(ids) {
            appends::create(&manager, topic, id)
                .with_context(|| format!("cannot write {}", topic.name))?;
            if topic.name == topics::LOG_START {
                let log = ours::log(&manager, &topic.name)?;
                let middle = topic.model.end() / 3;
                appends::delete_before(&log, middle)?;
                topic.model.delete_before(middle);
            }
        }
        self.reads(&manager, "before round 1", tally)?;
        ours::stop(&manager)
    }

    /// Our turn after a kill: recover, read all, append, read all, stop or crash.
    fn go_on(&mut self, data: &Path, round: i64, tally: &mut Tally) -> Result<()> {
        for topic in self.topics.iter().filter(|topic| TORN.contains(&&*topic.name)) {
            appends::tear(data, topic)?;
        }
        let (manager, report) = self.open(data)?;
        let what = format!("round {round}: a killed broker leaves no marker");
        tally.check(&what, was_clean(&report, false));
        self.reads(&manager, &format!("round {round}, recovered"), tally)?;
        for topic in &mut self.topics {
            let log = ours::log(&manager, &topic.name)?;
            let batches = topic.later(round, now());
            appends::append(&log, topic, &batches)
                .with_context(|| format!("cannot append to {}", topic.name))?;
            if topic.name == topics::LOG_START {
                let middle = topic.model.end() - 11;
                appends::delete_before(&log, middle)?;
                topic.model.delete_before(middle);
            }
        }
        self.reads(&manager, &format!("round {round}, with ours"), tally)?;
        if round == 2 {
            // As a crash of ours: the broker has to recover what we wrote.
            manager.write_checkpoints();
            return Ok(());
        }
        ours::stop(&manager)
    }

    fn open(&self, data: &Path) -> Result<(LogManager, StartReport)> {
        let topics = self.topics.iter().map(|topic| (&*topic.name, &*topic.settings));
        ours::open(data, topics, None)
    }

    /// What our logs hold, in both isolation levels.
    fn reads(&mut self, manager: &LogManager, when: &str, tally: &mut Tally) -> Result<()> {
        for topic in &self.topics {
            let log = ours::log(manager, &topic.name)?;
            for (isolation, name) in ISOLATIONS {
                let same = ours::view(&log, isolation)
                    .and_then(|view| topic.model.compare(isolation, &view));
                let what = format!("{when}: we read {} {name}", topic.name);
                self.compared += same.as_ref().copied().unwrap_or(0);
                tally.check(&what, same.map(drop));
            }
        }
        Ok(())
    }

    /// What the broker gives a consumer, in both isolation levels.
    fn serves(&mut self, clients: &mut Clients, when: &str, tally: &mut Tally) {
        for topic in &self.topics {
            for (isolation, name) in ISOLATIONS {
                let end = topic.model.expected(isolation).end;
                let view = clients.read(&topic.name, name, end);
                let same = view.and_then(|view| topic.model.compare(isolation, &view));
                let what = format!("{when}: a consumer reads {} {name}", topic.name);
                self.compared += same.as_ref().copied().unwrap_or(0);
                tally.check(&what, same.map(drop));
            }
        }
    }
}

fn was_clean(report: &StartReport, expected: bool) -> Result<()> {
    let found: Vec<bool> = report.dirs.iter().map(|dir| dir.was_clean).collect();
    ensure!(found == [expected], "clean: {found:?}");
    Ok(())
}
