//! Frames: a length, the header of a request, its body.

use std::ops::RangeInclusive;
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

/// Reads frames one after the other, each into a buffer of its own: nothing is copied.
///
/// A client that sends on without waiting for answers has the length of its next frame lie behind
/// the one that is read: it comes along, which saves a system call.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    /// The first bytes of the next frame's length.
    ahead: [u8; LENGTH_LEN],
    ahead_len: usize,
}

impl FrameReader {
    /// Reads the next frame; `None` where the client has closed the connection between two.
    ///
    /// Memory is taken for the bytes that come, not for those that are announced. A client that
    /// stops within a frame, or sends the rest by drops, is not waited for: each piece has its
    /// time.
    pub(super) async fn read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        budget: &Budget,
        max_bytes: u32,
        patience: &Patience,
    ) -> Result<Option<Frame>, Hangup> {
        let stall = patience.stall;
        let Some(size) = self.read_length(stream, patience).await? else { return Ok(None) };
        let size = match u32::try_from(size) {
            Ok(size) if size <= max_bytes => size,
            _ => return Err(Hangup::FrameSize { size: i64::from(size), max: max_bytes }),
        };
        let wanted = usize::try_from(size).unwrap_or(usize::MAX);
        let mut share = budget.share();
        let mut bytes = budget.buffer(wanted, &mut share);
        let mut granted = wanted.min(budget::SMALL);
        while granted < wanted {
            bytes.reserve(granted - bytes.len());
            read_between(stream, &mut bytes, granted..=granted, stall).await?;
            granted = wanted.min(granted.saturating_mul(2).max(budget::SMALL_STEP));
            let more = timeout(stall, share.grow_to(granted));
            more.await.map_err(|_elapsed| Hangup::Crowded)?;
        }
        let with_next = wanted.saturating_add(LENGTH_LEN);
        bytes.reserve(with_next - bytes.len());
        read_between(stream, &mut bytes, wanted..=with_next, stall).await?;
        self.take_ahead(&mut bytes, wanted);
        Ok(Some(Frame { bytes, share }))
    }

    /// The length of the next frame, as far as it is not here yet from the stream.
    async fn read_length<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        patience: &Patience,
    ) -> Result<Option<i32>, Hangup> {
        let socket = |source| Hangup::Socket { source };
        let mut length = std::mem::take(&mut self.ahead);
        let mut here = std::mem::take(&mut self.ahead_len);
        if here == 0 {
            let first = timeout(patience.idle, stream.read(&mut length)).await;
            here = first.map_err(|_elapsed| Hangup::Idle)?.map_err(socket)?;
            if here == 0 {
                return Ok(None);
            }
        }
        if let Some(rest @ [_, ..]) = length.get_mut(here..) {
            let rest = timeout(patience.stall, stream.read_exact(rest)).await;
            rest.map_err(|_elapsed| Hangup::Stalled)?.map_err(socket)?;
        }
        Ok(Some(i32::from_be_bytes(length)))
    }

    /// Keeps what lies behind the frame for the next one.
    fn take_ahead(&mut self, bytes: &mut BytesMut, frame_len: usize) {
        let behind = bytes.get(frame_len..).unwrap_or_default();
        for (kept, byte) in self.ahead.iter_mut().zip(behind) {
            *kept = *byte;
        }
        self.ahead_len = behind.len().min(LENGTH_LEN);
        bytes.truncate(frame_len);
    }
}

/// Reads until the buffer has as many bytes as it must, and up to as many as it may where they are
/// there at once; every piece of it has to come in time.
async fn read_between<S: AsyncRead + Unpin>(
    stream: &mut S,
    bytes: &mut BytesMut,
    len: RangeInclusive<usize>,
    stall: Duration,
) -> Result<(), Hangup> {
    let (least, most) = len.into_inner();
    while bytes.len() < least {
        let piece_end = least.min(bytes.len().saturating_add(PIECE));
        let piece = async {
            while bytes.len() < piece_end {
                let room = if piece_end == least { most } else { piece_end } - bytes.len();
                let mut limited = (&mut *stream).take(u64::try_from(room).unwrap_or(u64::MAX));
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

const LENGTH_LEN: usize = 4;
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
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    async fn read(mut bytes: &[u8]) -> Result<Option<Frame>, Hangup> {
        let budget = Budget::new(1 << 20);
        let second = Duration::from_secs(1);
        let patience = Patience { idle: second, stall: second };
        FrameReader::default().read(&mut bytes, &budget, 1 << 20, &patience).await
    }

    #[tokio::test]
    async fn a_frame_is_read_whole() {
        let frame = read(&[0, 0, 0, 2, 7, 8, 9]).await.unwrap().unwrap();
        assert_eq!(&frame.bytes[..], [7, 8]);
        assert!(read(&[]).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn frames_that_come_together_are_told_apart() {
        let budget = Budget::new(4 << 20);
        let second = Duration::from_secs(1);
        let patience = Patience { idle: second, stall: second };
        let mut sent = Vec::new();
        let sizes = [0_usize, 1, 3, 16_500, 70_000, 2 << 20, 5];
        for size in sizes {
            sent.extend(u32::try_from(size).unwrap().to_be_bytes());
            sent.extend((0..size).map(|at| u8::try_from(at % 251).unwrap()));
        }
        // However the bytes are cut into reads.
        for cut in [1, 7, 4096, 100_000, usize::MAX] {
            let mut stream = Pieces { rest: &sent, cut };
            let mut reader = FrameReader::default();
            for size in sizes {
                let read = reader.read(&mut stream, &budget, 4 << 20, &patience).await;
                let frame = read.unwrap().unwrap();
                assert_eq!(frame.bytes.len(), size);
                assert!(
                    frame.bytes.iter().enumerate().all(|(at, byte)| at % 251 == (*byte).into())
                );
            }
            assert!(reader.read(&mut stream, &budget, 9, &patience).await.unwrap().is_none());
        }
    }

    /// Gives its bytes in pieces.
    struct Pieces<'a> {
        rest: &'a [u8],
        cut: usize,
    }

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            let len = self.cut.min(out.remaining()).min(self.rest.len());
            let (piece, rest) = self.rest.split_at(len);
            out.put_slice(piece);
            self.rest = rest;
            Poll::Ready(Ok(()))
        }
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
