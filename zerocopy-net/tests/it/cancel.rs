//! A send that is dropped at any await and begun again: no byte is lost, none comes twice.

use std::future::{Future, poll_fn};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net;
use std::pin::pin;
use std::task::Poll;

use alluvium_zerocopy_net::{Response, SocketSender, TokioSocket};
use tokio::net::UnixStream;
use tokio::task::yield_now;

use crate::support::{cold_file_of, file_of, narrow, pattern, slice};

/// A socket that makes its sender wait before each call.
struct Hesitant(UnixStream);

impl AsFd for Hesitant {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl TokioSocket for Hesitant {
    async fn writable(&self) -> io::Result<()> {
        yield_now().await;
        self.0.writable().await
    }

    fn try_write_io<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        TokioSocket::try_write_io(&self.0, call)
    }
}

/// Polls up to `count` times, then drops the future.
async fn polled<T>(count: u32, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = count;
    poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        left -= 1;
        if left == 0 {
            return Poll::Ready(None);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// A server's end of tokio, and a client's end that never waits.
fn pair() -> (UnixStream, net::UnixStream) {
    let (server, client) = net::UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    client.set_nonblocking(true).unwrap();
    (UnixStream::from_std(server).unwrap(), client)
}

fn drain(mut client: &net::UnixStream, received: &mut Vec<u8>) {
    let mut buffer = [0; 8_192];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        received.extend_from_slice(&buffer[..count]);
    }
}

#[tokio::test]
async fn a_send_dropped_at_each_await_goes_on_where_it_stopped() {
    let bytes = pattern(100_000);
    let file = file_of(&bytes);
    for polls in 1..8 {
        for sender in [SocketSender::new(), SocketSender::new().copying()] {
            let mut sender = sender.turn_bytes(5_000);
            let (server, client) = pair();
            narrow(&server);
            let server = Hesitant(server);
            let mut response = Response::new().bytes(*b"head").slice(slice(&file, 0, 60_000));
            response.push_bytes(*b"middle");
            response.push_slice(slice(&file, 60_000, 40_000));
            let mut received = Vec::new();
            let mut drops = 0;
            loop {
                let sent = polled(polls + 1, sender.send_async(&server, &mut response)).await;
                drain(&client, &mut received);
                match sent {
                    Some(sent) => break sent.unwrap(),
                    None => drops += 1,
                }
                yield_now().await;
            }
            drain(&client, &mut received);
            let expected = [b"head", &bytes[..60_000], b"middle", &bytes[60_000..]].concat();
            assert!(received == expected, "{polls} polls");
            assert!(drops > 1, "{drops} drops");
        }
    }
}

#[tokio::test]
async fn a_wrapped_send_dropped_at_each_await_goes_on_where_it_stopped() {
    let bytes = pattern(300_000);
    let file = file_of(&bytes);
    for polls in 1..4 {
        let mut sender = SocketSender::new().turn_bytes(5_000);
        let (mut server, client) = pair();
        narrow(&server);
        let mut response = Response::new().bytes(*b"head").slice(slice(&file, 0, 300_000));
        let mut received = Vec::new();
        let mut drops = 0;
        loop {
            let send = sender.send_wrapped_async(&mut server, &mut response);
            if let Some(sent) = polled(polls, send).await {
                break sent.unwrap();
            }
            drops += 1;
            drain(&client, &mut received);
            yield_now().await;
        }
        drain(&client, &mut received);
        assert!(received == [b"head", &bytes[..]].concat(), "{polls} polls");
        assert!(drops > 1, "{drops} drops");
    }
}

#[tokio::test]
async fn a_send_dropped_while_another_thread_reads_goes_on_where_it_stopped() {
    let bytes = pattern(3_000_000);
    let file = cold_file_of(&bytes);
    let mut sender = SocketSender::new();
    let (server, client) = pair();
    let mut response = Response::new().bytes(*b"head").slice(slice(&file, 0, 3_000_000));
    let mut received = Vec::new();
    loop {
        let sent = polled(1, sender.send_async(&server, &mut response)).await;
        drain(&client, &mut received);
        if let Some(sent) = sent {
            break sent.unwrap();
        }
        yield_now().await;
    }
    drain(&client, &mut received);
    assert!(received == [b"head", &bytes[..]].concat());
}
