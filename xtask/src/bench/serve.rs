//! Fetches of 1 MiB sent by `SocketSender`, against a bare loop of `sendfile` over the same file
//! and socket: a blocking one, and one of tokio. The same for processor time; beside it other ways.
//!
//! The client throws away what comes (`MSG_TRUNC`), so that the sender is what is measured. A
//! slice of work ends when the client has said that all of it came.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use alluvium_zerocopy_net::{FileSlice, Response, SendPath, SocketSender};
use anyhow::{Result, ensure};
use rustix::fs::sendfile;
use rustix::net::sockopt::set_tcp_cork;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::Interest;
use tokio::runtime::{Builder, Runtime};

use super::Run;
use super::pair::{Bar, Bench, Outcome, Slice};

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] = &[
    ("serve-1MiB", blocking),
    ("serve-1MiB-cpu", blocking_processor),
    ("serve-1MiB-tokio", tokio),
    ("serve-1MiB-tokio-cpu", tokio_processor),
    ("serve-tokio-or-block", tokio_or_blocking),
    ("serve-header-pushed", pushed),
    ("serve-corked", corked),
    ("serve-read-write", copied),
    ("serve-read-write-cpu", copied),
];

const MIB: u64 = 1 << 20;

/// Bytes of one fetch.
const FETCH_BYTES: u64 = MIB;

/// What stands before them in a response.
const HEADER: [u8; 64] = [7; 64];

/// Fetches a slice of work.
const FETCHES: u64 = 8;

/// Bytes of the file that is served again and again.
const FILE_BYTES: u64 = 64 * MIB;

/// The bar: the time of the bare loop as a share of ours.
const WALL: Bar = Bar(0.95);

/// The bar of processor time: ours at most 1.05 of the bare loop's.
const PROCESSOR: Bar = Bar(1.0 / 1.05);

/// Shown beside, without a bar.
const BESIDE: Bar = Bar(0.0);

/// Blocking code, by time.
fn blocking(bench: &Bench, name: &'static str) -> Result<Outcome> {
    measure(bench, name, WALL, sender_way, bare_way)
}

/// Blocking code, by processor time.
fn blocking_processor(bench: &Bench, name: &'static str) -> Result<Outcome> {
    measure(bench, name, PROCESSOR, sender_way, bare_way)
}

/// From tokio, by time.
fn tokio(bench: &Bench, name: &'static str) -> Result<Outcome> {
    measure(bench, name, WALL, tokio_way, bare_tokio_way)
}

/// From tokio, by processor time.
fn tokio_processor(bench: &Bench, name: &'static str) -> Result<Outcome> {
    measure(bench, name, PROCESSOR, tokio_way, bare_tokio_way)
}

/// From tokio, against blocking code.
fn tokio_or_blocking(bench: &Bench, name: &'static str) -> Result<Outcome> {
    measure(bench, name, BESIDE, tokio_way, bare_way)
}

/// A header that leaves at once, then `sendfile`.
fn pushed(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let way = |wire: Rc<Wire>| -> Result<Way> {
        Ok(Box::new(move |at| bare(&wire, at, SendFlags::empty())))
    };
    measure(bench, name, BESIDE, way, bare_way)
}

/// Cork, header, `sendfile`, no cork.
fn corked(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let way = |wire: Rc<Wire>| -> Result<Way> {
        Ok(Box::new(move |at| {
            set_tcp_cork(&wire.socket, true)?;
            bare(&wire, at, SendFlags::empty())?;
            Ok(set_tcp_cork(&wire.socket, false)?)
        }))
    };
    measure(bench, name, BESIDE, way, bare_way)
}

/// `pread` into a buffer, then a write.
fn copied(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let way = |wire: Rc<Wire>| -> Result<Way> {
        let mut buffer = vec![0; 128 * 1024];
        Ok(Box::new(move |at| {
            send(&wire.socket, &HEADER, SendFlags::MORE)?;
            let mut position = at;
            while position < at + FETCH_BYTES {
                wire.file.read_exact_at(&mut buffer, position)?;
                (&wire.socket).write_all(&buffer)?;
                position += u64::try_from(buffer.len())?;
            }
            Ok(())
        }))
    };
    measure(bench, name, BESIDE, way, bare_way)
}

/// Sends the fetch at a byte of the file.
type Way = Box<dyn FnMut(u64) -> Result<()>>;

#[expect(clippy::unnecessary_wraps, reason = "one of several ways, of which others may fail")]
fn sender_way(wire: Rc<Wire>) -> Result<Way> {
    let mut sender = SocketSender::new();
    Ok(Box::new(move |at| {
        sender.send(&wire.socket, &mut response(&wire, at))?;
        ensure!(sender.path() == SendPath::ZeroCopy, "the sender copies");
        Ok(())
    }))
}

fn tokio_way(wire: Rc<Wire>) -> Result<Way> {
    let (runtime, socket) = watched(&wire)?;
    let mut sender = SocketSender::new();
    Ok(Box::new(move |at| {
        wire.socket.set_nonblocking(true)?;
        runtime.block_on(sender.send_async(&socket, &mut response(&wire, at)))?;
        ensure!(sender.path() == SendPath::ZeroCopy, "the sender copies");
        Ok(wire.socket.set_nonblocking(false)?)
    }))
}

