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

#[test]
fn a_file_that_sendfile_refuses_is_copied_and_the_reason_is_kept() {
    // The kernel writes this one on demand: it has no pages to lend.
    let path = "/proc/self/status";
    let mut expected = String::new();
    File::open(path).unwrap().take(100).read_to_string(&mut expected).unwrap();
    let counts = Counts::default();
    let (server, client) = tcp_pair();
    let received = reader(client);
    metrics::with_local_recorder(&counts, || {
        let mut sender = SocketSender::new();
        let file = Arc::new(File::open(path).unwrap());
        let mut response = Response::new().bytes(*b"h").slice(FileSlice::new(file, 0, 100));
        sender.send(&server, &mut response).unwrap();
        let refused = matches!(sender.path(), SendPath::Copy(CopyReason::Refused(22)));
        assert!(refused, "{:?}", sender.path());
    });
    drop(server);
    assert_eq!(received.join().unwrap(), [b"h", expected.as_bytes()].concat());
    assert_eq!(counts.of(&format!("{FALLBACKS}{{reason=refused}}")), 1);
    assert_eq!((counts.of(BYTES_COPIED), counts.of(BYTES_ZERO_COPY)), (100, 0));
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
