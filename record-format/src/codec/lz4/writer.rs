//! Writes one LZ4 frame a payload, with the options that Kafka's writer takes.

use alloc::vec::Vec;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use super::high::HighCompressor;
use super::{MAGIC, STORED, VERSION_1_INDEPENDENT};
use crate::codec::compress::Failed;

/// Collects a block and writes it.
pub(in crate::codec) struct Writer {
    packer: Packer,
    block: Vec<u8>,
    begun: bool,
}

/// Packs blocks, each by itself.
enum Packer {
    /// With the room that a block is compressed to: zeroed once, not for every block.
    Fast(CompressTable, Vec<u8>),
    High(HighCompressor, Vec<u8>),
}

impl Writer {
    /// One at `level`: 9 is the fast compressor, all others are the high one.
    pub(in crate::codec) fn new(level: i32) -> Self {
        let packer = if level == FAST_LEVEL {
            Packer::Fast(CompressTable::default(), Vec::new())
        } else {
            Packer::High(HighCompressor::new(level), Vec::new())
        };
        Self { packer, block: Vec::new(), begun: false }
    }

    pub(in crate::codec) fn write(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Failed> {
        self.begin(out);
        let mut rest = bytes;
        loop {
            let missing = BLOCK_LEN.saturating_sub(self.block.len());
            let Some((part, after)) = rest.split_at_checked(missing) else { break };
            if self.block.is_empty() {
                self.packer.append(part, out)?;
            } else {
                self.block.extend_from_slice(part);
                self.packer.append(&self.block, out)?;
                self.block.clear();
            }
            rest = after;
        }
        self.block.extend_from_slice(rest);
        Ok(())
    }

    pub(in crate::codec) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failed> {
        self.begin(out);
        if !self.block.is_empty() {
            self.packer.append(&self.block, out)?;
        }
        out.extend_from_slice(&END_MARK);
        self.reset();
        Ok(())
    }

    pub(in crate::codec) fn reset(&mut self) {
        self.block.clear();
        self.begun = false;
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !self.begun {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&[VERSION_1_INDEPENDENT, BLOCKS_OF_64_KIB, HEADER_CHECKSUM]);
            self.begun = true;
        }
    }
}

impl Packer {
    /// Compresses one block onto the end of `out`, behind its length; stores it where that is
    /// not shorter.
    fn append(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
        let packed = self.pack(block)?;
        let (flag, bytes) = if packed.len() < block.len() { (0, packed) } else { (STORED, block) };
        let size = u32::try_from(bytes.len()).map_err(|_detail| Failed)?;
        out.extend_from_slice(&(size | flag).to_le_bytes());
        out.extend_from_slice(bytes);
        Ok(())
    }

    fn pack(&mut self, block: &[u8]) -> Result<&[u8], Failed> {
        match self {
            Self::Fast(table, packed) => {
                let most = get_maximum_output_size(block.len());
                if packed.len() < most {
                    packed.resize(most, 0);
                }
                let len = compress_into_with_table(block, packed, table);
                packed.get(..len.map_err(|_detail| Failed)?).ok_or(Failed)
            }
            Self::High(compressor, packed) => {
                packed.clear();
                compressor.compress(block, packed);
                Ok(packed)
            }
        }
    }
}

/// Kafka's default level, and its only one for the fast compressor.
const FAST_LEVEL: i32 = 9;
const BLOCK_LEN: usize = 64 << 10;
const BLOCKS_OF_64_KIB: u8 = 0x40;

/// The second byte of the xxHash32 of `60 40`.
const HEADER_CHECKSUM: u8 = 0x82;
const END_MARK: [u8; 4] = [0; 4];
