//! zstd frames: `docs/format/codecs.md#zstd`.

mod frames;
mod writer;

use alloc::vec::Vec;

use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{
    DCtx, DParameter, ErrorCode, InBuffer, OutBuffer, ResetDirective, is_error_kind,
};

use self::frames::{Frame, Frames};
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

    /// Decompresses all frames of `input` into `out`: without a window of its own, and without
    /// the copy from there. It reads and refuses what a [`Reader`] does, but for a match that
    /// reaches beyond the window of its frame: that is seen by a window alone.
    ///
    /// The first try has room for most payloads. Another follows with eight times as much, up to
    /// what the block headers allow, so that no claim alone makes a large allocation.
    pub(super) fn decompress(
        &mut self,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let Survey { bound, is_one_block } = Survey::of(input)?;
        let most = bound.min(limit);
        let mut room = input.len().saturating_mul(8).max(FIRST_TRY).max(out.capacity()).min(most);
        loop {
            out.clear();
            reserve(out, room, 0);
            let result = if is_one_block {
                self.0.decompress(out, input).map(drop).map_err(Stop::of)
            } else {
                self.decompress_blocks(input, out)
            };
            match result {
                Ok(()) if out.len() > limit => return Err(Fault::TooLong),
                // The caller's buffer had more room.
                Ok(()) if out.len() > bound => return Err(Fault::Broken),
                Ok(()) => return Ok(()),
                Err(Stop::Full) if room < most => room = room.saturating_mul(8).min(most),
                Err(Stop::Full) if most == limit => return Err(Fault::TooLong),
                Err(Stop::Full | Stop::Broken) => return Err(Fault::Broken),
            }
        }
    }

    /// Straight into `out`, whose spare room is all there is.
    fn decompress_blocks(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), Stop> {
        self.write_straight(true)?;
        let result = Frames::of(input).flatten().try_for_each(|(bytes, frame)| {
            let mut feed = Feed::of(bytes, &frame);
            while !feed.is_read {
                feed.step(&mut self.0, out)?;
            }
            Ok(())
        });
        self.write_straight(false)?;
        result
    }

    fn write_straight(&mut self, on: bool) -> Result<(), Stop> {
        self.0.reset(ResetDirective::SessionOnly).map_err(Stop::of)?;
        self.0.set_parameter(DParameter::StableOutBuffer(on)).map(drop).map_err(Stop::of)
    }
}

/// What the frames of a payload say about it.
struct Survey {
    /// The most bytes that it can come to.
    bound: usize,
    /// One frame that comes to no more than a block may: the room for it is the limit. Of other
    /// blocks the library does not look at the size when it decompresses in one go.
    is_one_block: bool,
}

impl Survey {
    fn of(input: &[u8]) -> Result<Self, Fault> {
        let mut survey = Self { bound: 0, is_one_block: true };
        for frame in Frames::of(input) {
            let (_, frame) = frame.map_err(|_no_frame| Fault::Broken)?;
            survey.is_one_block &= survey.bound == 0 && frame.bound <= frame.max_block;
            survey.bound = survey.bound.saturating_add(frame.bound);
        }
        Ok(survey)
    }
}

/// Why the library did not go on.
enum Stop {
    /// There is no room for what comes.
    Full,
    Broken,
}

impl Stop {
    fn of(code: ErrorCode) -> Self {
        if is_error_kind(code, TOO_SMALL) { Self::Full } else { Self::Broken }
    }
}

/// A frame on its way into the library.
struct Feed<'b> {
    /// What of the frame was not taken yet.
    rest: &'b [u8],
    /// Bytes of the header, if that was not taken yet.
    header_len: Option<usize>,
    named: Option<u64>,
    /// Bytes that came of it.
    added: u64,
    is_read: bool,
}

impl<'b> Feed<'b> {
    const NONE: Self = Self { rest: &[], header_len: None, named: None, added: 0, is_read: true };

    const fn of(bytes: &'b [u8], frame: &Frame) -> Self {
        Self {
            rest: bytes,
            header_len: Some(frame.header_len),
            named: frame.named,
            added: 0,
            is_read: false,
        }
    }

    /// Appends what comes next to the spare room of `out`.
    ///
    /// The header goes alone: a frame that is there as a whole, and names its size, the library
    /// decompresses in one go if there is room, without a look at its blocks. A call that changes
    /// nothing it refuses itself, after a few times.
    fn step(&mut self, context: &mut DCtx<'static>, out: &mut Vec<u8>) -> Result<usize, Stop> {
        let start = out.len();
        let piece_len = self.header_len.take().unwrap_or(self.rest.len());
        let mut from = InBuffer::around(self.rest.get(..piece_len).unwrap_or_default());
        let mut to = OutBuffer::around_pos(out, start);
        let hint = context.decompress_stream(&mut to, &mut from).map_err(Stop::of)?;
        self.rest = self.rest.get(from.pos()..).unwrap_or_default();
        self.is_read = hint == 0;
        let added = out.len().saturating_sub(start);
        self.added = self.added.saturating_add(added.try_into().unwrap_or(u64::MAX));
        if self.is_read && self.named.is_some_and(|named| named != self.added) {
            return Err(Stop::Broken);
        }
        Ok(added)
    }
}

/// Reads the frames of one payload piece by piece.
pub(crate) struct Reader<'s> {
    context: &'s mut DCtx<'static>,
    frames: Frames<'s>,
    feed: Feed<'s>,
}

impl<'s> Reader<'s> {
    pub(super) fn open(context: &'s mut Context, input: &'s [u8]) -> Result<Self, Fault> {
        context.0.reset(ResetDirective::SessionOnly).map_err(|_code| Fault::Broken)?;
        Ok(Self { context: &mut context.0, frames: Frames::of(input), feed: Feed::NONE })
    }

    pub(super) fn pull(&mut self, out: &mut Vec<u8>, room: usize) -> Result<usize, Fault> {
        loop {
            if self.feed.is_read {
                match self.frames.next() {
                    None => return Ok(0),
                    Some(frame) => {
                        let (bytes, frame) = frame.map_err(|_no_frame| Fault::Broken)?;
                        self.feed = Feed::of(bytes, &frame);
                    }
                }
            }
            reserve(out, 1, room);
            let added = self.feed.step(self.context, out).map_err(|_stop| Fault::Broken)?;
            if added > 0 {
                return Ok(added);
            }
        }
    }
}

const TOO_SMALL: ZSTD_ErrorCode = ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall;

/// Room for the first try at a payload, at least.
const FIRST_TRY: usize = 64 << 10;
