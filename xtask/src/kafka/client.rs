//! Real clients in one JVM, which live on while the broker is killed and started again.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;

use super::Kafka;

/// A record as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) offset: i64,
    pub(crate) append_time: bool,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// A JVM with clients of one broker: `xtask/java/src/harness/Client.java`.
#[derive(Debug)]
pub(crate) struct Client {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Client {
    /// Starts the JVM; nothing is connected yet.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub(crate) fn start(kafka: &Kafka, bootstrap: &str) -> Result<Self> {
        let options = ["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"];
        let mut java = kafka.java_with(&options, "harness.Client");
        java.arg(bootstrap).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = java.spawn().context("cannot start the clients")?;
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Self { child, commands, answers })
    }

    /// Has the clients do one thing; the harness says what there is, and what the answer holds.
    ///
    /// # Errors
    ///
    /// When they cannot, with the text of Kafka's exception.
    pub(crate) fn run(&mut self, words: &[&str]) -> Result<Vec<String>> {
        let what = || words.iter().take(3).copied().collect::<Vec<_>>().join(" ");
        let line = format!("{}\n", words.join("\t"));
        let commands = self.commands.as_mut().context("stdin is piped")?;
        commands.write_all(line.as_bytes()).context("the clients are gone")?;
        let first = self.answer()?;
        let Some(count) = first.strip_prefix("ok ") else { bail!("`{}`: {first}", what()) };
        let count: usize = count.parse().context("the clients count their lines")?;
        (0..count).map(|_| self.answer()).collect()
    }

    /// Sends records, all at once, and returns the offset and the time of each.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(crate) fn send(
        &mut self,
        producer: &str,
        topic: &str,
        records: &[Seen],
    ) -> Result<Vec<(i64, i64)>> {
        let texts: Vec<String> = records.iter().map(text).collect();
        let mut words = vec!["send", producer, topic];
        words.extend(texts.iter().map(String::as_str));
        let answers = self.run(&words)?;
        ensure!(answers.len() == records.len(), "not every record is acknowledged");
        answers.iter().map(|line| pair(line)).collect()
    }

    /// Reads a topic from its beginning: the first offset, the end, and all records between.
    /// Waits a little where the log does not end at `end` yet.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(crate) fn read(
        &mut self,
        topic: &str,
        isolation: &str,
        end: i64,
    ) -> Result<(i64, i64, Vec<Seen>)> {
        let answers = self.run(&["read", topic, isolation, &end.to_string()])?;
        let (head, lines) = answers.split_first().context("the range comes first")?;
        let (begin, end) = pair(head)?;
        let records = lines.iter().map(|line| parse(line)).collect::<Result<Vec<Seen>>>()?;
        Ok((begin, end, records))
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        let bytes = self.answers.read_line(&mut line).context("the clients are gone")?;
        ensure!(bytes > 0, "the clients have ended");
        Ok(line.trim_end_matches('\n').to_owned())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The end of its stdin ends it.
        drop(self.commands.take());
        let _status = self.child.wait();
    }
}

fn pair(line: &str) -> Result<(i64, i64)> {
    let (left, right) = line.split_once('\t').context("two numbers")?;
    Ok((left.parse()?, right.parse()?))
}

fn text(record: &Seen) -> String {
    let bytes = |it: &Option<Vec<u8>>| it.as_ref().map_or("*".to_owned(), |it| BASE64.encode(it));
    let mut parts = vec![record.timestamp.to_string(), bytes(&record.key), bytes(&record.value)];
    for (name, value) in &record.headers {
        parts.extend([BASE64.encode(name), bytes(value)]);
    }
    parts.join(",")
}

fn parse(line: &str) -> Result<Seen> {
    let mut words = line.split('\t');
    let mut word = || words.next().with_context(|| format!("`{line}` is no record"));
    let (offset, kind, record) = (word()?.parse()?, word()?, word()?);
    let bytes = |text: &str| match text {
        "*" => Ok(None),
        text => BASE64.decode(text).map(Some),
    };
    let parts: Vec<&str> = record.split(',').collect();
    let [time, key, value, headers @ ..] = &*parts else { bail!("`{line}` is no record") };
    let header = |pair: &[&str]| {
        Ok((bytes(pair[0])?.unwrap_or_default(), bytes(pair.get(1).copied().unwrap_or("*"))?))
    };
    Ok(Seen {
        offset,
        append_time: kind == "LogAppendTime",
        timestamp: time.parse()?,
        key: bytes(key)?,
        value: bytes(value)?,
        headers: headers.chunks(2).map(header).collect::<Result<_>>()?,
    })
}
