//! What clients do to a broker, and how fast it went.

use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::side::{Running, ask_versions};
use crate::kafka::Kafka;
use crate::workspace;

/// Records of 100 bytes.
pub(super) const SMALL: Records = Records { count: 4_000_000, bytes: 100, per_second: None };
/// Records of 1 KiB.
pub(super) const LARGE: Records = Records { count: 800_000, bytes: 1024, per_second: None };

/// How often a consumer reads a topic: once is over in a second.
pub(super) const PASSES: u32 = 3;

/// What a producer sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records {
    count: u32,
    bytes: u32,
    /// As fast as it goes, unless said otherwise.
    per_second: Option<f64>,
}

/// What a producer came to, its first quarter left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Produced {
    pub(super) per_second: f64,
    pub(super) mib_s: f64,
    pub(super) p99_ms: f64,
}

/// Clients of one broker.
#[derive(Debug)]
pub(super) struct Load<'a> {
    kafka: &'a Kafka,
    bootstrap: String,
}

impl Records {
    /// A part of them, up to 1.
    pub(super) fn part(self, part: f64) -> Self {
        Self { count: whole(f64::from(self.count) * part), ..self }
    }

    /// As many as fill so many seconds at a rate.
    pub(super) fn at(self, per_second: f64, seconds: f64) -> Self {
        Self { count: whole(per_second * seconds), per_second: Some(per_second), ..self }
    }

    fn mib(self) -> f64 {
        f64::from(self.count) * f64::from(self.bytes) / f64::from(1 << 20)
    }

    /// Bytes of all values.
    pub(super) fn gib(self) -> f64 {
        self.mib() / 1024.0
    }
}

impl<'a> Load<'a> {
    pub(super) fn new(kafka: &'a Kafka, running: &Running) -> Self {
        Self { kafka, bootstrap: running.bootstrap() }
    }

    /// Kafka's own `ProducerPerformance` with acks=1 and a topic of one partition.
    pub(super) fn produce(&self, topic: &str, records: &Records) -> Result<Produced> {
        let mut java = self.kafka.java("org.apache.kafka.tools.ProducerPerformance");
        java.args(["--topic", topic, "--num-records", &records.count.to_string()]);
        java.args(["--record-size", &records.bytes.to_string()]);
        java.args(["--warmup-records", &(records.count / 4).to_string()]);
        let rate = records.per_second.map_or("-1".to_owned(), |rate| format!("{rate:.0}"));
        java.args(["--throughput", &rate]);
        java.args(["--bootstrap-server", &self.bootstrap, "--command-property", "acks=1"]);
        let out = workspace::output(&mut java)?;
        Produced::read(&String::from_utf8_lossy(&out))
    }

    /// kcat, which is librdkafka, from the beginning to the end, some times over: MiB of values a
    /// second.
    pub(super) fn consume(&self, topic: &str, records: &Records) -> Result<f64> {
        let began = Instant::now();
        for _ in 0..PASSES {
            let mut kcat = Command::new("kcat");
            kcat.args(["-b", &self.bootstrap, "-C", "-t", topic, "-o", "beginning"]);
            kcat.args(["-e", "-q", "-f", "x", "-X", "check.crcs=false"]);
            // It learns of the end by a Fetch that finds nothing: half a second, by default.
            kcat.args(["-X", "fetch.wait.max.ms=5"]);
            let read = workspace::output(&mut kcat)?.len();
            ensure!(read == usize::try_from(records.count)?, "{read} records of {topic} were read");
        }
        Ok(f64::from(PASSES) * records.mib() / began.elapsed().as_secs_f64())
    }
}

impl Produced {
    /// The last of its lines: "N steady state records sent, R records/sec (M MB/sec), ... A ms
    /// 50th, B ms 95th, C ms 99th, ...". Its MB are MiB.
    fn read(out: &str) -> Result<Self> {
        let line = out.lines().rfind(|line| line.contains("steady state"));
        let line = line.context("no line about the steady state")?;
        let number_before = |unit: &str| -> Option<f64> {
            let (head, _) = line.split_once(unit)?;
            head.rsplit([' ', '(']).find(|word| !word.is_empty())?.parse().ok()
        };
        Ok(Self {
            per_second: number_before(" records/sec").context("no rate")?,
            mib_s: number_before(" MB/sec").context("no throughput")?,
            p99_ms: number_before(" ms 99th").context("no p99")?,
        })
    }
}

/// Opens connections that have asked once.
pub(super) fn idle_connections(bootstrap: &str, count: u16) -> Result<Vec<TcpStream>> {
    let mut open = Vec::new();
    for _ in 0..count {
        let socket = TcpStream::connect(bootstrap).context("cannot connect")?;
        ask_versions(&socket)?;
        open.push(socket);
    }
    Ok(open)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of records, far below the limit"
)]
const fn whole(count: f64) -> u32 {
    count as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_state_is_read_and_not_the_whole_run() {
        let out = "60000 records sent, 3383.331454 records/sec (3.30 MB/sec), 5301.36 ms avg latency, \
                   7745.00 ms max latency, 5380 ms 50th, 7472 ms 95th, 7720 ms 99th, 7742 ms 99.9th.\n\
                   40000 steady state records sent, 3510.311540 records/sec (3.43 MB/sec), 5754.15 ms \
                   avg latency, 7745.00 ms max latency, 5685 ms 50th, 7617 ms 95th, 7721 ms 99th, 7745 \
                   ms 99.9th.\n";
        let read = Produced::read(out).unwrap();
        assert_eq!((read.per_second, read.mib_s, read.p99_ms), (3_510.311_54, 3.43, 7_721.0));
        assert!(Produced::read("").is_err());
    }
}
