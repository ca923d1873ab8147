//! The example broker as a process of its own.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::workspace;

/// How long a broker may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running broker; killed when dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    binary: PathBuf,
    data: PathBuf,
    log: PathBuf,
    port: u16,
}

/// Builds the broker and returns where it lies.
///
/// # Errors
///
/// When it does not build.
pub(super) fn build(profile: &str) -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--quiet", "--package", "alluvium-broker", "--profile", profile]);
    workspace::run(&mut cargo)?;
    let dir = if profile == "dev" { "debug" } else { profile };
    Ok(workspace::target().join(dir).join("alluvium-broker"))
}

impl Server {
    /// Starts a broker on a port that was free, and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// When it does not come up in half a minute.
    pub(super) fn start(binary: &Path, data: &Path, log: &Path) -> Result<Self> {
        let free = TcpListener::bind("127.0.0.1:0").context("no free port")?;
        let port = free.local_addr().context("no port")?.port();
        drop(free);
        Self::start_on(binary, data, log, port)
    }

    fn start_on(binary: &Path, data: &Path, log: &Path, port: u16) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = workspace::command(binary);
        command.arg("--data").arg(data).args(["--listen", &format!("127.0.0.1:{port}")]);
        // The name of a file that was deleted is free at once: a soak deletes many.
        command.args(["--set", "log.segment.delete.delay.ms=1000"]);
        command.args(["--set", "log.retention.check.interval.ms=1000"]);
        command.stdout(Stdio::null()).stderr(Stdio::from(file));
        let child = command.spawn().context("cannot start the broker")?;
        let (binary, data, log) = (binary.to_owned(), data.to_owned(), log.to_owned());
        let mut server = Self { child, binary, data, log, port };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = server.child.try_wait().context("cannot wait for the broker")? {
                let said = fs::read_to_string(&server.log).unwrap_or_default();
                bail!("the broker ended ({status}): {said}");
            }
            ensure!(
                start.elapsed() < PATIENCE,
                "the broker does not come up: {}",
                server.log.display()
            );
            thread::sleep(Duration::from_millis(2));
        }
        Ok(server)
    }

    /// What clients connect to.
    pub(super) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it without a word, and starts it again on the same port.
    ///
    /// # Errors
    ///
    /// When it does not come up again.
    pub(super) fn kill_and_start(mut self) -> Result<Self> {
        self.child.kill().context("cannot kill the broker")?;
        self.child.wait().context("cannot wait for the broker")?;
        Self::start_on(&self.binary, &self.data, &self.log, self.port)
    }

    /// Stops it as an operator does, and looks for the marker of a clean stop.
    ///
    /// # Errors
    ///
    /// When it does not stop, or leaves no marker.
    pub(super) fn stop_cleanly(mut self, data: &Path) -> Result<()> {
        let id = i32::try_from(self.child.id()).context("a process id is an i32")?;
        let pid = Pid::from_raw(id).context("a process id is not 0")?;
        kill_process(pid, Signal::TERM).context("cannot stop the broker")?;
        let start = Instant::now();
        while self.child.try_wait().context("cannot wait for the broker")?.is_none() {
            ensure!(start.elapsed() < PATIENCE, "the broker does not stop");
            thread::sleep(Duration::from_millis(10));
        }
        ensure!(data.join(".kafka_cleanshutdown").is_file(), "no clean marker");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already: then there is nothing to do.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
