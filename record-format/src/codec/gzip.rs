//! gzip as `java.util.zip.GZIPInputStream` reads it: `docs/format/codecs.md#gzip`.

mod writer;

use alloc::vec::Vec;

use flate2::{Decompress, FlushDecompress, Status};

pub(super) use self::writer::Writer;
use super::decode::{Fault, reserve};

/// Reads the members of one payload.
pub(crate) struct Reader<'s> {
    inflate: &'s mut Decompress,
    input: &'s [u8],
    /// The next compressed byte.
    at: usize,
    /// Where the fills of Java's input buffer begin to be counted.
    fills_from: usize,
    crc: crc32fast::Hasher,
    done: bool,
}

impl<'s> Reader<'s> {
    pub(super) fn open(inflate: &'s mut Decompress, input: &'s [u8]) -> Result<Self, Fault> {
        let at = header_len(input).ok_or(Fault::Broken)?;
        inflate.reset(false);
        let crc = crc32fast::Hasher::new();
        Ok(Self { inflate, input, at, fills_from: at, crc, done: false })
    }

    pub(super) fn pull(&mut self, out: &mut Vec<u8>, room: usize) -> Result<usize, Fault> {
        while !self.done {
            reserve(out, 1, room);
            let rest = self.input.get(self.at..).unwrap_or_default();
            let (taken_before, len_before) = (self.inflate.total_in(), out.len());
            let status = self
                .inflate
                .decompress_vec(rest, out, FlushDecompress::None)
                .map_err(|_detail| Fault::Broken)?;
            let taken = self.inflate.total_in().saturating_sub(taken_before);
            let taken = usize::try_from(taken).unwrap_or(usize::MAX);
            let piece = out.get(len_before..).unwrap_or_default();
            self.at = self.at.saturating_add(taken);
            self.crc.update(piece);
            let added = piece.len();
            if status == Status::StreamEnd {
                self.end_member()?;
            } else if added == 0 && (taken == 0 || taken == rest.len()) {
                return Err(Fault::Broken);
            }
            if added > 0 {
                return Ok(added);
            }
        }
        Ok(0)
    }

    /// Checks the trailer, and goes on to the next member where Java would.
    ///
    /// Java looks for one if its source has bytes left behind its input buffer, or if the buffer
    /// still holds more than 26 bytes. What is left otherwise is ignored, as is anything that
    /// does not begin with a sound header.
    fn end_member(&mut self) -> Result<(), Fault> {
        let after = self.at.saturating_add(TRAILER_LEN);
        let trailer = self.input.get(self.at..after).ok_or(Fault::Broken)?;
        let crc = core::mem::take(&mut self.crc).finalize().to_le_bytes();
        let [s0, s1, s2, s3, ..] = self.inflate.total_out().to_le_bytes();
        let (stored_crc, stored_size) = trailer.split_at_checked(4).ok_or(Fault::Broken)?;
        if stored_crc != crc || stored_size != [s0, s1, s2, s3] {
            return Err(Fault::Broken);
        }

        let fills = self.at.saturating_sub(self.fills_from).div_ceil(JAVA_BUFFER_LEN);
        let filled_to = self.fills_from.saturating_add(fills.saturating_mul(JAVA_BUFFER_LEN));
        let filled_to = filled_to.min(self.input.len());
        let buffered = filled_to.saturating_sub(self.at);
        if buffered <= 26 && self.input.len() <= filled_to.max(after) {
            self.done = true;
            return Ok(());
        }
        let next = self.input.get(after..).unwrap_or_default();
        let Some(header_len) = header_len(next) else {
            self.done = true;
            return Ok(());
        };
        self.inflate.reset(false);
        self.at = after.saturating_add(header_len);
        if self.at >= filled_to {
            self.fills_from = self.at;
        }
        Ok(())
    }
}

/// Bytes of the member header at the start of `bytes`, or `None` where it is bad or cut. Unknown
/// flags are not looked at.
fn header_len(bytes: &[u8]) -> Option<usize> {
    let (fixed, mut rest) = bytes.split_at_checked(HEADER_LEN)?;
    let [0x1f, 0x8b, 8, flags, ..] = *fixed else { return None };
    if flags & EXTRA != 0 {
        let (len, tail) = rest.split_first_chunk()?;
        rest = tail.get(usize::from(u16::from_le_bytes(*len))..)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = rest.get(end.checked_add(1)?..)?;
        }
    }
    let mut len = bytes.len().checked_sub(rest.len())?;
    if flags & HEADER_CRC != 0 {
        let [low, high, ..] = crc32fast::hash(bytes.get(..len)?).to_le_bytes();
        if *rest.first_chunk()? != [low, high] {
            return None;
        }
        len = len.checked_add(2)?;
    }
    Some(len)
}

const HEADER_LEN: usize = 10;
const TRAILER_LEN: usize = 8;
const HEADER_CRC: u8 = 0x02;
const EXTRA: u8 = 0x04;
const NAME: u8 = 0x08;
const COMMENT: u8 = 0x10;

/// The input buffer that Kafka gives to `GZIPInputStream`.
const JAVA_BUFFER_LEN: usize = 8 << 10;
