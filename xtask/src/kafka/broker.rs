//! A single-node broker on ports that were free, in a directory of its own.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::Kafka;
use crate::workspace;

/// How long a broker may take to start or to stop.
const PATIENCE: Duration = Duration::from_mins(2);

/// It lives for seconds: no time for the better compiler, nor for threads of a collector.
const JVM_OPTIONS: [&str; 4] = [
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
];

/// As `kafka-server-start.sh` and `kafka-run-class.sh` have it.
const SHIPPED_OPTIONS: [&str; 7] = [
    "-Xmx1G",
    "-Xms1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
];

/// Any id does: it only has to be the same at every start.
const CLUSTER_ID: &str = "QWxsdXZpdW1PcmFjbGUwMA";

/// A running broker; killed when dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Broker {
    /// Starts a broker on `data`, formatting it first where it is new, and waits until it serves.
    /// What it logs goes to `log`. `extra` are further lines of its properties.
    ///
    /// # Errors
    ///
    /// When it does not come up in two minutes.
    pub(crate) fn start(kafka: &Kafka, data: &Path, log: &Path, extra: &str) -> Result<Self> {
        let lines = format!("{IMPATIENT}{extra}");
        let mut broker = Prepared::new(kafka, data, log, &lines)?.spawn(kafka, &JVM_OPTIONS)?;
        broker.wait_until_it_serves()?;
        Ok(broker)
    }

    /// Formats `data`, then starts a broker with Kafka's defaults, and the heap and the collector
    /// of its scripts, and does not wait for it; also returns when that was.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn spawn_as_shipped(
        kafka: &Kafka,
        data: &Path,
        log: &Path,
    ) -> Result<(Self, Instant)> {
        let prepared = Prepared::new(kafka, data, log, "")?;
        let began = Instant::now();
        Ok((prepared.spawn(kafka, &SHIPPED_OPTIONS)?, began))
    }

    /// What clients connect to.
    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where it listens.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A controlled shutdown.
    ///
    /// # Errors
    ///
    /// When it takes more than two minutes.
    pub(crate) fn stop(mut self) -> Result<()> {
        let id = i32::try_from(self.child.id()).context("a process id is an i32")?;
        let pid = Pid::from_raw(id).context("a process id is not 0")?;
        kill_process(pid, Signal::TERM).context("cannot stop the broker")?;
        let start = Instant::now();
        while self.child.try_wait().context("cannot wait for the broker")?.is_none() {
            ensure!(start.elapsed() < PATIENCE, "the broker does not stop: {}", self.log.display());
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// A SIGKILL, as a power cut for the process alone.
    ///
    /// # Errors
    ///
    /// When it cannot be sent.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill().context("cannot kill the broker")?;
        self.child.wait().context("cannot wait for the broker")?;
        Ok(())
    }

    fn wait_until_it_serves(&mut self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().context("cannot wait for the broker")? {
                bail!("the broker ended ({status}): {}", self.log.display());
            }
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            if text.contains("Kafka Server started") {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(100));
        }
        bail!("the broker does not come up: {}", self.log.display())
    }
}

/// What a broker is started with.
struct Prepared {
    properties: PathBuf,
    log: PathBuf,
    port: u16,
}

impl Prepared {
    /// Writes the properties, and formats `data` where it is new.
    fn new(kafka: &Kafka, data: &Path, log: &Path, extra: &str) -> Result<Self> {
        let [port, controller] = free_ports()?;
        let properties = log.with_extension("properties");
        let text = properties_text(data, port, controller, extra);
        fs::write(&properties, text)
            .with_context(|| format!("cannot write {}", properties.display()))?;
        if !data.join("meta.properties").exists() {
            let mut format = kafka.java("kafka.tools.StorageTool");
            format.args(["format", "-t", CLUSTER_ID, "-c"]).arg(&properties);
            workspace::output(&mut format)?;
        }
        Ok(Self { properties, log: log.to_owned(), port })
    }

    fn spawn(self, kafka: &Kafka, options: &[&str]) -> Result<Broker> {
        let Self { properties, log, port } = self;
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let errors = file.try_clone().context("cannot share the broker's log")?;
        let mut java = kafka.java_with(options, "kafka.Kafka");
        java.arg(&properties).stdout(Stdio::from(file)).stderr(Stdio::from(errors));
        let child = java.spawn().context("cannot start a broker")?;
        Ok(Broker { child, port, log })
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already: then there is nothing to do.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A port that was free just now.
///
/// # Errors
///
/// When there is none.
pub(crate) fn free_port() -> Result<u16> {
    free_ports().map(|[port, _]| port)
}

fn free_ports() -> Result<[u16; 2]> {
    let bind = || TcpListener::bind("127.0.0.1:0").context("no free port");
    let (first, second) = (bind()?, bind()?);
    let port = |listener: &TcpListener| listener.local_addr().map(|at| at.port());
    Ok([port(&first).context("no port")?, port(&second).context("no port")?])
}

fn properties_text(data: &Path, port: u16, controller: u16, extra: &str) -> String {
    let data = data.display();
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
{extra}
"
    )
}

/// What a test does not wait for.
const IMPATIENT: &str = "group.initial.rebalance.delay.ms=0
log.index.size.max.bytes=4096
log.retention.ms=-1
log.initial.task.delay.ms=500
log.cleaner.backoff.ms=500
log.retention.check.interval.ms=1000
log.flush.offset.checkpoint.interval.ms=1000
log.flush.start.offset.checkpoint.interval.ms=1000
";
