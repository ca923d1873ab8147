//! Writes one gzip member a payload, with the header that Java 17 writes.

use alloc::vec::Vec;

use flate2::{Compress, Compression, FlushCompress, Status};

use crate::codec::compress::Failed;

/// Writes the member.
pub(in crate::codec) struct Writer {
    level: Compression,
    deflate: Compress,
    crc: crc32fast::Hasher,
    begun: bool,
}

impl Writer {
    /// One at `level`: -1 for zlib's default, or 1 to 9.
    pub(in crate::codec) fn new(level: i32) -> Self {
        let level = u32::try_from(level).map_or(Compression::default(), Compression::new);
        let deflate = Compress::new(level, false);
        Self { level, deflate, crc: crc32fast::Hasher::new(), begun: false }
    }

    pub(in crate::codec) fn write(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Failed> {
        self.begin(out);
        self.crc.update(bytes);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, _) = self.step(rest, out, FlushCompress::None)?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    pub(in crate::codec) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failed> {
        self.begin(out);
        while self.step(&[], out, FlushCompress::Finish)?.1 != Status::StreamEnd {}
        let [s0, s1, s2, s3, ..] = self.deflate.total_in().to_le_bytes();
        out.extend_from_slice(&core::mem::take(&mut self.crc).finalize().to_le_bytes());
        out.extend_from_slice(&[s0, s1, s2, s3]);
        self.deflate.reset();
        self.begun = false;
        Ok(())
    }

    pub(in crate::codec) fn reset(&mut self) {
        if self.begun {
            // In zlib-rs 0.6 a block that is open at level 1 survives a reset.
            self.deflate = Compress::new(self.level, false);
            self.crc.reset();
            self.begun = false;
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !self.begun {
            out.extend_from_slice(&HEADER);
            self.begun = true;
        }
    }

    /// Feeds `bytes`: how many were taken, and how the stream stands. Always moves on.
    fn step(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        flush: FlushCompress,
    ) -> Result<(usize, Status), Failed> {
        if out.capacity().saturating_sub(out.len()) < MIN_SPARE {
            out.reserve(SPARE);
        }
        let before = self.deflate.total_in();
        let (len, status) = (out.len(), self.deflate.compress_vec(bytes, out, flush));
        let status = status.map_err(|_detail| Failed)?;
        let taken = self.deflate.total_in().saturating_sub(before);
        let stuck = taken == 0 && out.len() == len && status != Status::StreamEnd;
        if stuck {
            return Err(Failed);
        }
        Ok((usize::try_from(taken).unwrap_or(usize::MAX), status))
    }
}

/// Magic, deflate, no flags, no time, no extra flags, operating system unknown.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

const MIN_SPARE: usize = 64;
const SPARE: usize = 4 << 10;
