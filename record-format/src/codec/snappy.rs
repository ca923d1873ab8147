//! snappy in xerial framing, or as one raw block: `docs/format/codecs.md#snappy`.

mod writer;

use alloc::vec::Vec;

pub(super) use self::writer::Writer;
use super::decode::{Fault, reserve};

/// Reads the chunks of one payload.
pub(crate) struct Reader<'s> {
    rest: &'s [u8],
    framed: bool,
}

impl<'s> Reader<'s> {
    pub(super) fn open(input: &'s [u8]) -> Result<Self, Fault> {
        if input.is_empty() {
            return Err(Fault::Broken);
        }
        // The version fields of the first header are not looked at.
        match input.split_at_checked(HEADER_LEN) {
            Some((header, rest)) if header.starts_with(&MAGIC) => Ok(Self { rest, framed: true }),
            _ => Ok(Self { rest: input, framed: false }),
        }
    }

    pub(super) fn pull(&mut self, out: &mut Vec<u8>, room: usize) -> Result<usize, Fault> {
        while let Some(chunk) = self.next_chunk()? {
            let added = decode(chunk, out, room)?;
            if added > 0 {
                return Ok(added);
            }
        }
        Ok(0)
    }

    /// The next raw block. Three bytes or fewer are no chunk, and end the stream.
    fn next_chunk(&mut self) -> Result<Option<&'s [u8]>, Fault> {
        if !self.framed {
            let block = core::mem::take(&mut self.rest);
            return Ok((!block.is_empty()).then_some(block));
        }
        while let Some((len, rest)) = self.rest.split_first_chunk() {
            if *len == MAGIC_HEAD {
                self.skip_header()?;
                continue;
            }
            let len = i32::from_be_bytes(*len);
            let len = usize::try_from(len).map_err(|_negative| Fault::Broken)?;
            let (chunk, rest) = rest.split_at_checked(len).ok_or(Fault::Broken)?;
            self.rest = rest;
            return Ok(Some(chunk));
        }
        Ok(None)
    }

    /// Steps over the header of a stream that was appended to the one before.
    fn skip_header(&mut self) -> Result<(), Fault> {
        let (header, rest) = self.rest.split_at_checked(HEADER_LEN).ok_or(Fault::Broken)?;
        let version = header.strip_prefix(&MAGIC).and_then(<[u8]>::first_chunk);
        if version.is_none_or(|version| i32::from_be_bytes(*version) < 1) {
            return Err(Fault::Broken);
        }
        self.rest = rest;
        Ok(())
    }
}

/// Decodes one raw block onto the end of `out`.
fn decode(block: &[u8], out: &mut Vec<u8>, room: usize) -> Result<usize, Fault> {
    if block.is_empty() {
        return Err(Fault::Broken);
    }
    // A claim, to be held against what so many bytes can expand to at best and what is allowed.
    let claimed = snap::raw::decompress_len(block).map_err(|_detail| Fault::Broken)?;
    if claimed > block.len().saturating_mul(MAX_EXPANSION) {
        return Err(Fault::Broken);
    }
    if claimed > room {
        return Err(Fault::TooLong);
    }
    let start = out.len();
    reserve(out, claimed, room);
    out.resize(start.saturating_add(claimed), 0);
    let into = out.get_mut(start..).unwrap_or_default();
    match snap::raw::Decoder::new().decompress(block, into) {
        Ok(added) => Ok(added),
        Err(_detail) => {
            out.truncate(start);
            Err(Fault::Broken)
        }
    }
}

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const MAGIC_HEAD: [u8; 4] = *b"\x82SNA";

/// Magic, version, smallest compatible version.
const HEADER_LEN: usize = 16;

/// A copy of 64 bytes takes three.
const MAX_EXPANSION: usize = 22;
