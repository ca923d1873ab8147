//! What the kernel saw: the system calls of the broker while a consumer fetches a whole log.
//!
//! 64 MiB as a rule; `cargo xtask strace` asks for a GiB by `ALLUVIUM_STRACE_MIB`. Says so where
//! `strace` does not work.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{FetchResponse, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable};
use tempfile::TempDir;

use crate::calls::bytes_by_call;
use crate::client::{TestBroker, batch, fetch};

/// Records of a batch, and bytes of the value of each: nearly a MiB together.
const RECORDS: usize = 64;
const VALUE_BYTES: usize = 16_000;

/// The version of Fetch that is spoken: the last one with names of topics.
const VERSION: i16 = 12;

#[test]
fn records_go_to_a_plaintext_consumer_by_sendfile() {
    let Some(traced) = Traced::start(&[]) else { return };
    let socket = TcpStream::connect(traced.addr).unwrap();
    let received = fetch_all(socket);
    let moved = traced.stop();
    println!("{received} bytes of records, moved by call: {moved:?}");
    assert!(moved["sendfile"] * 100 >= received * 99, "{moved:?} of {received}");
    let copied: u64 = ["sendto", "sendmsg", "write", "writev", "splice", "io_uring_enter"]
        .iter()
        .filter_map(|call| moved.get(*call))
        .sum();
    assert!(copied * 100 <= received, "{moved:?} of {received}");
}

#[cfg(feature = "tls")]
#[test]
fn records_go_to_a_tls_consumer_by_a_copy_unless_the_kernel_encrypts() {
    use alluvium_zerocopy_net::kernel_tls::KernelTls;

    let folder = tempfile::tempdir().unwrap();
    let certificate = crate::tls::Certificate::new(folder.path());
    let [cert, key] = certificate.files.each_ref().map(|file| file.to_str().unwrap());
    let Some(traced) = Traced::start(&["--tls-cert", cert, "--tls-key", key]) else { return };
    let kernel_encrypts = KernelTls::attach(TcpStream::connect(traced.addr).unwrap()).is_ok();
    let received = fetch_all(certificate.connect(traced.addr));
    let moved = traced.stop();
    println!("{received} bytes of records over TLS, moved by call: {moved:?}");
    let by = if kernel_encrypts { "sendfile" } else { "pread64" };
    assert!(moved[by] * 100 >= received * 99, "{moved:?} of {received}");
    assert_eq!(moved.contains_key("sendfile"), kernel_encrypts, "{moved:?}");
}

/// A broker under `strace` with a topic full of records.
struct Traced {
    addr: SocketAddr,
    strace: Child,
    folder: TempDir,
}

impl Traced {
    /// Fills a log, then starts the broker over it; `None` where there is no `strace`.
    #[expect(clippy::print_stdout, reason = "a test that cannot look says why")]
    fn start(flags: &[&str]) -> Option<Self> {
        match Command::new("strace").args(["-o", "/dev/null", "true"]).status() {
            Ok(status) if status.success() => {}
            failed => {
                println!("not traced: strace does not work here: {failed:?}");
                return None;
            }
        }
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let data = folder.path().join("data");
        fill(&data);
        let mut strace = Command::new("strace")
            .args(["-f", "-e"])
            .arg("trace=sendfile,read,pread64,write,writev,sendto,sendmsg,splice,io_uring_enter")
            .arg("-o")
            .arg(folder.path().join("trace"))
            .arg(env!("CARGO_BIN_EXE_alluvium-broker"))
            .args(["--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .args(flags)
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(strace.stderr.take().unwrap()).lines();
        let addr = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("listening=")?;
            rest.split(' ').next()?.parse().ok()
        });
        // What the broker says later goes nowhere, and it does not wait for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Some(Self { addr: addr.expect("the broker says where it listens"), strace, folder })
    }

    /// Ends the broker. Returns the bytes that each kind of call moved.
    fn stop(mut self) -> BTreeMap<String, u64> {
        let path = self.folder.path().join("trace");
        let first = fs::read_to_string(&path).unwrap();
        let pid = first.split(' ').next().unwrap();
        assert!(Command::new("kill").args(["-TERM", pid]).status().unwrap().success());
        assert!(self.strace.wait().unwrap().success());
        bytes_by_call(&fs::read_to_string(&path).unwrap())
    }
}

fn fill(data: &Path) {
    let mib = env::var("ALLUVIUM_STRACE_MIB").map_or(64, |mib| mib.parse::<u32>().unwrap());
    fs::create_dir(data).unwrap();
    let broker = TestBroker::start(data);
    let mut client = broker.client();
    client.create("t", 1);
    let value = "v".repeat(VALUE_BYTES);
    let records = batch(&[&*value; RECORDS]);
    for _ in 0..mib {
        assert_eq!(client.produce("t", records.clone()).error_code, 0);
    }
    drop(client);
    assert!(broker.stop());
}

/// The consumer: fetches until there is no more. Returns how many bytes of records came.
fn fetch_all(mut stream: impl Read + Write) -> u64 {
    let mut received = 0;
    let mut next = 0;
    loop {
        let records = fetch_one(&mut stream, next);
        if records.is_empty() {
            return received;
        }
        received += u64::try_from(records.len()).unwrap();
        next = behind(&records);
    }
}

fn fetch_one(stream: &mut (impl Read + Write), offset: i64) -> Bytes {
    let header = RequestHeader::default()
        .with_request_api_key(1)
        .with_request_api_version(VERSION)
        .with_correlation_id(7);
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header.encode(&mut frame, 2).unwrap();
    fetch("t", offset).encode(&mut frame, VERSION).unwrap();
    let len = u32::try_from(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&len.to_be_bytes());
    stream.write_all(&frame).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut body).unwrap();
    let mut body = Bytes::from(body);
    ResponseHeader::decode(&mut body, 1).unwrap();
    let mut response = FetchResponse::decode(&mut body, VERSION).unwrap();
    let partition = response.responses.remove(0).partitions.remove(0);
    assert_eq!(partition.error_code, 0);
    partition.records.unwrap_or_default()
}

/// The offset behind the last whole batch.
fn behind(records: &[u8]) -> i64 {
    let (mut rest, mut next) = (records, 0);
    while rest.len() > 12 {
        let base = i64::from_be_bytes(rest[..8].try_into().unwrap());
        let len = u32::from_be_bytes(rest[8..12].try_into().unwrap());
        let Some((_, behind)) = rest.split_at_checked(12 + usize::try_from(len).unwrap()) else {
            break;
        };
        next = base + i64::try_from(RECORDS).unwrap();
        rest = behind;
    }
    next
}
