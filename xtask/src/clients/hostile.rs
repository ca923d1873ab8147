//! Frames that no client sends, each followed by a good round trip of kcat.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use alluvium_record_format::{BatchBuilder, BatchSettings, Offset, SimpleRecord, Timestamp};
use anyhow::{Context, Result, ensure};

use super::broker::Server;
use super::install::Installed;
use crate::tally::Tally;
use crate::workspace;

type Attack = fn(&mut TcpStream) -> Result<()>;

const ATTACKS: [(&str, Attack); 5] = [
    ("garbage", garbage),
    ("a length of 0x7fffffff", huge_length),
    ("an unknown request", unknown_key),
    ("half a request", half_a_request),
    ("a batch with a wrong checksum", wrong_checksum),
];

/// How many cases there are.
pub(super) const fn listed() -> usize {
    ATTACKS.len()
}

/// Sends each, and lets kcat write and read after it.
pub(super) fn run(clients: &[Installed], server: &Server, tally: &mut Tally) {
    if !clients.iter().any(|client| client.listed.name == "kcat") {
        println!("missing: kcat, to look whether the broker goes on");
        return;
    }
    for (at, (name, attack)) in ATTACKS.into_iter().enumerate() {
        let attacked = || -> Result<()> {
            let mut socket = TcpStream::connect(server.bootstrap()).context("cannot connect")?;
            socket.set_read_timeout(Some(Duration::from_secs(20)))?;
            attack(&mut socket)?;
            round_trip(&server.bootstrap(), &format!("after-attack-{at}"))
        };
        tally.check(name, attacked());
    }
}

fn ends(socket: &mut TcpStream) -> Result<()> {
    ensure!(!matches!(socket.read(&mut [0]), Ok(1)), "an answer instead of the end");
    Ok(())
}

fn garbage(socket: &mut TcpStream) -> Result<()> {
    socket.write_all(&[0x5a; 300])?;
    ends(socket)
}

fn huge_length(socket: &mut TcpStream) -> Result<()> {
    socket.write_all(&[0x7f, 0xff, 0xff, 0xff, 0, 3])?;
    ends(socket)
}

fn unknown_key(socket: &mut TcpStream) -> Result<()> {
    socket.write_all(&frame(999, 0, &[]))?;
    ends(socket)
}

fn half_a_request(socket: &mut TcpStream) -> Result<()> {
    let whole = frame(3, 1, &[0, 0, 0, 0]);
    socket.write_all(&whole[..whole.len() / 2])?;
    socket.shutdown(Shutdown::Write)?;
    ends(socket)
}

fn wrong_checksum(socket: &mut TcpStream) -> Result<()> {
    round_trip(&socket.peer_addr()?.to_string(), "checksum")?;
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let time = Timestamp::new(1_700_000_000_000);
    builder.append(&SimpleRecord::new().value(b"damaged").timestamp(time))?;
    let mut batch = builder.finish()?.to_vec();
    *batch.last_mut().context("an empty batch")? ^= 1;
    let mut body = vec![0xff, 0xff, 0, 1, 0, 0, 0x10, 0, 0, 0, 0, 1, 0, 8];
    body.extend_from_slice(b"checksum");
    body.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0]);
    body.extend_from_slice(&u32::try_from(batch.len())?.to_be_bytes());
    body.extend_from_slice(&batch);
    socket.write_all(&frame(0, 3, &body))?;
    let mut answer = [0; 4 + 4 + 4 + 2 + 8 + 4 + 4 + 2];
    socket.read_exact(&mut answer)?;
    let code = i16::from_be_bytes([answer[30], answer[31]]);
    ensure!(code == 2, "error {code} instead of 2");
    Ok(())
}

/// A request with its length.
fn frame(key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    request.extend_from_slice(&key.to_be_bytes());
    request.extend_from_slice(&version.to_be_bytes());
    request.extend_from_slice(&[0, 0, 0, 1, 0xff, 0xff]);
    request.extend_from_slice(body);
    let len = u32::try_from(request.len()).unwrap_or(u32::MAX);
    [&len.to_be_bytes()[..], &request].concat()
}

fn round_trip(bootstrap: &str, topic: &str) -> Result<()> {
    let mut writer = Command::new("timeout");
    writer.args(["20", "kcat", "-b", bootstrap, "-P", "-t", topic]).stdin(Stdio::piped());
    let mut writer = writer.spawn().context("cannot start kcat")?;
    writer.stdin.take().context("no pipe")?.write_all(b"good\n")?;
    ensure!(writer.wait()?.success(), "kcat cannot write");
    let mut reader = Command::new("timeout");
    reader.args(["20", "kcat", "-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q"]);
    let read = workspace::output(&mut reader)?;
    ensure!(read == b"good\n", "kcat reads {}", String::from_utf8_lossy(&read));
    Ok(())
}
