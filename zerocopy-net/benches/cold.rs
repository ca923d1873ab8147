//! How long other tasks of a runtime wait while a connection is sent pages that are not in memory:
//! `cargo bench -p alluvium-zerocopy-net --features tokio`.
//!
//! One thread. A task measures how late each millisecond comes; beside it 256 MiB of a cold file
//! are sent, by `SocketSender`, the same with `ReadAhead`, and by a `sendfile` that waits for the
//! disk.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use alluvium_segment::page_cache::drop_pages;
use alluvium_zerocopy_net::{FileSlice, ReadAhead, Response, SocketSender, TokioSocket};
use rustix::fs::sendfile;
use tokio::task::yield_now;

const FILE_BYTES: u64 = 256 << 20;
const FETCH_BYTES: u64 = 1 << 20;

fn main() {
    // As a test, only that it runs.
    let file_bytes =
        if std::env::args().any(|arg| arg == "--bench") { FILE_BYTES } else { 4 << 20 };
    println!(
        "way             MiB/s   a tick is late by, in microseconds: median     99 %  longest"
    );
    for way in [Way::Sender, Way::ReadAhead, Way::Sendfile, Way::Sender, Way::ReadAhead] {
        let file = cold_file(file_bytes);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mut late, seconds) = runtime.block_on(serve(&file, file_bytes, way));
        late.sort();
        let at = |share: usize| late[(late.len() - 1) * share / 100].as_micros();
        let mib = u32::try_from(file_bytes >> 20).unwrap();
        let (rate, way) = (f64::from(mib) / seconds, format!("{way:?}"));
        println!("{way:<14} {rate:>6.0} {:>44} {:>8} {:>8}", at(50), at(99), at(100));
    }
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Sender,
    /// `Sender`, after advice to the kernel.
    ReadAhead,
    Sendfile,
}

/// A file of which nothing is in memory.
fn cold_file(file_bytes: u64) -> Arc<File> {
    let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let block: Vec<u8> = (0_u8..=255).cycle().take(1 << 20).collect();
    for _ in 0..file_bytes >> 20 {
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
    drop_pages(&file, &(0..file_bytes)).unwrap();
    Arc::new(file)
}

/// Sends the file while another task counts milliseconds. Returns how late each came, and the time
/// of it all.
async fn serve(file: &Arc<File>, file_bytes: u64, way: Way) -> (Vec<Duration>, f64) {
    let (socket, client) = connection();
    let drained = std::thread::spawn(move || drain(client));
    let is_done = AtomicBool::new(false);
    let start = Instant::now();
    let send = async {
        let (mut sender, mut ahead) = (SocketSender::new(), ReadAhead::new());
        for position in (0..file_bytes).step_by(1 << 20) {
            if way == Way::Sendfile {
                send_waiting(&socket, file, position).await;
            } else {
                let slice = FileSlice::new(Arc::clone(file), position, FETCH_BYTES);
                if way == Way::ReadAhead {
                    ahead.note(&slice);
                }
                let mut response = Response::new().slice(slice);
                sender.send_async(&socket, &mut response).await.unwrap();
            }
            // A server waits for the next request here.
            yield_now().await;
        }
        is_done.store(true, Ordering::Relaxed);
    };
    let tick = async {
        let mut late = Vec::new();
        while !is_done.load(Ordering::Relaxed) {
            let due = Instant::now() + Duration::from_millis(1);
            tokio::time::sleep_until(due.into()).await;
            late.push(due.elapsed());
        }
        late
    };
    let ((), late) = tokio::join!(send, tick);
    let seconds = start.elapsed().as_secs_f64();
    drop(socket);
    drained.join().unwrap();
    (late, seconds)
}

fn connection() -> (tokio::net::TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    (tokio::net::TcpStream::from_std(socket).unwrap(), client)
}

/// What one writes without a look at the page cache.
async fn send_waiting(socket: &tokio::net::TcpStream, file: &File, from: u64) {
    let mut position = from;
    while position < from + FETCH_BYTES {
        TokioSocket::writable(socket).await.unwrap();
        let left = usize::try_from(from + FETCH_BYTES - position).unwrap();
        let call = || Ok(sendfile(socket.as_fd(), file, Some(&mut position), left)?);
        let _blocked = socket.try_write_io(call);
        yield_now().await;
    }
}

fn drain(mut client: TcpStream) {
    let mut buffer = vec![0; 1 << 20];
    while client.read(&mut buffer).unwrap() > 0 {}
}
