//! Bare sockets: what arrives is what the response holds.

use std::io::{Read, Seek};
use std::os::unix::net::UnixStream;

use alluvium_zerocopy_net::{CopyReason, Progress, Response, SendPath, SocketSender};

use crate::support::{file_of, narrow, pattern, reader, slice, tcp_pair};

#[test]
fn headers_and_slices_arrive_in_order_over_tcp() {
    let bytes = pattern(3_000_000);
    let file = file_of(&bytes);
    let (server, client) = tcp_pair();
    let received = reader(client);
    let mut response = Response::new().bytes(*b"head").bytes(*b"er");
    response.push_slice(slice(&file, 10, 1_000_000));
    response.push_bytes(*b"middle");
    response.push_slice(slice(&file, 2_000_000, 1_000_000));
    response.push_bytes(*b"end");
    SocketSender::new().send(&server, &mut response).unwrap();
    drop(server);
    let expected =
        [b"header", &bytes[10..1_000_010], b"middle", &bytes[2_000_000..], b"end"].concat();
    assert!(received.join().unwrap() == expected);
    assert_eq!((response.sent(), response.remaining()), (2_000_015, 0));
}

#[test]
fn a_unix_socket_is_sent_to_without_a_copy_as_well() {
    let bytes = pattern(500_000);
    let file = file_of(&bytes);
    let (server, client) = UnixStream::pair().unwrap();
    let received = reader(client);
    let mut sender = SocketSender::new();
    let mut response = Response::new().bytes(*b"h").slice(slice(&file, 0, 500_000));
    response.push_slice(slice(&file, 7, 3));
    sender.send(&server, &mut response).unwrap();
    drop(server);
    assert!(received.join().unwrap() == [b"h", &bytes[..], &bytes[7..10]].concat());
    assert_eq!(sender.path(), SendPath::ZeroCopy);
}

#[test]
fn copying_sends_the_same_bytes() {
    let bytes = pattern(700_000);
    let file = file_of(&bytes);
    let (server, client) = tcp_pair();
    let received = reader(client);
    let mut response = Response::new().bytes(*b"h").slice(slice(&file, 1, 600_000));
    response.push_bytes(*b"t");
    let mut sender = SocketSender::new().copying();
    sender.send(&server, &mut response).unwrap();
    drop(server);
    assert!(received.join().unwrap() == [b"h", &bytes[1..600_001], b"t"].concat());
    assert_eq!(sender.path(), SendPath::Copy(CopyReason::Asked));
}

/// FR-101.
#[test]
fn a_slice_that_moves_in_small_steps_ends_where_it_was_promised_to() {
    let bytes = pattern(5_000);
    let file = file_of(&bytes);
    let cursor = (&*file).stream_position().unwrap();
    let (server, mut client) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    client.set_nonblocking(true).unwrap();
    narrow(&server);
    let mut sender = SocketSender::new().turn_bytes(300);
    let mut response = Response::new().slice(slice(&file, 2_000, 1_000));
    let mut received = Vec::new();
    let mut turns = 0;
    loop {
        let progress = sender.send_turn(&server, &mut response).unwrap();
        turns += 1;
        let mut buffer = [0; 300];
        if let Ok(count) = client.read(&mut buffer) {
            received.extend_from_slice(&buffer[..count]);
        }
        if progress == Progress::Done {
            break;
        }
    }
    drop(server);
    client.set_nonblocking(false).unwrap();
    client.read_to_end(&mut received).unwrap();
    assert_eq!(received, &bytes[2_000..3_000]);
    assert!(turns >= 4, "{turns} turns");
    assert_eq!((&*file).stream_position().unwrap(), cursor);
}

#[test]
fn a_full_socket_blocks_and_goes_on_when_it_is_read() {
    let bytes = pattern(4_000_000);
    let file = file_of(&bytes);
    for sender in [SocketSender::new(), SocketSender::new().copying()] {
        let mut sender = sender.turn_bytes(u64::MAX);
        let (server, mut client) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        narrow(&server);
        let mut response = Response::new().bytes(*b"h").slice(slice(&file, 0, 4_000_000));
        let mut received = Vec::new();
        let mut blocked = 0;
        while sender.send_turn(&server, &mut response).unwrap() != Progress::Done {
            blocked += 1;
            let mut buffer = [0; 16_000];
            while let Ok(count) = client.read(&mut buffer) {
                received.extend_from_slice(&buffer[..count]);
            }
        }
        drop(server);
        client.set_nonblocking(false).unwrap();
        client.read_to_end(&mut received).unwrap();
        assert!(received == [b"h", &bytes[..]].concat());
        assert!(blocked > 1, "the socket was never full");
    }
}

#[test]
fn a_socket_that_is_gone_is_an_error() {
    let file = file_of(&pattern(4_000_000));
    let (server, client) = tcp_pair();
    drop(client);
    let mut sender = SocketSender::new();
    let mut response = Response::new().bytes(*b"h").slice(slice(&file, 0, 4_000_000));
    let error = sender.send(&server, &mut response).unwrap_err();
    assert!(matches!(error, alluvium_zerocopy_net::SendError::Socket { .. }), "{error}");
}