/// The twin from tokio: waits until the socket takes bytes, and looks at nothing else.
fn bare_tokio_way(wire: Rc<Wire>) -> Result<Way> {
    let (runtime, socket) = watched(&wire)?;
    Ok(Box::new(move |at| {
        wire.socket.set_nonblocking(true)?;
        runtime.block_on(bare_async(&socket, &wire.file, at))?;
        Ok(wire.socket.set_nonblocking(false)?)
    }))
}

async fn bare_async(socket: &tokio::net::TcpStream, file: &File, at: u64) -> Result<()> {
    tried(socket, || Ok(send(socket, &HEADER, SendFlags::MORE)?)).await?;
    let mut position = at;
    while position < at + FETCH_BYTES {
        let left = usize::try_from(at + FETCH_BYTES - position)?;
        let call = || Ok(sendfile(socket, file, Some(&mut position), left)?);
        ensure!(tried(socket, call).await? > 0, "short file");
    }
    Ok(())
}

/// Makes a call until the socket takes something.
async fn tried(
    socket: &tokio::net::TcpStream,
    mut call: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        socket.writable().await?;
        match socket.try_io(Interest::WRITABLE, &mut call) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

/// The socket once more, watched by a runtime of one thread.
fn watched(wire: &Wire) -> Result<(Runtime, tokio::net::TcpStream)> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let socket = wire.socket.try_clone()?;
    socket.set_nonblocking(true)?;
    let context = runtime.enter();
    let socket = tokio::net::TcpStream::from_std(socket)?;
    drop(context);
    wire.socket.set_nonblocking(false)?;
    Ok((runtime, socket))
}

fn response(wire: &Wire, at: u64) -> Response {
    let slice = FileSlice::new(Arc::clone(&wire.file), at, FETCH_BYTES);
    Response::new().bytes(HEADER).slice(slice)
}

/// The twin: what somebody writes who needs nothing else.
#[expect(clippy::unnecessary_wraps, reason = "one of several ways, of which others may fail")]
fn bare_way(wire: Rc<Wire>) -> Result<Way> {
    Ok(Box::new(move |at| bare(&wire, at, SendFlags::MORE)))
}

fn bare(wire: &Wire, at: u64, flags: SendFlags) -> Result<()> {
    send(&wire.socket, &HEADER, flags)?;
    let mut position = at;
    while position < at + FETCH_BYTES {
        let left = usize::try_from(at + FETCH_BYTES - position)?;
        ensure!(sendfile(&wire.socket, &wire.file, Some(&mut position), left)? > 0, "short file");
    }
    Ok(())
}

fn measure(
    bench: &Bench,
    name: &'static str,
    bar: Bar,
    ours: impl FnOnce(Rc<Wire>) -> Result<Way>,
    twin: impl FnOnce(Rc<Wire>) -> Result<Way>,
) -> Result<Outcome> {
    let wire = Rc::new(Wire::new()?);
    let by_processor = name.ends_with("-cpu");
    let side = |send| Side { wire: Rc::clone(&wire), send, by_processor, next: 0 };
    let mut ours = side(ours(Rc::clone(&wire))?);
    let mut twin = side(twin(Rc::clone(&wire))?);
    #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
    let mib = (FETCHES * FETCH_BYTES / MIB) as f64;
    bench.sides(name, (mib, "MiB/s"), bar, &mut ours, &mut twin)
}

/// A file in memory and a connection to a client that takes whatever comes.
struct Wire {
    file: Arc<File>,
    socket: TcpStream,
}

impl Wire {
    fn new() -> Result<Self> {
        let file = tempfile::tempfile()?;
        let block: Vec<u8> = (0_u8..=255).cycle().take(usize::try_from(MIB)?).collect();
        for index in 0..FILE_BYTES / MIB {
            file.write_all_at(&block, index * MIB)?;
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (socket, _) = listener.accept()?;
        // Ends when the socket is closed.
        let _client = thread::spawn(move || take_all(&client));
        Ok(Self { file: Arc::new(file), socket })
    }
}

/// Takes slices of work, and says after each that it came.
fn take_all(mut client: &TcpStream) -> Result<()> {
    let mut buffer = vec![0; usize::try_from(MIB)?];
    let all = FETCHES * (FETCH_BYTES + u64::try_from(HEADER.len())?);
    loop {
        let mut left = all;
        while left > 0 {
            let len = usize::try_from(left.min(MIB))?;
            let (_, taken) = recv(client, &mut buffer[..len], RecvFlags::TRUNC)?;
            ensure!(taken > 0, "the sender has gone");
            left -= u64::try_from(taken)?;
        }
        client.write_all(&[1])?;
    }
}

/// One way to send, and its clock.
struct Side {
    wire: Rc<Wire>,
    send: Way,
    by_processor: bool,
    next: u64,
}

impl Slice for Side {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    fn run(&mut self) -> Result<u64> {
        for _ in 0..FETCHES {
            (self.send)(self.next)?;
            self.next = (self.next + FETCH_BYTES) % FILE_BYTES;
        }
        let mut done = [0];
        (&self.wire.socket).read_exact(&mut done)?;
        Ok(u64::from(done[0]))
    }

    fn timed(&mut self) -> Result<(u64, f64)> {
        let (start, used) = (Instant::now(), processor_seconds());
        let figure = self.run()?;
        let wall = start.elapsed().as_secs_f64();
        Ok((figure, if self.by_processor { processor_seconds() - used } else { wall }))
    }
}

/// What this thread has used of a processor.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "some minutes in nanoseconds")]
    let nanoseconds = (time.tv_sec * 1_000_000_000 + time.tv_nsec) as f64;
    nanoseconds / 1e9
}
