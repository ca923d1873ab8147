//! Any response, in any steps, by any way: what arrives is what it was made of.

use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};

use alluvium_zerocopy_net::{Progress, Response, SendError, SocketSender};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{file_of, narrow, pattern, slice};

const LEN: usize = 400_000;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(LEN));
static FILE: LazyLock<Arc<File>> = LazyLock::new(|| file_of(&BYTES));

#[derive(Clone, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Slice(usize, usize),
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        vec(any::<u8>(), 0..300).prop_map(Piece::Bytes),
        (0..LEN, prop_oneof![0..200_usize, 0..150_000_usize])
            .prop_map(|(from, len)| Piece::Slice(from, len.min(LEN - from))),
    ]
}

/// The response, and what must arrive.
fn made_of(pieces: &[Piece]) -> (Response, Vec<u8>) {
    let mut response = Response::new();
    let mut expected = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => {
                response.push_bytes(bytes.clone());
                expected.extend_from_slice(bytes);
            }
            Piece::Slice(from, len) => {
                response.push_slice(slice(
                    &FILE,
                    (*from).try_into().unwrap(),
                    (*len).try_into().unwrap(),
                ));
                expected.extend_from_slice(&BYTES[*from..from + len]);
            }
        }
    }
    (response, expected)
}

fn drain(mut client: &UnixStream, received: &mut Vec<u8>) {
    let mut buffer = [0; 8_192];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        received.extend_from_slice(&buffer[..count]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_arrives_is_what_the_response_was_made_of(
        pieces in vec(piece(), 0..90),
        turns in vec((1..50_000_u64, any::<bool>()), 1..8),
        small_socket in any::<bool>(),
    ) {
        let (mut response, expected) = made_of(&pieces);
        prop_assert_eq!(response.remaining(), u64::try_from(expected.len()).unwrap());
        let (server, client) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        if small_socket {
            narrow(&server);
        }
        let mut received = Vec::new();
        // Each turn by a sender of its own: nothing that counts is kept there.
        for (turn_bytes, copies) in turns.iter().cycle() {
            let sender = SocketSender::new().turn_bytes(*turn_bytes);
            let mut sender = if *copies { sender.copying() } else { sender };
            let before = response.sent();
            let progress = sender.send_turn(&server, &mut response).unwrap();
            if progress == Progress::Done {
                break;
            }
            prop_assert!(progress == Progress::Blocked || response.sent() > before);
            drain(&client, &mut received);
        }
        drain(&client, &mut received);
        prop_assert_eq!(response.sent(), u64::try_from(expected.len()).unwrap());
        prop_assert!(received == expected);
    }

    /// FR-102.
    #[test]
    fn a_cut_file_ends_the_send_with_a_prefix_of_what_was_promised(
        pieces in vec(piece(), 1..20),
        cut in 0..LEN,
        copies in any::<bool>(),
    ) {
        let mut response = Response::new();
        let file = file_of(&BYTES[..cut]);
        let (_, expected) = made_of(&pieces);
        let mut is_short = false;
        for piece in &pieces {
            match piece {
                Piece::Bytes(bytes) => response.push_bytes(bytes.clone()),
                Piece::Slice(from, len) => {
                    is_short |= *len > 0 && from + len > cut;
                    response.push_slice(slice(&file, (*from).try_into().unwrap(), (*len).try_into().unwrap()));
                }
            }
        }
        let mut received = Vec::new();
        let mut sender = SocketSender::new();
        let sent = if copies {
            sender.send_wrapped(&mut received, &mut response)
        } else {
            let (server, client) = UnixStream::pair().unwrap();
            let reader = crate::support::reader(client);
            let sent = sender.send(&server, &mut response);
            drop(server);
            received = reader.join().unwrap();
            sent
        };
        prop_assert!(expected.starts_with(&received));
        let truncated = matches!(sent, Err(SendError::Truncated { .. }));
        prop_assert_eq!(truncated, is_short, "{:?}", sent);
        prop_assert_eq!(sent.is_ok(), received.len() == expected.len());
    }
}
