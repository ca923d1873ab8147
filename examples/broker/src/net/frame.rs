//! Frames: a length, the header of a request, its body.

use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::messages::ApiKey;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use super::budget::{Budget, Share};
use super::{Hangup, budget};
use crate::wire::Reader;

/// A frame without its length.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: BytesMut,
    /// Its share of the memory in flight.
    pub(crate) share: Share,
}

/// How long a client is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Between two requests.
    pub(super) idle: Duration,
    /// For the next piece of a request, or for some of an answer to be read.
    pub(super) stall: Duration,
}

/// What is in front of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// Where the body begins in the frame.
    pub(crate) len: usize,
}

/// Reads the next frame; `None` where the client has closed the connection between two.
///
/// Memory is taken for the bytes that come, not for those that are announced. A client that stops
/// within a frame, or sends the rest by drops, is not waited for: each piece has its time.
pub(super) async fn read_frame<S: AsyncRead + Unpin>(
    stream: &mut S,
    budget: &Budget,
    max_bytes: u32,
    patience: &Patience,
) -> Result<Option<Frame>, Hangup> {
    let stall = patience.stall;
    let mut length = [0; 4];
    let socket = |source| Hangup::Socket { source };
    let first = timeout(patience.idle, stream.read(&mut length)).await;
    let first = first.map_err(|_elapsed| Hangup::Idle)?.map_err(socket)?;
    if first == 0 {
        return Ok(None);
    }
    let rest = stream.read_exact(length.get_mut(first..).unwrap_or_default());
    timeout(stall, rest).await.map_err(|_elapsed| Hangup::Stalled)?.map_err(socket)?;
    let size = i32::from_be_bytes(length);
    let size = match u32::try_from(size) {
        Ok(size) if size <= max_bytes => size,
        _ => return Err(Hangup::FrameSize { size: i64::from(size), max: max_bytes }),
    };
    let wanted = usize::try_from(size).unwrap_or(usize::MAX);
    let mut bytes = budget.buffer(wanted);
    let mut share = budget.share();
    let mut granted = wanted.min(budget::SMALL);
    loop {
        bytes.reserve(granted - bytes.len());
        read_up_to(stream, &mut bytes, granted, stall).await?;
        if granted == wanted {
            return Ok(Some(Frame { bytes, share }));
        }
        granted = wanted.min(granted.saturating_mul(2).max(budget::SMALL_STEP));
        let more = timeout(stall, share.grow_to(granted));
        more.await.map_err(|_elapsed| Hangup::Crowded)?;
    }
}

/// Reads until the buffer is `end` bytes long; every piece of it has to come in time.
async fn read_up_to<S: AsyncRead + Unpin>(
    stream: &mut S,
    bytes: &mut BytesMut,
    end: usize,
    stall: Duration,
) -> Result<(), Hangup> {
    while bytes.len() < end {
        let piece_end = end.min(bytes.len().saturating_add(PIECE));
        let piece = async {
            while bytes.len() < piece_end {
                let missing = u64::try_from(piece_end - bytes.len()).unwrap_or(u64::MAX);
                let mut limited = (&mut *stream).take(missing);
                let read = limited.read_buf(bytes).await;
                if read.map_err(|source| Hangup::Socket { source })? == 0 {
                    return Err(Hangup::Gone);
                }
            }
            Ok(())
        };
        timeout(stall, piece).await.map_err(|_elapsed| Hangup::Stalled)??;
    }
    Ok(())
}

/// What has to come in the time that a client may stall.
const PIECE: usize = 1 << 20;

impl Header {
    /// Reads the header of a request.
    pub(super) fn parse(frame: &[u8]) -> Result<Self, Hangup> {
        let mut reader = Reader::new(frame, false);
        let (key, version) = (reader.i16()?, reader.i16()?);
        let correlation_id = reader.i32()?;
        let not_served = Hangup::NotServed { key, version };
        let Ok(key) = ApiKey::try_from(key) else { return Err(not_served) };
        // Whatever the version of `ApiVersions`, it is answered.
        let served = key == ApiKey::ApiVersions || crate::api::serves(key, version);
        if !served {
            return Err(not_served);
        }
        reader.string()?;
        if key.request_header_version(version) >= 2 {
            reader = reader.flexible(true);
            reader.tagged_fields()?;
        }
        Ok(Self { key, version, correlation_id, len: reader.at() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(mut bytes: &[u8]) -> Result<Option<Frame>, Hangup> {
        let budget = Budget::new(1 << 20);
        let second = Duration::from_secs(1);
        let patience = Patience { idle: second, stall: second };
        read_frame(&mut bytes, &budget, 1 << 20, &patience).await
    }

    #[tokio::test]
    async fn a_frame_is_read_whole() {
        let frame = read(&[0, 0, 0, 2, 7, 8, 9]).await.unwrap().unwrap();
        assert_eq!(&frame.bytes[..], [7, 8]);
        assert!(read(&[]).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_length_that_is_negative_or_huge_is_refused() {
        for length in [i32::MAX, -1, i32::MIN, (1 << 20) + 1] {
            let refused = read(&length.to_be_bytes()).await.unwrap_err();
            assert!(matches!(refused, Hangup::FrameSize { .. }), "{length}");
        }
    }

    #[tokio::test]
    async fn half_a_frame_ends_the_connection() {
        assert!(matches!(read(&[0, 0, 0, 9, 1]).await.unwrap_err(), Hangup::Gone));
        assert!(matches!(read(&[0, 0]).await.unwrap_err(), Hangup::Socket { .. }));
    }

    #[test]
    fn an_unknown_key_is_not_served() {
        let refused = Header::parse(&[0x7f, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff]).unwrap_err();
        assert!(matches!(refused, Hangup::NotServed { key: 0x7f00, version: 0 }));
    }
}
