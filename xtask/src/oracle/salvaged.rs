//! What `alluvium salvage` makes of damaged topics, served by a real broker: every record but those
//! of the damaged batches, by value, in both isolation levels.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use alluvium_record_format::{Codec, Entries, Entry, Position};
use anyhow::{Context, Result, ensure};

use super::scenarios;
use crate::conformance::Alluvium;
use crate::kafka::{Broker, Client, Kafka, Seen};
use crate::tally::{Tally, same_text};
use crate::workspace;

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// Transactions of each topic: one in three is aborted.
const TRANSACTIONS: i64 = 12;

/// Has a broker take transactions, damages them, and has another serve what was salvaged.
///
/// # Errors
///
/// When a broker, a client or the tool cannot go on.
pub(super) fn check(kafka: &Kafka, work: &Path, tally: &mut Tally) -> Result<()> {
    workspace::empty_dir(work)?;
    let alluvium = Alluvium::build()?;
    let data = work.join("data");
    let broker = Broker::start(kafka, &data, &work.join("broker-1.log"), "")?;
    let mut client = Client::start(kafka, &broker.bootstrap())?;
    let topics = CODECS.map(|codec| Topic::write(&mut client, codec));
    drop(client);
    broker.stop()?;
    let mut topics = topics.into_iter().collect::<Result<Vec<Topic>>>()?;
    for topic in &mut topics {
        topic.damage(&data)?;
        let salvaged = topic.salvage(&alluvium, &data, work);
        tally.check(&format!("{} is salvaged", topic.name), salvaged);
    }
    let broker = Broker::start(kafka, &data, &work.join("broker-2.log"), "")?;
    let mut client = Client::start(kafka, &broker.bootstrap())?;
    for topic in &topics {
        topic.read(&mut client, tally);
        tally.check(&format!("{} takes more", topic.name), topic.more(&mut client));
    }
    broker.stop()
}

/// A topic and every record that was acknowledged.
struct Topic {
    name: String,
    /// Each with whether its transaction was aborted.
    records: Vec<(Seen, bool)>,
    end: i64,
    /// The offsets of the batches that were damaged.
    lost: Vec<RangeInclusive<i64>>,
}

impl Topic {
    fn write(client: &mut Client, codec: Codec) -> Result<Self> {
        let name = format!("salvaged-{}", codec.name());
        let mut topic = Self { name, records: Vec::new(), end: 0, lost: Vec::new() };
        let name = &*topic.name;
        let bytes = if codec == Codec::None { 6000 } else { 2000 };
        let segment = format!("internal.segment.bytes={bytes}");
        let settings = [&*segment, "index.interval.bytes=300"];
        client.run(&[&["create", name], &settings[..]].concat())?;
        let (id, codec) =
            (format!("transactional.id={name}"), format!("compression.type={}", codec.name()));
        client.run(&["open", name, &id, &codec, "linger.ms=5"])?;
        for number in 0..TRANSACTIONS {
            let is_aborted = number % 3 == 2;
            client.run(&["begin", name])?;
            let planned = scenarios::records(number * 17, 20);
            let to_send: Vec<Seen> = planned.iter().map(|record| record.seen(0, None)).collect();
            let sent = client.send(name, name, &to_send)?;
            for (record, (offset, _time)) in planned.iter().zip(sent) {
                topic.records.push((record.seen(offset, None), is_aborted));
                topic.end = offset + 1;
            }
            client.run(&["end", name, if is_aborted { "abort" } else { "commit" }])?;
            // The marker.
            topic.end += 1;
        }
        client.run(&["close", name])?;
        Ok(topic)
    }

    fn dir(&self, data: &Path) -> PathBuf {
        data.join(format!("{}-0", self.name))
    }

    /// Flips a bit of a record in the middle of the first segment and in that of a later one.
    fn damage(&mut self, data: &Path) -> Result<()> {
        let mut logs = workspace::entries(&self.dir(data))?;
        logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        ensure!(logs.len() > 2, "{} has {} segments", self.name, logs.len());
        for path in [&logs[0], &logs[logs.len() / 2]] {
            let mut bytes = fs::read(path).context("cannot read a log")?;
            let (at, offsets) = middle(&bytes).context("a segment has no records")?;
            bytes[at] ^= 4;
            fs::write(path, bytes).context("cannot write a log")?;
            self.lost.push(offsets);
        }
        Ok(())
    }

    /// Puts what is salvaged in the place of the damaged partition.
    fn salvage(&self, alluvium: &Alluvium, data: &Path, work: &Path) -> Result<()> {
        let (dir, out) = (self.dir(data), work.join("rescue").join(format!("{}-0", self.name)));
        let args = ["salvage".as_ref(), dir.as_os_str(), out.as_os_str()];
        let run = alluvium.output(work, &args)?;
        let said = String::from_utf8_lossy(&run.stdout);
        ensure!(run.status.code() == Some(1), "{}, {said}", run.status);
        fs::remove_dir_all(&dir).context("cannot remove the damaged partition")?;
        workspace::run(workspace::command("mv").arg(&out).arg(&dir))
    }

    /// What a consumer must see.
    fn expected(&self, isolation: &str) -> Vec<&Seen> {
        let is_kept = |offset| !self.lost.iter().any(|lost| lost.contains(&offset));
        let is_seen = |aborted: bool| isolation == "read_uncommitted" || !aborted;
        let records = self.records.iter();
        let seen = records.filter(|(seen, aborted)| is_kept(seen.offset) && is_seen(*aborted));
        seen.map(|(seen, _)| seen).collect()
    }

    fn read(&self, client: &mut Client, tally: &mut Tally) {
        for isolation in ["read_uncommitted", "read_committed"] {
            let seen = client.read(&self.name, isolation, self.end);
            let same = seen.and_then(|(begin, end, records)| {
                // Where the first batch is lost, the log begins behind it.
                let first = self.lost.iter().find(|lost| lost.contains(&0));
                let first = first.map_or(0, |lost| lost.end() + 1);
                ensure!((begin, end) == (first, self.end), "offsets {begin}..{end}");
                let expected = self.expected(isolation);
                ensure!(expected.len() < self.records.len(), "nothing was lost");
                let (ours, theirs) = (format!("{expected:#?}"), format!("{records:#?}"));
                same_text(theirs.as_bytes(), ours.as_bytes())
            });
            tally.check(&format!("a consumer reads {} {isolation}", self.name), same);
        }
    }

    /// The broker goes on at the end of what was there.
    fn more(&self, client: &mut Client) -> Result<()> {
        let name = format!("{}-more", self.name);
        client.run(&["open", &name])?;
        let record = scenarios::records(3, 1)[0].seen(0, None);
        let sent = client.send(&name, &self.name, &[record])?;
        let offsets: Vec<i64> = sent.iter().map(|(offset, _)| *offset).collect();
        ensure!(offsets == [self.end], "sent to {offsets:?}, not to {}", self.end);
        Ok(())
    }
}

/// The last byte of the middle batch with records, and its offsets.
fn middle(log: &[u8]) -> Option<(usize, RangeInclusive<i64>)> {
    let mut batches = Vec::new();
    let mut at = 0;
    for entry in Entries::new(log, Position::new(0)) {
        let Ok(Entry::Batch(batch)) = entry else { break };
        let header = batch.header();
        at += usize::try_from(header.size_bytes()).ok()?;
        if !header.attributes().is_control() {
            let offsets = header.base_offset().get()..=header.last_offset().get();
            batches.push((at - 1, offsets));
        }
    }
    let middle = batches.len() / 2;
    batches.into_iter().nth(middle)
}
