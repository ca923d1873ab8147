//! Writes one zstd frame a payload, as Kafka's writer does: a stream of unknown length.

use alloc::vec::Vec;

use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use crate::codec::compress::Failed;

/// Writes the frame.
pub(in crate::codec) struct Writer {
    context: CCtx<'static>,
}

impl Writer {
    pub(in crate::codec) fn new(level: i32) -> Result<Self, Failed> {
        let mut context = CCtx::try_create().ok_or(Failed)?;
        context.set_parameter(CParameter::CompressionLevel(level)).map_err(|_code| Failed)?;
        Ok(Self { context })
    }

    pub(in crate::codec) fn write(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Failed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, _) = self.step(rest, out, ZSTD_EndDirective::ZSTD_e_continue)?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    pub(in crate::codec) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failed> {
        while self.step(&[], out, ZSTD_EndDirective::ZSTD_e_end)?.1 > 0 {}
        Ok(())
    }

    pub(in crate::codec) fn reset(&mut self) {
        // Cannot fail for the session alone.
        let _ended = self.context.reset(ResetDirective::SessionOnly);
    }

    /// Feeds `bytes`: how many were taken, and how many are still to come out.
    fn step(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        end: ZSTD_EndDirective,
    ) -> Result<(usize, usize), Failed> {
        if out.capacity() == out.len() {
            out.reserve(SPARE);
        }
        let len = out.len();
        let mut from = InBuffer::around(bytes);
        let left = self
            .context
            .compress_stream2(&mut OutBuffer::around_pos(out, len), &mut from, end)
            .map_err(|_code| Failed)?;
        Ok((from.pos(), left))
    }
}

const SPARE: usize = 4 << 10;
