//! A file that is shorter than promised fails its connection, at once.

use std::io::Read;
use std::os::unix::net::UnixStream;

use alluvium_zerocopy_net::{Response, SendError, SendPath, SocketSender};

use crate::support::{file_of, pattern, reader, slice, tcp_pair};

fn senders() -> [SocketSender; 2] {
    [SocketSender::new(), SocketSender::new().copying()]
}

/// FR-102.
#[test]
fn a_slice_past_the_end_of_the_file_sends_what_is_there_and_fails() {
    for mut sender in senders() {
        let (server, client) = tcp_pair();
        let received = reader(client);
        let mut response = Response::new().slice(slice(&file_of(b"12345"), 0, 10));
        let error = sender.send(&server, &mut response).unwrap_err();
        assert!(matches!(error, SendError::Truncated { position: 5, missing: 5, .. }), "{error}");
        drop(server);
        assert_eq!(received.join().unwrap(), b"12345");
        let again = sender.send(server_of_nobody(), &mut response).unwrap_err();
        assert!(matches!(again, SendError::Broken), "{again}");
    }
}

/// FR-102.
#[test]
fn a_file_cut_during_the_send_fails_after_its_last_byte() {
    for sender in senders() {
        let mut sender = sender.turn_bytes(100);
        let bytes = pattern(1_000);
        let file = file_of(&bytes);
        let (server, mut client) = UnixStream::pair().unwrap();
        let mut response = Response::new().slice(slice(&file, 0, 1_000));
        sender.send_turn(&server, &mut response).unwrap();
        let mut received = vec![0; usize::try_from(response.sent()).unwrap()];
        client.read_exact(&mut received).unwrap();
        file.set_len(400).unwrap();
        match sender.send(&server, &mut response) {
            // The copy had read all of it before the cut.
            Ok(()) => assert_ne!(sender.path(), SendPath::ZeroCopy),
            Err(SendError::Truncated { position: 400, missing: 600, .. }) => {}
            Err(error) => panic!("{error}"),
        }
        drop(server);
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received, &bytes[..received.len()]);
    }
}

#[test]
fn nothing_is_sent_of_what_follows_a_short_file() {
    for mut sender in senders() {
        let (server, client) = tcp_pair();
        let received = reader(client);
        let mut response = Response::new().bytes(*b"h").slice(slice(&file_of(b""), 0, 10));
        response.push_bytes(*b"never");
        sender.send(&server, &mut response).unwrap_err();
        drop(server);
        assert!(!received.join().unwrap().ends_with(b"never"));
    }
}

fn server_of_nobody() -> UnixStream {
    UnixStream::pair().unwrap().0
}
