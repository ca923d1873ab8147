//! The LZ4 frame by the rules of Kafka's reader: `docs/format/codecs.md#lz4`.

mod high;
mod writer;

use alloc::vec::Vec;

use lz4_flex::block::{DecompressError, decompress_into};
use twox_hash::XxHash32;

pub(super) use self::writer::Writer;
use super::decode::{Fault, Rules, reserve};

/// Reads the blocks of one frame.
pub(crate) struct Reader<'s> {
    scratch: &'s mut Vec<u8>,
    rest: &'s [u8],
    max_block_len: usize,
    block_checksums: bool,
    content_checksum: bool,
    expect: Expect,
}

/// What may come next in a frame.
#[derive(PartialEq, Eq)]
enum Expect {
    BlockOrEnd,
    /// A block held nothing. Kafka's reader takes that for the end, so no other may follow.
    End,
    Nothing,
}

impl<'s> Reader<'s> {
    pub(super) fn open(
        scratch: &'s mut Vec<u8>,
        input: &'s [u8],
        rules: Rules,
    ) -> Result<Self, Fault> {
        let rest = input.strip_prefix(&MAGIC).ok_or(Fault::Broken)?;
        let [flags, block, ..] = *rest else { return Err(Fault::Broken) };
        if flags & !OPTIONS != VERSION_1_INDEPENDENT || block & !BLOCK_CODE != 0 {
            return Err(Fault::Broken);
        }
        let max_block_len = match block >> 4 {
            4 => 64 << 10,
            5 => 256 << 10,
            6 => 1 << 20,
            7 => 4 << 20,
            _ => return Err(Fault::Broken),
        };
        let descriptor_len = if flags & CONTENT_SIZE == 0 { 2 } else { 10 };
        let (descriptor, rest) = rest.split_at_checked(descriptor_len).ok_or(Fault::Broken)?;
        let (stored, rest) = rest.split_first().ok_or(Fault::Broken)?;
        if rules == Rules::Current && *stored != header_checksum(descriptor) {
            return Err(Fault::Broken);
        }
        Ok(Self {
            scratch,
            rest,
            max_block_len,
            block_checksums: flags & BLOCK_CHECKSUMS != 0,
            content_checksum: flags & CONTENT_CHECKSUM != 0,
            expect: Expect::BlockOrEnd,
        })
    }

    pub(super) fn pull(&mut self, out: &mut Vec<u8>, room: usize) -> Result<usize, Fault> {
        while self.expect != Expect::Nothing {
            let added = self.block(out, room)?;
            if added > 0 {
                return Ok(added);
            }
        }
        Ok(0)
    }

    /// Reads one block, or the end mark.
    fn block(&mut self, out: &mut Vec<u8>, room: usize) -> Result<usize, Fault> {
        let size = self.word()?;
        let len = usize::try_from(size & !STORED).unwrap_or(usize::MAX);
        if len == 0 {
            // The content checksum is read and not compared, and what follows is ignored.
            if self.content_checksum {
                self.word()?;
            }
            self.expect = Expect::Nothing;
            return Ok(0);
        }
        if len > self.max_block_len || self.expect == Expect::End {
            return Err(Fault::Broken);
        }
        let (block, rest) = self.rest.split_at_checked(len).ok_or(Fault::Broken)?;
        self.rest = rest;
        if self.block_checksums && self.word()? != XxHash32::oneshot(0, block) {
            return Err(Fault::Broken);
        }
        if size & STORED != 0 {
            return append(block, out, room);
        }
        let added = self.decode(block, out, room)?;
        if added == 0 {
            self.expect = Expect::End;
        }
        Ok(added)
    }

    /// Decodes one block into the scratch buffer and from there onto the end of `out`, which
    /// need not be zeroed for that.
    fn decode(&mut self, block: &[u8], out: &mut Vec<u8>, room: usize) -> Result<usize, Fault> {
        let most = block.len().saturating_mul(MAX_EXPANSION).min(self.max_block_len);
        if self.scratch.len() < most {
            self.scratch.resize(most, 0);
        }
        let allowed = most.min(room);
        let into = self.scratch.get_mut(..allowed).unwrap_or_default();
        match decompress_into(block, into) {
            Ok(added) => append(self.scratch.get(..added).unwrap_or_default(), out, room),
            Err(DecompressError::OutputTooSmall { .. }) if allowed < most => Err(Fault::TooLong),
            Err(_detail) => Err(Fault::Broken),
        }
    }

    fn word(&mut self) -> Result<u32, Fault> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(Fault::Broken)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*word))
    }
}

fn append(bytes: &[u8], out: &mut Vec<u8>, room: usize) -> Result<usize, Fault> {
    if bytes.len() > room {
        return Err(Fault::TooLong);
    }
    reserve(out, bytes.len(), room);
    out.extend_from_slice(bytes);
    Ok(bytes.len())
}

/// The second byte of the xxHash32 of the frame descriptor.
fn header_checksum(descriptor: &[u8]) -> u8 {
    let [_, second, ..] = XxHash32::oneshot(0, descriptor).to_le_bytes();
    second
}

const MAGIC: [u8; 4] = 0x184d_2204_u32.to_le_bytes();

/// Version 1, blocks that do not refer to one another, reserved bits 0.
const VERSION_1_INDEPENDENT: u8 = 0x60;
const OPTIONS: u8 = BLOCK_CHECKSUMS | CONTENT_SIZE | CONTENT_CHECKSUM;
const BLOCK_CHECKSUMS: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const BLOCK_CODE: u8 = 0x70;

/// Bit of a block's size: the block is not compressed.
const STORED: u32 = 0x8000_0000;

/// Each byte of a long match adds 255 bytes.
const MAX_EXPANSION: usize = 255;
