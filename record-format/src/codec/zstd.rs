//! zstd frames: `docs/format/codecs.md#zstd`.

mod frames;
mod writer;

use alloc::vec::Vec;

use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective, is_error_kind};

pub(super) use self::writer::Writer;
use super::decode::{Fault, reserve};

/// A decompressor's state.
pub(crate) struct Context(DCtx<'static>);

impl Context {
    pub(super) fn new() -> Result<Self, Fault> {
        DCtx::try_create().map(Self).ok_or(Fault::Broken)
    }

    /// Bytes that the state takes, its window included.
    pub(super) fn size_bytes(&self) -> usize {
        self.0.sizeof()
    }

    /// Decompresses all frames of `input` into `out` in one go: without a window of its own, and
    /// without the copy from there.
    ///
    /// The first try has room for most payloads. Another follows with eight times as much, up to
    /// what the block headers allow, so that no claim alone makes a large allocation.
    pub(super) fn decompress(
        &mut self,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let most = frames::walk(input).ok_or(Fault::Broken)?.bound.min(limit);
        let mut room = input.len().saturating_mul(8).max(FIRST_TRY).max(out.capacity()).min(most);
        loop {
            out.clear();
            reserve(out, room, 0);
            match self.0.decompress(out, input) {
                Ok(len) if len > limit => return Err(Fault::TooLong),
                Ok(_len) => return Ok(()),
                Err(code) if !is_error_kind(code, TOO_SMALL) => return Err(Fault::Broken),
                Err(_too_small) if room < most => room = room.saturating_mul(8).min(most),
                Err(_too_small) if most == limit => return Err(Fault::TooLong),
                Err(_too_small) => return Err(Fault::Broken),
            }
        }
    }
}

/// Reads the frames of one payload piece by piece.
pub(crate) struct Reader<'s> {
    context: &'s mut DCtx<'static>,
    rest: &'s [u8],
    /// What is left from the start of the frame that is being read.
    frame: &'s [u8],
    /// Bytes that came of that frame.
    frame_added: usize,
}

impl<'s> Reader<'s> {
    pub(super) fn open(context: &'s mut Context, input: &'s [u8]) -> Result<Self, Fault> {
        context.0.reset(ResetDirective::SessionOnly).map_err(|_code| Fault::Broken)?;
        Ok(Self { context: &mut context.0, rest: input, frame: input, frame_added: 0 })
    }

    pub(super) fn pull(&mut self, out: &mut Vec<u8>, room: usize) -> Result<usize, Fault> {
        loop {
            if self.frame.is_empty() {
                return Ok(0);
            }
            reserve(out, 1, room);
            let start = out.len();
            let mut from = InBuffer::around(self.rest);
            let hint = self
                .context
                .decompress_stream(&mut OutBuffer::around_pos(out, start), &mut from)
                .map_err(|_code| Fault::Broken)?;
            let taken = from.pos();
            self.rest = self.rest.get(taken..).unwrap_or_default();
            let added = out.len().saturating_sub(start);
            self.frame_added = self.frame_added.saturating_add(added);
            if hint == 0 {
                self.end_frame()?;
            }
            if added > 0 {
                return Ok(added);
            }
            if hint != 0 && self.rest.is_empty() {
                return Err(Fault::Broken);
            }
        }
    }

    /// Holds a frame that was read to the rules that the library checks only when it reads a
    /// frame at once.
    fn end_frame(&mut self) -> Result<(), Fault> {
        let len = self.frame.len().saturating_sub(self.rest.len());
        let frames = self.frame.get(..len).and_then(frames::walk).ok_or(Fault::Broken)?;
        let added = u64::try_from(self.frame_added).unwrap_or(u64::MAX);
        if frames.all_named && frames.named != added {
            return Err(Fault::Broken);
        }
        self.frame = self.rest;
        self.frame_added = 0;
        Ok(())
    }
}

const TOO_SMALL: ZSTD_ErrorCode = ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall;

/// Room for the first try at a payload, at least.
const FIRST_TRY: usize = 64 << 10;
