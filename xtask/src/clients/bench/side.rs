//! The two brokers, each started on an empty directory.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::super::broker::{self, Server};
use crate::kafka::{Broker, Kafka};
use crate::workspace;

/// Whose broker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Ours,
    Kafka,
}

impl Side {
    pub(super) const ALL: [Self; 2] = [Self::Ours, Self::Kafka];
    pub(super) const SWAPPED: [Self; 2] = [Self::Kafka, Self::Ours];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Kafka => "Kafka",
        }
    }
}

/// Where the brokers live.
#[derive(Debug)]
pub(super) struct Arena {
    pub(super) kafka: Kafka,
    binary: PathBuf,
    scratch: PathBuf,
}

/// A broker that serves; ended, and its data deleted, when dropped.
#[derive(Debug)]
pub(super) struct Running {
    // Dropped in this order.
    process: Process,
    _data: Data,
}

/// A folder that goes when this is dropped.
#[derive(Debug)]
struct Data(PathBuf);

#[derive(Debug)]
enum Process {
    Ours(Server),
    Kafka(Broker),
}

impl Arena {
    /// Builds ours and finds Kafka's jars.
    pub(super) fn ready() -> Result<Self> {
        let kafka = Kafka::ready()?;
        let binary = broker::build("release")?;
        Ok(Self { kafka, binary, scratch: workspace::scratch().join("clients-bench") })
    }

    /// Starts a broker; also returns the milliseconds until it answered its first request.
    pub(super) fn start(&self, side: Side) -> Result<(Running, f64)> {
        let dir = self.scratch.join(side.name());
        workspace::empty_dir(&dir)?;
        let (data, log) = (dir.join("data"), dir.join("log"));
        let (process, began) = match side {
            Side::Ours => {
                let began = Instant::now();
                (Process::Ours(Server::start(&self.binary, &data, &log)?), began)
            }
            Side::Kafka => {
                let (broker, began) = Broker::spawn_as_shipped(&self.kafka, &data, &log)?;
                (Process::Kafka(broker), began)
            }
        };
        let running = Running { process, _data: Data(dir) };
        wait_for_answer(&running.bootstrap())?;
        Ok((running, began.elapsed().as_secs_f64() * 1e3))
    }
}

impl Running {
    /// What clients connect to.
    pub(super) fn bootstrap(&self) -> String {
        match &self.process {
            Process::Ours(server) => server.bootstrap(),
            Process::Kafka(broker) => broker.bootstrap(),
        }
    }

    /// The process.
    pub(super) fn pid(&self) -> u32 {
        match &self.process {
            Process::Ours(server) => server.pid(),
            Process::Kafka(broker) => broker.pid(),
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // Pages that nobody will read are not written to disk under the feet of the next broker.
        let _deleted = fs::remove_dir_all(&self.0);
    }
}

/// Asks for the versions until there is an answer.
fn wait_for_answer(bootstrap: &str) -> Result<()> {
    let patience = Instant::now() + Duration::from_mins(2);
    while Instant::now() < patience {
        if TcpStream::connect(bootstrap).is_ok_and(|socket| ask_versions(&socket).is_ok()) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    bail!("{bootstrap} does not answer")
}

/// Asks once for the versions, and reads all of the answer.
pub(super) fn ask_versions(mut socket: &TcpStream) -> Result<()> {
    socket.write_all(&ASK_VERSIONS).context("cannot ask")?;
    let mut length = [0; 4];
    socket.read_exact(&mut length).context("no answer")?;
    let mut rest = vec![0; usize::try_from(u32::from_be_bytes(length))?];
    socket.read_exact(&mut rest).context("half an answer")
}

/// `ApiVersions` in its version 0, without a client id.
const ASK_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
