//! From tokio.

use alluvium_zerocopy_net::{Response, SocketSender};
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
