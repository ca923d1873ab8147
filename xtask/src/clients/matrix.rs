//! Every codec written by each client, and read by each.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use alluvium_record_format::{BatchHeader, Position};
use anyhow::{Context, Result, ensure};

use super::broker::Server;
use super::install::{CODECS, Installed, LISTED};
use crate::tally::Tally;
use crate::workspace;

/// Records in each topic: enough for a batch to be worth compressing.
const COUNT: usize = 100;

/// How many cases there are where every client is here.
pub(super) const fn listed() -> usize {
    // One more for each writer: that it has really used the codec.
    LISTED.len() * CODECS.len() * (LISTED.len() + 1)
}

/// Writes with each client, then reads all with each; prints how many codecs came through.
pub(super) fn run(clients: &[Installed], server: &Server, data: &Path, tally: &mut Tally) {
    for writer in clients {
        let wrote = write(writer, server);
        for codec in CODECS {
            let name = format!("{} writes {codec}", writer.listed.name);
            let checked = match &wrote {
                Ok(()) => check_codec(&data.join(format!("{}-0", topic(writer, codec))), codec),
                Err(error) => Err(anyhow::anyhow!("{error:#}")),
            };
            tally.check(&name, checked);
        }
    }
    let across: Vec<_> = clients.iter().map(|client| client.listed.name.to_owned()).collect();
    let mut lines = vec![line("", &across)];
    for reader in clients {
        lines.push(line(reader.listed.name, &read_all(reader, clients, server, tally)));
    }
    println!("codecs read by (down) of what was written by (across):\n{}", lines.join("\n"));
}

fn line(name: &str, cells: &[String]) -> String {
    let cells = cells.iter().map(|cell| format!(" {cell:>13}"));
    format!("{name:<14}{}", cells.collect::<String>())
}

/// Reads what all have written; returns how many codecs of each it could read.
fn read_all(
    reader: &Installed,
    writers: &[Installed],
    server: &Server,
    tally: &mut Tally,
) -> Vec<String> {
    let of = |writer| CODECS.map(|codec| topic(writer, codec));
    let found = read(reader, server, &writers.iter().flat_map(of).collect::<Vec<_>>());
    let mut cells = Vec::new();
    for writer in writers {
        let before = tally.passed();
        for codec in CODECS {
            let case = format!("{} reads {codec} of {}", reader.listed.name, writer.listed.name);
            let checked = match &found {
                Ok(found) => {
                    let found = found.get(&topic(writer, codec));
                    check_records(found.map_or(&[][..], Vec::as_slice))
                }
                Err(error) => Err(anyhow::anyhow!("{error:#}")),
            };
            tally.check(&case, checked);
        }
        cells.push(format!("{}/{}", tally.passed() - before, CODECS.len()));
    }
    cells
}

fn topic(writer: &Installed, codec: &str) -> String {
    format!("by-{}-{codec}", writer.listed.name)
}

fn write(writer: &Installed, server: &Server) -> Result<()> {
    let mut args = vec![server.bootstrap(), "write".to_owned(), COUNT.to_string()];
    for codec in CODECS {
        args.extend([topic(writer, codec), codec.to_owned()]);
    }
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    workspace::output(&mut writer.command(&args)).map(drop)
}

/// Offset, key and value of each record.
type Records = Vec<(String, String, String)>;

fn read(
    reader: &Installed,
    server: &Server,
    topics: &[String],
) -> Result<BTreeMap<String, Records>> {
    let (bootstrap, count) = (server.bootstrap(), COUNT.to_string());
    let mut args = vec![bootstrap.as_str(), "read", &count];
    args.extend(topics.iter().map(String::as_str));
    let out = workspace::output(&mut reader.command(&args))?;
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
