//! Every codec written by each client, and read by each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use alluvium_record_format::{BatchHeader, Position};
use anyhow::{Context, Result, ensure};

use super::broker::Server;
use super::install::{Installed, LISTED, Listed};
use crate::tally::Tally;
use crate::workspace;

/// Records in each topic: enough for a batch to be worth compressing.
const COUNT: usize = 100;

/// How many cases there are where every client is here.
pub(super) fn listed() -> usize {
    let reads = |writer: &Listed| {
        let readers = |codec: &&&str| LISTED.iter().filter(|it| it.codecs.contains(codec)).count();
        // One more for each codec: that the writer has really used it.
        writer.codecs.iter().map(|codec| readers(&codec) + 1).sum::<usize>()
    };
    LISTED.iter().map(reads).sum()
}

/// Writes with each client, then reads all with each.
pub(super) fn run(clients: &[Installed], server: &Server, data: &Path, tally: &mut Tally) {
    for writer in clients {
        let wrote = write(writer, server);
        for &codec in writer.listed.codecs {
            let name = format!("{} writes {codec}", writer.listed.name);
            let checked = match &wrote {
                Ok(()) => check_codec(&data.join(format!("{}-0", topic(writer, codec))), codec),
                Err(error) => Err(anyhow::anyhow!("{error:#}")),
            };
            tally.check(&name, checked);
        }
    }
    for reader in clients {
        let topics: Vec<_> = clients
            .iter()
            .flat_map(|writer| writer.listed.codecs.iter().map(move |&codec| (writer, codec)))
            .filter(|(_, codec)| reader.listed.codecs.contains(codec))
            .collect();
        let names: Vec<_> = topics.iter().map(|(writer, codec)| topic(writer, codec)).collect();
        let found = read(reader, server, &names);
        for ((writer, codec), name) in topics.iter().zip(&names) {
            let case = format!("{} reads {codec} of {}", reader.listed.name, writer.listed.name);
            let checked = match &found {
                Ok(found) => check_records(found.get(name).map_or(&[][..], Vec::as_slice)),
                Err(error) => Err(anyhow::anyhow!("{error:#}")),
            };
            tally.check(&case, checked);
        }
    }
}

fn topic(writer: &Installed, codec: &str) -> String {
    format!("by-{}-{codec}", writer.listed.name)
}

fn write(writer: &Installed, server: &Server) -> Result<()> {
    let bootstrap = server.bootstrap();
    let count = COUNT.to_string();
    if !writer.is_kcat() {
        let mut args = vec![bootstrap, "write".to_owned(), count];
        for codec in writer.listed.codecs {
            args.extend([topic(writer, codec), (*codec).to_owned()]);
        }
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        return workspace::output(&mut writer.command(&args)).map(drop);
    }
    let mut lines = String::new();
    for i in 0..COUNT {
        writeln!(lines, "k{i}:v{i}-{}", "x".repeat(50))?;
    }
    for codec in writer.listed.codecs {
        let topic = topic(writer, codec);
        let args = ["-b", &bootstrap, "-P", "-t", &topic, "-p", "0", "-K:", "-z", codec];
        let mut child = writer.command(&args).stdin(Stdio::piped()).spawn()?;
        child.stdin.take().context("no pipe")?.write_all(lines.as_bytes())?;
        ensure!(child.wait()?.success(), "kcat -z {codec} failed");
    }
    Ok(())
}

/// Offset, key and value of each record.
type Records = Vec<(String, String, String)>;

fn read(
    reader: &Installed,
    server: &Server,
    topics: &[String],
) -> Result<BTreeMap<String, Records>> {
    let bootstrap = server.bootstrap();
    let mut out = Vec::new();
    if reader.is_kcat() {
        for topic in topics {
            let format = "%t\t%o\t%k\t%s\n";
            let args = [
                "-b",
                &bootstrap,
                "-C",
                "-t",
                topic,
                "-p",
                "0",
                "-o",
                "beginning",
                "-e",
                "-q",
                "-f",
                format,
            ];
            out.extend(workspace::output(&mut reader.command(&args))?);
        }
    } else {
        let count = COUNT.to_string();
        let mut args = vec![bootstrap.as_str(), "read", &count];
        args.extend(topics.iter().map(String::as_str));
        out = workspace::output(&mut reader.command(&args))?;
    }
    let mut found: BTreeMap<String, Records> = BTreeMap::new();
    for line in String::from_utf8_lossy(&out).lines() {
        if let [topic, offset, key, value] = line.split('\t').collect::<Vec<_>>()[..] {
            let record = (offset.to_owned(), key.to_owned(), value.to_owned());
            found.entry(topic.to_owned()).or_default().push(record);
        }
    }
    Ok(found)
}

fn check_records(found: &[(String, String, String)]) -> Result<()> {
    ensure!(found.len() == COUNT, "{} records of {COUNT}", found.len());
    for (i, (offset, key, value)) in found.iter().enumerate() {
        let (expected, start) = (i.to_string(), format!("v{i}-xxx"));
        ensure!(*offset == expected && *key == format!("k{i}"), "record {i}: {offset} {key}");
        ensure!(value.starts_with(&start) && value.len() == start.len() + 47, "value {value}");
    }
    Ok(())
}

/// Whether the log holds a batch in this codec: some clients fall back to none in silence.
fn check_codec(partition: &Path, codec: &str) -> Result<()> {
    let log = partition.join("00000000000000000000.log");
    let bytes = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let header = BatchHeader::parse(rest, Position::new(0))?;
        if header.attributes().codec().is_some_and(|found| found.name() == codec) {
            return Ok(());
        }
        rest = rest.get(usize::try_from(header.size_bytes())?..).unwrap_or_default();
    }
    anyhow::bail!("no batch is in {codec}")
}
