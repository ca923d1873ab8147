//! What the kernel saw: the system calls of a server whose consumer fetches a whole log.
//!
//! The test starts itself once more under `strace`; that process connects back and serves. 64 MiB
//! as a rule; `cargo xtask strace` asks for a GiB by `ALLUVIUM_STRACE_MIB`.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use alluvium_zerocopy_net::{CopyReason, FileSlice, Response, SendPath, SocketSender};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

use crate::calls::bytes_by_call;
use crate::support::pattern;
use crate::tls::{client_config, made_certificate, server_config};

const MIB: u64 = 1024 * 1024;

/// Bytes of one fetch, as a consumer with the default limits asks for.
const FETCH_BYTES: u64 = MIB;

/// What tells the second process its part: a folder with `log`, and for TLS `cert` and `key`.
const SERVE: &str = "ALLUVIUM_STRACE_SERVE";

#[test]
fn a_plaintext_fetch_is_sendfile_and_no_byte_passes_through_the_server() {
    if let Some(folder) = env::var_os(SERVE) {
        return serve_plaintext(Path::new(&folder));
    }
    let this = "strace::a_plaintext_fetch_is_sendfile_and_no_byte_passes_through_the_server";
    let Some(calls) = fetch_under_strace(this, false) else { return };
    let records = log_bytes();
    let moved = |call: &str| calls.get(call).copied().unwrap_or(0);
    println!("{records} bytes of records, moved by call: {calls:?}");
    assert!(moved("sendfile") * 100 >= records * 99, "{calls:?}");
    let copied: u64 = ["read", "pread64"].map(moved).iter().sum();
    assert!(copied * 100 <= records, "{copied} bytes were read into the server: {calls:?}");
}

#[test]
fn a_tls_fetch_is_copied() {
    if let Some(folder) = env::var_os(SERVE) {
        return serve_tls(Path::new(&folder));
    }
    let Some(calls) = fetch_under_strace("strace::a_tls_fetch_is_copied", true) else { return };
    println!("{} bytes of records over TLS, moved by call: {calls:?}", log_bytes());
    assert_eq!(calls.get("sendfile"), None);
    assert!(calls["pread64"] >= log_bytes(), "{calls:?}");
}

fn log_bytes() -> u64 {
    let mib = env::var("ALLUVIUM_STRACE_MIB").map_or(64, |mib| mib.parse().unwrap());
    mib * MIB
}

/// Fetches all of a log from a server under `strace`. Returns the bytes that each kind of call
/// moved, or `None` where there is no `strace`.
#[expect(clippy::print_stdout, reason = "a test that cannot look says why")]
fn fetch_under_strace(test: &str, tls: bool) -> Option<BTreeMap<String, u64>> {
    match Command::new("strace").args(["-o", "/dev/null", "true"]).status() {
        Ok(status) if status.success() => {}
        failed => {
            println!("not traced: strace does not work here: {failed:?}");
            return None;
        }
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let block = pattern(usize::try_from(MIB).unwrap());
    let mut log = File::create(folder.path().join("log")).unwrap();
    for _ in 0..log_bytes() / MIB {
        log.write_all(&block).unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    fs::write(folder.path().join("address"), listener.local_addr().unwrap().to_string()).unwrap();
    let (certificate, key) = made_certificate();
    fs::write(folder.path().join("cert"), &certificate).unwrap();
    fs::write(folder.path().join("key"), key).unwrap();
    let server = start(test, folder.path());
    let (stream, _) = listener.accept().unwrap();
    if tls {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(client_config(&certificate), name).unwrap();
        fetch_all(StreamOwned::new(connection, stream), &block);
    } else {
        fetch_all(stream, &block);
    }
    let output = server.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Some(bytes_by_call(&fs::read_to_string(folder.path().join("trace")).unwrap()))
}

/// Starts this test program again under `strace`, for one test.
fn start(test: &str, folder: &Path) -> Child {
    Command::new("strace")
        .args(["-f", "-e"])
        .arg("trace=sendfile,read,pread64,write,writev,sendto,sendmsg,splice,io_uring_enter")
        .arg("-o")
        .arg(folder.join("trace"))
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(SERVE, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The consumer: asks for the next bytes until all have come, and compares them.
fn fetch_all(mut stream: impl Read + Write, block: &[u8]) {
    let mut received = vec![0; block.len()];
    for index in 0..log_bytes() / FETCH_BYTES {
        stream.write_all(&(index * FETCH_BYTES).to_be_bytes()).unwrap();
        let mut header = [0; 4];
        stream.read_exact(&mut header).unwrap();
        assert_eq!(u64::from(u32::from_be_bytes(header)), FETCH_BYTES);
        stream.read_exact(&mut received).unwrap();
        assert!(received == block, "fetch {index}");
    }
}

fn connect(folder: &Path) -> (TcpStream, Arc<File>) {
    let address = fs::read_to_string(folder.join("address")).unwrap();
    let log = Arc::new(File::open(folder.join("log")).unwrap());
    (TcpStream::connect(address).unwrap(), log)
}

/// The next request, `None` when the consumer has gone.
fn next_response(stream: &mut impl Read, log: &Arc<File>) -> Option<Response> {
    let mut position = [0; 8];
    match stream.read_exact(&mut position) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return None,
        Err(error) => panic!("{error}"),
    }
    let slice = FileSlice::new(Arc::clone(log), u64::from_be_bytes(position), FETCH_BYTES);
    let header = u32::try_from(slice.len()).unwrap().to_be_bytes();
    Some(Response::new().bytes(header).slice(slice))
}

fn serve_plaintext(folder: &Path) {
    let (mut stream, log) = connect(folder);
    let mut sender = SocketSender::new();
    while let Some(mut response) = next_response(&mut stream, &log) {
        sender.send(&stream, &mut response).unwrap();
    }
    assert_eq!(sender.path(), SendPath::ZeroCopy);
}

fn serve_tls(folder: &Path) {
    let (stream, log) = connect(folder);
    let [certificate, key] = ["cert", "key"].map(|name| fs::read(folder.join(name)).unwrap());
    let connection = ServerConnection::new(server_config(certificate, key)).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let mut sender = SocketSender::new();
    while let Some(mut response) = next_response(&mut stream, &log) {
        sender.send_wrapped(&mut stream, &mut response).unwrap();
    }
    assert_eq!(sender.path(), SendPath::Copy(CopyReason::Wrapped));
}
