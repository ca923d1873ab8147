//! Writes xerial framing: a header, then blocks of 32 KiB.

use alloc::boxed::Box;
use alloc::vec::Vec;

use snap::raw::{Encoder, max_compress_len};

use super::{HEADER_LEN, MAGIC};
use crate::codec::compress::Failed;

/// Collects a block and writes it.
pub(in crate::codec) struct Writer {
    /// Boxed: its hash table is 2 KiB.
    encoder: Box<Encoder>,
    block: Vec<u8>,
    begun: bool,
}

impl Writer {
    pub(in crate::codec) fn new() -> Self {
        Self { encoder: Box::new(Encoder::new()), block: Vec::new(), begun: false }
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
                append(&mut self.encoder, part, out)?;
            } else {
                self.block.extend_from_slice(part);
                append(&mut self.encoder, &self.block, out)?;
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
            append(&mut self.encoder, &self.block, out)?;
        }
        self.reset();
        Ok(())
    }

    pub(in crate::codec) fn reset(&mut self) {
        self.block.clear();
        self.begun = false;
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !self.begun {
            out.extend_from_slice(&HEADER);
            self.begun = true;
        }
    }
}

/// Compresses one block onto the end of `out`, behind its length.
fn append(encoder: &mut Encoder, block: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
    let length_at = out.len();
    let start = length_at.saturating_add(4);
    out.resize(start.saturating_add(max_compress_len(block.len())), 0);
    let into = out.get_mut(start..).unwrap_or_default();
    let len = encoder.compress(block, into).map_err(|_detail| Failed)?;
    out.truncate(start.saturating_add(len));
    let len = u32::try_from(len).map_err(|_detail| Failed)?;
    let field = out.get_mut(length_at..start).ok_or(Failed)?;
    field.copy_from_slice(&len.to_be_bytes());
    Ok(())
}

/// Magic, version 1, readable from version 1 on.
const HEADER: [u8; HEADER_LEN] = {
    let [m0, m1, m2, m3, m4, m5, m6, m7] = MAGIC;
    [m0, m1, m2, m3, m4, m5, m6, m7, 0, 0, 0, 1, 0, 0, 0, 1]
};

/// What Kafka's writer cuts: more would be read as well.
const BLOCK_LEN: usize = 32 << 10;
