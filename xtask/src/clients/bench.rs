//! `clients --bench`: the example broker beside a real Kafka, with the same clients.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::broker::{self, Server};
use crate::kafka::{Broker, Kafka};
use crate::workspace;

/// Rounds of ours and Kafka's in turns; the median counts.
const ROUNDS: usize = 3;
const SMALL_COUNT: u64 = 2_000_000;
const LARGE_COUNT: u64 = 400_000;
const IDLE_CONNECTIONS: usize = 2000;

/// What a round measured.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    start_ms: f64,
    small_mib_s: f64,
    large_mib_s: f64,
    consumer_mib_s: f64,
    cpu_s_per_gib: f64,
    resident_mib: f64,
    half_load_p99_ms: f64,
    idle_kib: f64,
}

/// A figure, what it is called, and the bar for ours over Kafka's.
type Row = (&'static str, fn(&Figures) -> f64, Bar);

#[derive(Clone, Copy, Debug)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
    /// Ours alone.
    OursAtMost(f64),
}

const ROWS: [Row; 8] = [
    ("producer, 100-byte records, MiB/s", |f| f.small_mib_s, Bar::AtLeast(1.3)),
    ("producer, 1-KiB records, MiB/s", |f| f.large_mib_s, Bar::AtLeast(1.3)),
    ("consumer (librdkafka), MiB/s", |f| f.consumer_mib_s, Bar::AtLeast(1.3)),
    ("CPU seconds of the broker per GiB", |f| f.cpu_s_per_gib, Bar::AtMost(1.0 / 3.0)),
    ("resident memory, MiB", |f| f.resident_mib, Bar::AtMost(1.0 / 8.0)),
    ("start to first answer, ms", |f| f.start_ms, Bar::AtMost(0.1)),
    ("p99 of produce at half load, ms", |f| f.half_load_p99_ms, Bar::AtMost(1.0)),
    ("an idle connection, KiB", |f| f.idle_kib, Bar::OursAtMost(64.0)),
];

/// Measures both in turns and prints a table.
///
/// # Errors
///
/// When a bar is missed, or a client or broker fails.
pub(super) fn run() -> Result<()> {
    let kafka = Kafka::ready()?;
    let binary = broker::build("release")?;
    let scratch = workspace::scratch().join("clients-bench");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let dir = scratch.join("ours");
        workspace::empty_dir(&dir)?;
        let began = Instant::now();
        let server = Server::start(&binary, &dir.join("data"), &dir.join("log"))?;
        first_answer(&server.bootstrap())?;
        let start_ms = began.elapsed().as_secs_f64() * 1e3;
        ours.push(measure(&kafka, &server.bootstrap(), server.pid(), start_ms)?);
        drop(server);

        let dir = scratch.join("theirs");
        workspace::empty_dir(&dir)?;
        let (server, start_ms) = start_theirs(&kafka, &dir)?;
        theirs.push(measure(&kafka, &server.bootstrap(), server.pid(), start_ms)?);
        drop(server);
        println!("round {} of {ROUNDS} done", round + 1);
    }
    report(&ours, &theirs)
}

fn start_theirs(kafka: &Kafka, dir: &Path) -> Result<(Broker, f64)> {
    let (data, log): (PathBuf, PathBuf) = (dir.join("data"), dir.join("log"));
    // The first start formats; the second one counts.
    Broker::start_as_shipped(kafka, &data, &log)?.stop()?;
    let began = Instant::now();
    let server = Broker::start_as_shipped(kafka, &data, &log)?;
    first_answer(&server.bootstrap())?;
    Ok((server, began.elapsed().as_secs_f64() * 1e3))
}

fn measure(kafka: &Kafka, bootstrap: &str, pid: u32, start_ms: f64) -> Result<Figures> {
    let before = cpu_seconds(pid)?;
    let small = produce(kafka, bootstrap, "small", SMALL_COUNT, 100, None)?;
    let large = produce(kafka, bootstrap, "large", LARGE_COUNT, 1024, None)?;
    let consumer_mib_s = consume(bootstrap, "large")?;
    let used = cpu_seconds(pid)? - before;
    let resident_mib = resident_kib(pid)? / 1024.0;
    let large_mib = mib(LARGE_COUNT * 1024);
    let gib = (mib(SMALL_COUNT * 100) + 2.0 * large_mib) / 1024.0;
    let half = produce(kafka, bootstrap, "half", HALF_LOAD_COUNT, 1024, Some(HALF_LOAD_PER_S))?;
    Ok(Figures {
        start_ms,
        small_mib_s: small.mib_s,
        large_mib_s: large.mib_s,
        consumer_mib_s,
        cpu_s_per_gib: used / gib,
        resident_mib,
        half_load_p99_ms: half.p99_ms,
        idle_kib: idle_connections(bootstrap, pid)?,
    })
}

/// The same for both: well below what either takes.
const HALF_LOAD_PER_S: f64 = 20_000.0;
const HALF_LOAD_COUNT: u64 = 100_000;

