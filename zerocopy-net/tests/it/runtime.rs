//! From tokio.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

use alluvium_zerocopy_net::{Response, SocketSender, TokioSocket};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};

use crate::support::{file_of, narrow, pattern, slice, tcp_pair};

fn tokio_pair() -> (TcpStream, TcpStream) {
    let (server, client) = tcp_pair();
    server.set_nonblocking(true).unwrap();
    client.set_nonblocking(true).unwrap();
    (TcpStream::from_std(server).unwrap(), TcpStream::from_std(client).unwrap())
}

#[tokio::test]
async fn a_response_arrives_whole_through_a_narrow_socket() {
    let bytes = pattern(3_000_000);
    let file = file_of(&bytes);
    for mut sender in [SocketSender::new(), SocketSender::new().copying()] {
        let (server, mut client) = tokio_pair();
        narrow(&server);
        let mut response = Response::new().bytes(*b"h").slice(slice(&file, 0, 2_000_000));
        response.push_bytes(*b"m");
        response.push_slice(slice(&file, 2_000_000, 1_000_000));
        let mut received = Vec::new();
        let send = async {
            sender.send_async(&server, &mut response).await.unwrap();
            drop(server);
        };
        let (read, ()) = tokio::join!(client.read_to_end(&mut received), send);
        read.unwrap();
        let expected = [b"h", &bytes[..2_000_000], b"m", &bytes[2_000_000..]].concat();
        assert!(received == expected);
    }
}

#[tokio::test]
async fn a_stream_that_is_wrapped_gets_the_same_bytes() {
    let bytes = pattern(400_000);
    let file = file_of(&bytes);
    let (mut server, mut client) = UnixStream::pair().unwrap();
    let mut sender = SocketSender::new();
    let mut response = Response::new().bytes(*b"h").slice(slice(&file, 0, 400_000));
    let mut received = Vec::new();
    let send = async {
        sender.send_wrapped_async(&mut server, &mut response).await.unwrap();
        drop(server);
    };
    let (read, ()) = tokio::join!(client.read_to_end(&mut received), send);
    read.unwrap();
    assert!(received == [b"h", &bytes[..]].concat());
}

/// A place to send to that is never full, and notes whose turn it is.
struct Bottomless<'a> {
    null: File,
    name: char,
    turns: &'a Mutex<String>,
}

impl AsFd for Bottomless<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.null.as_fd()
    }
}

impl TokioSocket for Bottomless<'_> {
    async fn writable(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_write_io<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.turns.lock().unwrap().push(self.name);
        call()
    }
}

#[tokio::test]
async fn a_connection_that_is_never_full_leaves_turns_to_others() {
    let file = file_of(&pattern(1_000_000));
    let turns = Mutex::new(String::new());
    let send = async |name, turn_bytes| {
        let null = OpenOptions::new().write(true).open("/dev/null").unwrap();
        let socket = Bottomless { null, name, turns: &turns };
        let mut response = Response::new().slice(slice(&file, 0, 1_000_000));
        let mut sender = SocketSender::new().turn_bytes(turn_bytes);
        sender.send_async(&socket, &mut response).await.unwrap();
    };
    tokio::join!(biased; send('a', 250_000), send('b', 500_000));
    assert_eq!(*turns.lock().unwrap(), "ababaa");
}

#[tokio::test]
async fn a_rest_that_is_little_more_than_a_turn_goes_along_with_it() {
    let file = file_of(&pattern(1_000_000));
    let turns = Mutex::new(String::new());
    let send = async |name, len| {
        let null = OpenOptions::new().write(true).open("/dev/null").unwrap();
        let socket = Bottomless { null, name, turns: &turns };
        let mut response = Response::new().slice(slice(&file, 0, len));
        let mut sender = SocketSender::new().turn_bytes(800_000);
        sender.send_async(&socket, &mut response).await.unwrap();
    };
    tokio::join!(biased; send('a', 900_000), send('b', 900_001));
    assert_eq!(*turns.lock().unwrap(), "abb");
}
