//! Pages that are not in memory are read by another thread than the runtime's.

use alluvium_segment::page_cache::is_resident;
use alluvium_zerocopy_net::{COLD_READS, Response, SendError, SocketSender};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::recorder::Counts;
use crate::support::{cold_file_of, pattern, slice};

#[test]
fn a_cold_slice_is_read_off_the_runtime_and_a_warm_one_is_not_looked_at_twice() {
    let counts = Counts::default();
    metrics::with_local_recorder(&counts, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(send_twice(&counts));
    });
}

async fn send_twice(counts: &Counts) {
    let bytes = pattern(2_500_000);
    let file = cold_file_of(&bytes);
    assert!(!is_resident(&file, 0..2_500_000).unwrap());
    let (mut server, mut client) = UnixStream::pair().unwrap();
    let mut received = Vec::new();
    let send = async {
        let mut sender = SocketSender::new();
        let mut response = Response::new().bytes(*b"h").slice(slice(&file, 0, 2_500_000));
        sender.send_async(&server, &mut response).await.unwrap();
        assert!(is_resident(&file, 0..2_500_000).unwrap());
        let cold = counts.of(COLD_READS);
        // The kernel may have read ahead into the second and third window.
        assert!((1..=3).contains(&cold), "{cold} cold reads");
        let mut response = Response::new().bytes(*b"h").slice(slice(&file, 0, 2_500_000));
        sender.send_wrapped_async(&mut server, &mut response).await.unwrap();
        assert_eq!(counts.of(COLD_READS), cold);
        drop(server);
    };
    let (read, ()) = tokio::join!(client.read_to_end(&mut received), send);
    read.unwrap();
    assert!(received == [b"h", &bytes[..], b"h", &bytes[..]].concat());
}

/// FR-102.
#[tokio::test]
async fn a_cold_slice_that_is_short_is_an_error_after_one_read() {
    let file = cold_file_of(&pattern(10_000));
    let (server, _client) = UnixStream::pair().unwrap();
    let mut response = Response::new().slice(slice(&file, 0, 2_000_000));
    let error = SocketSender::new().send_async(&server, &mut response).await.unwrap_err();
    let short = matches!(error, SendError::Truncated { position: 10_000, .. });
    assert!(short, "{error}");
}
