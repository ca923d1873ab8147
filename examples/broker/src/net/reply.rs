//! An answer: bytes of its own, and slices of logs between them.

use alluvium_segment::SegmentSlice;
use alluvium_zerocopy_net::Response;
use bytes::{BufMut, BytesMut};

use super::Header;

/// An answer in the order of its parts, with length and header.
#[derive(Debug)]
pub(crate) struct Reply(pub(super) Response);

/// Puts an answer together. Slices are not copied: they go from the page cache to the socket.
#[derive(Debug)]
pub(crate) struct ReplyBuilder {
    /// Bytes since the last slice.
    pub(crate) bytes: BytesMut,
    parts: Vec<(BytesMut, SegmentSlice)>,
    len: usize,
}

impl ReplyBuilder {
    /// Begins the answer to a request.
    pub(crate) fn new(header: &Header, version: i16) -> Self {
        let mut bytes = BytesMut::with_capacity(128);
        bytes.put_i32(0); // the length, once it is known
        bytes.put_i32(header.correlation_id);
        if header.key.response_header_version(version) >= 1 {
            bytes.put_u8(0); // no tagged fields
        }
        Self { bytes, parts: Vec::new(), len: 0 }
    }

    /// Adds a slice of a log behind what is there.
    pub(crate) fn slice(&mut self, slice: SegmentSlice) {
        let before = std::mem::take(&mut self.bytes);
        self.len += before.len() + usize::try_from(slice.len()).unwrap_or(usize::MAX);
        self.parts.push((before, slice));
    }

    /// Ends the answer: its length goes in front.
    pub(crate) fn finish(mut self) -> Reply {
        let len = self.len.saturating_add(self.bytes.len()).saturating_sub(LENGTH_LEN);
        let len = i32::try_from(len).unwrap_or(i32::MAX).to_be_bytes();
        let first = self.parts.first_mut().map_or(&mut self.bytes, |(bytes, _)| bytes);
        if let Some(prefix) = first.first_chunk_mut::<LENGTH_LEN>() {
            *prefix = len;
        }
        let mut response = Response::new();
        for (bytes, slice) in self.parts {
            response.push_bytes(bytes);
            response.push_slice(slice);
        }
        response.push_bytes(self.bytes);
        Reply(response)
    }
}

const LENGTH_LEN: usize = 4;
