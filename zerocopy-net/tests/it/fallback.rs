//! Where zero copy is lost: the same bytes, and it shows.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use alluvium_zerocopy_net::{
    BYTES_COPIED, BYTES_INLINE, BYTES_ZERO_COPY, CopyReason, FALLBACKS, FileSlice, Response,
    SendPath, SocketSender, TRUNCATED,
};

use crate::recorder::Counts;
use crate::support::{file_of, pattern, reader, slice, tcp_pair};

/// The kernel writes these on demand: they have no pages to lend.
const REFUSED: [&str; 3] = ["/proc/self/limits", "/proc/self/auxv", "/proc/self/uid_map"];

fn refused(path: &str) -> FileSlice {
    FileSlice::new(Arc::new(File::open(path).unwrap()), 0, 30)
}

fn start_of(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(path).unwrap().take(30).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_file_that_sendfile_refuses_is_copied_and_the_next_one_is_not() {
    let bytes = pattern(10_000);
    let file = file_of(&bytes);
    let counts = Counts::default();
    let (server, client) = tcp_pair();
    let received = reader(client);
    metrics::with_local_recorder(&counts, || {
        let mut sender = SocketSender::new();
        let bad = refused(REFUSED[0]);
        for _ in 0..4 {
            let mut response = Response::new().bytes(*b"h").slice(bad.clone());
            response.push_slice(slice(&file, 0, 10_000));
            sender.send(&server, &mut response).unwrap();
        }
        assert_eq!(sender.path(), SendPath::ZeroCopy);
    });
    drop(server);
    let once = [b"h", &start_of(REFUSED[0])[..], &bytes].concat();
    assert!(received.join().unwrap() == once.repeat(4));
    assert_eq!(counts.of(&format!("{FALLBACKS}{{reason=refused}}")), 1);
    assert_eq!((counts.of(BYTES_COPIED), counts.of(BYTES_ZERO_COPY)), (120, 40_000));
}

#[test]
fn a_socket_that_takes_none_of_three_files_is_copied_to_from_then_on() {
    let file = file_of(&pattern(1_000));
    let counts = Counts::default();
    let (server, client) = tcp_pair();
    let received = reader(client);
    metrics::with_local_recorder(&counts, || {
        let mut sender = SocketSender::new();
        for path in REFUSED {
            assert_eq!(sender.path(), SendPath::ZeroCopy);
            sender.send(&server, &mut Response::new().slice(refused(path))).unwrap();
        }
        assert!(matches!(sender.path(), SendPath::Copy(CopyReason::Refused(22))));
        sender.send(&server, &mut Response::new().slice(slice(&file, 0, 1_000))).unwrap();
    });
    drop(server);
    let expected = [&REFUSED.map(start_of).concat()[..], &pattern(1_000)].concat();
    assert!(received.join().unwrap() == expected);
    assert_eq!(counts.of(&format!("{FALLBACKS}{{reason=refused}}")), 3);
    assert_eq!((counts.of(BYTES_COPIED), counts.of(BYTES_ZERO_COPY)), (1_090, 0));
}

#[test]
fn a_wrapped_stream_is_copied_to_and_counted_once() {
    let file = file_of(&pattern(300_000));
    let counts = Counts::default();
    let mut wrapped = Vec::new();
    metrics::with_local_recorder(&counts, || {
        let mut sender = SocketSender::new();
        for _ in 0..2 {
            let mut response = Response::new().bytes(*b"head").slice(slice(&file, 0, 300_000));
            sender.send_wrapped(&mut wrapped, &mut response).unwrap();
        }
        assert_eq!(sender.path(), SendPath::Copy(CopyReason::Wrapped));
    });
    assert_eq!(wrapped.len(), 600_008);
    assert!(wrapped[300_008..] == pattern(300_000));
    assert_eq!(counts.of(&format!("{FALLBACKS}{{reason=wrapped}}")), 1);
    assert_eq!((counts.of(BYTES_COPIED), counts.of(BYTES_INLINE)), (600_000, 8));
}

#[test]
fn bytes_are_counted_by_the_way_they_went() {
    let file = file_of(&pattern(10_000));
    let counts = Counts::default();
    let (server, client) = tcp_pair();
    let received = reader(client);
    metrics::with_local_recorder(&counts, || {
        let mut response = Response::new().bytes(*b"head").slice(slice(&file, 0, 10_000));
        SocketSender::new().send(&server, &mut response).unwrap();
        let mut short = Response::new().slice(slice(&file, 9_999, 2));
        SocketSender::new().send(&server, &mut short).unwrap_err();
    });
    drop(server);
    assert_eq!(received.join().unwrap().len(), 10_005);
    assert_eq!((counts.of(BYTES_ZERO_COPY), counts.of(BYTES_INLINE)), (10_001, 4));
    assert_eq!((counts.of(BYTES_COPIED), counts.of(TRUNCATED)), (0, 1));
}
