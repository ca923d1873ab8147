//! One directory under two brokers in turns, Kafka's and ours (`examples/broker`): each serves what
//! the other took, and takes more. Two of the turns end by SIGKILL.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use alluvium_record_format::Codec;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::plan::PlannedRecord;
use super::scenarios;
use crate::kafka::{Broker, Client, Kafka, Seen, free_port};
use crate::tally::{Tally, same_text};
use crate::workspace;

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// Records that each topic gets in a turn.
const RECORDS: usize = 40;

/// How long our broker may take to start or to stop.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs five turns, the first and the last Kafka's.
///
/// # Errors
///
/// When a broker or a client cannot go on.
pub(super) fn check(kafka: &Kafka, work: &Path, tally: &mut Tally) -> Result<()> {
    workspace::empty_dir(work)?;
    let data = work.join("data");
    let mut build = workspace::cargo();
    workspace::run(build.args(["build", "--quiet", "-p", "alluvium-broker"]))?;
    let mut topics = CODECS.map(|codec| Topic { codec, records: Vec::new() });
    for turn in 1..=5 {
        let log = work.join(format!("broker-{turn}.log"));
        let is_killed = matches!(turn, 3 | 4);
        if turn % 2 == 1 {
            let broker = Broker::start(kafka, &data, &log, "")?;
            serve(kafka, &broker.bootstrap(), turn, &mut topics, tally)?;
            if is_killed { broker.kill()? } else { broker.stop()? }
        } else {
            let broker = Ours::start(&data, &log)?;
            serve(kafka, &broker.address, turn, &mut topics, tally)?;
            if is_killed { broker.kill()? } else { broker.stop()? }
        }
    }
    Ok(())
}

/// Reads what is there, sends more, reads all.
fn serve(
    kafka: &Kafka,
    address: &str,
    turn: i64,
    topics: &mut [Topic],
    tally: &mut Tally,
) -> Result<()> {
    let mut client = Client::start(kafka, address)?;
    for topic in topics {
        let name = topic.name();
        if turn == 1 {
            let settings = ["internal.segment.bytes=6000", "index.interval.bytes=300"];
            client.run(&[&["create", &*name], &settings[..]].concat())?;
        } else {
            topic.read(&mut client, &format!("turn {turn}, as the other left it"), tally);
        }
        let codec = format!("compression.type={}", topic.codec.name());
        client.run(&["open", &name, &codec, "linger.ms=5"])?;
        topic.send(&mut client, turn)?;
        client.run(&["close", &name])?;
        topic.read(&mut client, &format!("turn {turn}, with more"), tally);
    }
    Ok(())
}

/// A topic and every record that was acknowledged.
struct Topic {
    codec: Codec,
    records: Vec<Seen>,
}

impl Topic {
    fn name(&self) -> String {
        format!("topic-{}", self.codec.name())
    }

    fn send(&mut self, client: &mut Client, turn: i64) -> Result<()> {
        let name = self.name();
        let planned = scenarios::records(turn * 17, RECORDS);
        let to_send: Vec<Seen> = planned.iter().map(|record| record.seen(0, None)).collect();
        let sent = client.send(&name, &name, &to_send)?;
        for (record, (offset, _time)) in planned.iter().zip(sent) {
            let expected = self.end();
            ensure!(offset == expected, "{name}: sent to {offset}, not to {expected}");
            self.records.push(PlannedRecord::seen(record, offset, None));
        }
        Ok(())
    }

    fn end(&self) -> i64 {
        self.records.last().map_or(0, |last| last.offset + 1)
    }

    fn read(&self, client: &mut Client, when: &str, tally: &mut Tally) {
        for isolation in ["read_uncommitted", "read_committed"] {
            let seen = client.read(&self.name(), isolation, self.end());
            let same = seen.and_then(|(begin, end, records)| {
                ensure!((begin, end) == (0, self.end()), "offsets {begin}..{end}");
                let text = |records: &[Seen]| format!("{records:#?}");
                same_text(text(&records).as_bytes(), text(&self.records).as_bytes())
            });
            tally.check(&format!("{when}: {} {isolation}", self.name()), same);
        }
    }
}

/// Our example broker; killed when dropped.
struct Ours {
    child: Child,
    address: String,
}

impl Ours {
    fn start(data: &Path, log: &Path) -> Result<Self> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let mut command = workspace::command(workspace::target().join("debug/alluvium-broker"));
        command.arg("--data").arg(data).args(["--listen", &address]);
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let errors = file.try_clone().context("cannot share the broker's log")?;
        let child = command.stdout(Stdio::from(file)).stderr(Stdio::from(errors)).spawn();
        let mut broker = Self { child: child.context("cannot start our broker")?, address };
        let start = Instant::now();
        while !fs::read_to_string(log).unwrap_or_default().contains("ready") {
            let ended = broker.child.try_wait().context("cannot wait for our broker")?;
            if let Some(status) = ended {
                bail!("our broker ended ({status}): {}", log.display());
            }
            ensure!(start.elapsed() < PATIENCE, "our broker does not start: {}", log.display());
            thread::sleep(Duration::from_millis(20));
        }
        Ok(broker)
    }

    fn stop(mut self) -> Result<()> {
        let id = i32::try_from(self.child.id()).context("a process id is an i32")?;
        let pid = Pid::from_raw(id).context("a process id is not 0")?;
        kill_process(pid, Signal::TERM).context("cannot stop our broker")?;
        let start = Instant::now();
        while self.child.try_wait().context("cannot wait for our broker")?.is_none() {
            ensure!(start.elapsed() < PATIENCE, "our broker does not stop");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn kill(mut self) -> Result<()> {
        self.child.kill().context("cannot kill our broker")?;
        self.child.wait().context("cannot wait for our broker")?;
        Ok(())
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        // It may have ended already: then there is nothing to do.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