struct Produced {
    mib_s: f64,
    p99_ms: f64,
}

/// Kafka's own `ProducerPerformance`, acks=1.
fn produce(
    kafka: &Kafka,
    bootstrap: &str,
    topic: &str,
    count: u64,
    size: u64,
    per_second: Option<f64>,
) -> Result<Produced> {
    let mut java = kafka.java("org.apache.kafka.tools.ProducerPerformance");
    java.args(["--topic", topic, "--num-records", &count.to_string()]);
    java.args(["--record-size", &size.to_string()]);
    java.args(["--throughput", &per_second.map_or("-1".to_owned(), |rate| rate.to_string())]);
    let servers = format!("bootstrap.servers={bootstrap}");
    java.args(["--producer-props", &servers, "acks=1"]);
    let out = workspace::output(&mut java)?;
    let out = String::from_utf8_lossy(&out);
    // "N records sent, R records/sec (M MB/sec), ... A ms 50th, B ms 95th, C ms 99th, ..."
    let last = out.lines().rfind(|line| line.contains("99th")).context("no result line")?;
    let number_before = |unit: &str| -> Option<f64> {
        let (head, _) = last.split_once(unit)?;
        head.rsplit([' ', '(']).find(|word| !word.is_empty())?.parse().ok()
    };
    let mib_s = number_before(" MB/sec").context("no throughput")?;
    let p99_ms = number_before(" ms 99th").context("no p99")?;
    Ok(Produced { mib_s, p99_ms })
}

/// kcat, which is librdkafka, from the beginning to the end.
fn consume(bootstrap: &str, topic: &str) -> Result<f64> {
    let began = Instant::now();
    let mut kcat = Command::new("kcat");
    kcat.args(["-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-u"]);
    kcat.args(["-X", "check.crcs=false", "-f", ""]);
    workspace::output(&mut kcat)?;
    Ok(mib(LARGE_COUNT * 1024) / began.elapsed().as_secs_f64())
}

/// Asks for the versions until there is an answer.
fn first_answer(bootstrap: &str) -> Result<()> {
    let patience = Instant::now() + Duration::from_mins(1);
    while Instant::now() < patience {
        if TcpStream::connect(bootstrap).is_ok_and(|socket| ask_versions(socket).is_ok()) {
            return Ok(());
        }
    }
    bail!("no answer in a minute")
}

fn ask_versions(mut socket: TcpStream) -> Result<()> {
    socket.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff])?;
    socket.read_exact(&mut [0; 8])?;
    Ok(())
}

/// KiB that each of many connections costs which have asked once.
fn idle_connections(bootstrap: &str, pid: u32) -> Result<f64> {
    let before = resident_kib(pid)?;
    let mut open = Vec::new();
    for _ in 0..IDLE_CONNECTIONS {
        let mut socket = TcpStream::connect(bootstrap).context("cannot connect")?;
        socket.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff])?;
        let mut length = [0; 4];
        socket.read_exact(&mut length)?;
        let mut rest = vec![0; usize::try_from(u32::from_be_bytes(length))?];
        socket.read_exact(&mut rest)?;
        open.push(socket);
    }
    let after = resident_kib(pid)?;
    #[expect(clippy::cast_precision_loss, reason = "a count of thousands")]
    Ok((after - before).max(0.0) / open.len() as f64)
}

/// CPU time of a process so far, user and system.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the broker is gone")?;
    let (_, fields) = stat.rsplit_once(')').context("no stat line")?;
    let ticks = |at: usize| -> Option<f64> { fields.split_whitespace().nth(at)?.parse().ok() };
    let both = ticks(11).zip(ticks(12)).context("no times")?;
    Ok((both.0 + both.1) / 100.0)
}

/// KiB of a process that are in memory.
///
/// # Errors
///
/// When the process is gone.
pub(super) fn resident_kib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the broker is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^53")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn report(ours: &[Figures], theirs: &[Figures]) -> Result<()> {
    println!("{:<36} {:>10} {:>10} {:>8}  bar", "median", "ours", "Kafka", "ratio");
    let mut missed = 0;
    for (name, figure, bar) in ROWS {
        let (our, their) = (median(ours, figure), median(theirs, figure));
        let ratio = our / their;
        let (is_reached, bar) = match bar {
            Bar::AtLeast(least) => (ratio >= least, format!(">= {least:.2}")),
            Bar::AtMost(most) => (ratio <= most, format!("<= {most:.2}")),
            Bar::OursAtMost(most) => (our <= most, format!("ours <= {most:.0}")),
        };
        let mark = if is_reached { "" } else { "  MISSED" };
        missed += usize::from(!is_reached);
        println!("{name:<36} {our:>10.1} {their:>10.1} {ratio:>8.2}  {bar}{mark}");
    }
    if missed > 0 {
        bail!("{missed} bars are missed");
    }
    Ok(())
}

fn median(rounds: &[Figures], figure: fn(&Figures) -> f64) -> f64 {
    let mut all: Vec<_> = rounds.iter().map(figure).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
