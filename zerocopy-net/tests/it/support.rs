//! What several modules need.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use alluvium_segment::page_cache::drop_pages;
use alluvium_zerocopy_net::FileSlice;
use rustix::fs::{Advice, fadvise};
use rustix::net::sockopt::set_socket_send_buffer_size;

/// Bytes no two places of which look alike for long.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let words = (0..=u64::try_from(len).unwrap() / 8).map(|word| {
        word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ 0x5bd1_e995_0000_0000
    });
    let mut bytes: Vec<u8> = words.flat_map(u64::to_be_bytes).collect();
    bytes.truncate(len);
    bytes
}

/// An open file without a name that holds these bytes.
pub(crate) fn file_of(bytes: &[u8]) -> Arc<File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Arc::new(file)
}

/// A file on disk with these bytes, none of them in memory; the kernel reads little ahead in it.
pub(crate) fn cold_file_of(bytes: &[u8]) -> Arc<File> {
    // Below the build directory: a file system in memory lets no page go.
    let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::Random).unwrap();
    drop_pages(&file, &(0..1 << 40)).unwrap();
    Arc::new(file)
}

/// The bytes `from..from + len` of `file`.
pub(crate) fn slice(file: &Arc<File>, from: u64, len: u64) -> FileSlice {
    FileSlice::new(Arc::clone(file), from, len)
}

/// Both ends of a TCP connection: server, client.
pub(crate) fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (server, client)
}

/// Makes the sender's end take little at a time.
pub(crate) fn narrow(server: impl AsFd) {
    set_socket_send_buffer_size(server, 4_096).unwrap();
}

/// Reads to the end, on a thread.
pub(crate) fn reader<R: Read + Send + 'static>(mut client: R) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        received
    })
}
