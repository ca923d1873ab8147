//! Two cleaners in turns on one directory, ours and a real broker's, with appends between. Whoever
//! replays a topic gets the last value of every key each time, and no key twice where a cleaner
//! says that it has been.

mod history;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use alluvium_cleaner::{CleanerGate, LogCleaner, LogCleanerConfig, Outcome};
use alluvium_log_manager::{Isolation, LogManager};
use alluvium_record_format::Offset;
use alluvium_recovery::{CheckpointKind, OffsetCheckpoint, TopicPartition};
use alluvium_segment::Io;
use anyhow::{Context, Result, bail, ensure};

use self::history::History;
use super::ours;
use crate::kafka::{Broker, Client, Kafka, Relay};
use crate::tally::Tally;
use crate::workspace;

/// Three of each side.
const TURNS: i64 = 6;

/// How long a cleaner in the background may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs all turns.
///
/// # Errors
///
/// When the broker, a client or a cleaner cannot go on.
pub(super) fn check(kafka: &Kafka, work: &Path, tally: &mut Tally) -> Result<()> {
    workspace::empty_dir(work)?;
    let data = work.join("data");
    let relay = Relay::start()?;
    let mut client = Client::start(kafka, &relay.address())?;
    let mut topics = history::all();
    for turn in 1..=TURNS + 1 {
        if turn % 2 == 0 {
            our_turn(&data, turn, &mut topics, tally)?;
            continue;
        }
        let log = work.join(format!("broker-{turn}.log"));
        let listeners = format!("advertised.listeners=PLAINTEXT://{}", relay.address());
        let broker = Broker::start(kafka, &data, &log, &listeners)?;
        relay.point_at(broker.port());
        if turn == 1 {
            for topic in &topics {
                topic.create(&mut client)?;
            }
        } else {
            replay(&mut client, &data, &topics, &format!("turn {turn}, before it"), tally);
        }
        if turn <= TURNS {
            their_turn(&mut client, &data, turn, &mut topics)?;
            replay(&mut client, &data, &topics, &format!("turn {turn}, Kafka's"), tally);
        }
        relay.point_at(0);
        // A cleaner is killed as well.
        if turn == 3 { broker.kill()? } else { broker.stop()? }
    }
    for topic in &topics {
        tally.check(&format!("the judge of {} can say no", topic.name), topic.is_a_judge());
    }
    Ok(())
}

/// More records through real clients, then Kafka's cleaner.
fn their_turn(client: &mut Client, data: &Path, turn: i64, topics: &mut [History]) -> Result<()> {
    for topic in &mut *topics {
        topic.send(client, turn).with_context(|| format!("cannot send to {}", topic.name))?;
    }
    let start = Instant::now();
    while topics.iter().any(|topic| cleaned_to(data, topic) <= topic.turn_began) {
        ensure!(start.elapsed() < PATIENCE, "Kafka's cleaner does not come by");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// More records by ourselves, then our cleaner.
fn our_turn(data: &Path, turn: i64, topics: &mut [History], tally: &mut Tally) -> Result<()> {
    let gate = CleanerGate::new();
    let settings = topics.iter().map(|topic| (topic.name, topic.settings));
    let (manager, _report) = ours::open(data, settings, Some(gate.clone()))?;
    read(&manager, data, topics, &format!("turn {turn}, before it"), tally);
    for topic in &mut *topics {
        let log = ours::log(&manager, topic.name)?;
        topic.append(&log, turn).with_context(|| format!("cannot append to {}", topic.name))?;
    }
    let cleaner = LogCleaner::new(manager.clone(), gate, LogCleanerConfig::new());
    clean_all(&cleaner)?;
    drop(cleaner);
    for topic in &*topics {
        let what = format!("turn {turn}: our cleaner has been over {}", topic.name);
        let moved = cleaned_to(data, topic) > topic.turn_began;
        let report = || if moved { Ok(()) } else { bail!("its checkpoint has not moved") };
        tally.check(&what, report());
    }
    read(&manager, data, topics, &format!("turn {turn}, ours"), tally);
    ours::stop(&manager)
}

fn clean_all(cleaner: &LogCleaner) -> Result<()> {
    // Far more than there are logs: it must come to an end.
    for _ in 0..100 {
        let round = cleaner.tick();
        if round.is_idle() {
            return Ok(());
        }
        let Outcome::Cleaned(_) = round.outcome else { bail!("{:?}", round.outcome) };
    }
    bail!("our cleaner finds no end")
}

/// What our logs hold.
fn read(manager: &LogManager, data: &Path, topics: &[History], when: &str, tally: &mut Tally) {
    for topic in topics {
        let seen = ours::log(manager, topic.name)
            .and_then(|log| ours::view(&log, Isolation::TxnCommitted));
        let same = seen.and_then(|view| topic.compare(&view, cleaned_to(data, topic)));
        tally.check(&format!("{when}: we replay {}", topic.name), same);
    }
}

/// What a consumer gets from the broker.
fn replay(client: &mut Client, data: &Path, topics: &[History], when: &str, tally: &mut Tally) {
    for topic in topics {
        // Before the records are read: the cleaner may go on meanwhile.
        let cleaned = cleaned_to(data, topic);
        let seen = client.read(topic.name, "read_committed", topic.end);
        let view = seen.map(|(begin, end, records)| ours::View { begin, end, records });
        let same = view.and_then(|view| topic.compare(&view, cleaned));
        tally.check(&format!("{when}: a consumer replays {}", topic.name), same);
    }
}

/// The offset below which a cleaner has been, 0 where none was.
fn cleaned_to(data: &Path, topic: &History) -> i64 {
    let offsets = OffsetCheckpoint::read(&Io::default(), CheckpointKind::Cleaner, data);
    let partition = TopicPartition::new(topic.name, 0);
    // A file that is being replaced is there before and after: an error has no other cause than
    // that it has not been written yet.
    offsets.ok().and_then(|offsets| offsets.offset(&partition)).map_or(0, Offset::get)
}
