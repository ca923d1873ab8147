//! Pulls decompressed bytes out of one payload, piece by piece.

use alloc::vec::Vec;
use core::fmt;

use super::decompress::Contexts;
#[cfg(feature = "gzip")]
use super::gzip;
#[cfg(feature = "lz4")]
use super::lz4;
#[cfg(feature = "snappy")]
use super::snappy;
#[cfg(feature = "zstd")]
use super::zstd;
use crate::{Codec, CorruptKind};

/// Reads one compressed payload piece by piece, without holding the whole output.
///
/// Made by [`Decompressor::decoder`](crate::Decompressor::decoder). Memory is one codec block
/// (lz4: up to 4 MiB as the frame says; snappy: a chunk, at most 22 times its compressed size;
/// gzip: 32 KiB; zstd: the window, at most 128 MiB) beside the caller's buffer.
pub struct Decoder<'s> {
    codec: Codec,
    source: Source<'s>,
}

impl<'s> Decoder<'s> {
    /// Begins to read `input`.
    pub(crate) fn open(
        contexts: &'s mut Contexts,
        codec: Codec,
        input: &'s [u8],
        rules: Rules,
    ) -> Result<Self, CorruptKind> {
        let source = Source::open(contexts, codec, input, rules);
        Ok(Self { codec, source: source.map_err(|fault| fault.kind(codec, usize::MAX))? })
    }

    /// Appends the next piece to `out` and returns its length; 0 at the end of the stream.
    ///
    /// A piece fills what is spare in `out`, or adds some 16 KiB where nothing is; blocks of
    /// lz4 and snappy come whole.
    ///
    /// # Errors
    ///
    /// `Compressed` where the stream breaks the rules of its codec or ends early. What came
    /// before was sound.
    pub fn pull(&mut self, out: &mut Vec<u8>) -> Result<usize, CorruptKind> {
        self.source.pull(out, usize::MAX).map_err(|fault| fault.kind(self.codec, usize::MAX))
    }
}

impl fmt::Debug for Decoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("codec", &self.codec).finish_non_exhaustive()
    }
}

/// Which version of a codec's rules holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Batches of magic 2 and messages of magic 1.
    Current,
    /// Messages of magic 0: the header checksum of an lz4 frame is not looked at.
    Magic0,
}

/// Why a payload could not be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The stream breaks the rules of its codec, or ends early.
    #[cfg_attr(
        not(any(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd")),
        expect(dead_code, reason = "no codec is compiled in")
    )]
    Broken,
    /// The next piece is larger than the caller has room for.
    TooLong,
    /// The codec's feature is off.
    #[cfg_attr(
        all(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd"),
        expect(dead_code, reason = "every codec is compiled in")
    )]
    Disabled,
}

impl Fault {
    pub(crate) const fn kind(self, codec: Codec, limit: usize) -> CorruptKind {
        match self {
            Self::Broken => CorruptKind::Compressed { codec },
            Self::TooLong => CorruptKind::OutputLimit { limit },
            Self::Disabled => CorruptKind::CodecDisabled { codec },
        }
    }
}

/// The reader of each codec behind one face.
pub(crate) enum Source<'s> {
    None(&'s [u8]),
    #[cfg(feature = "gzip")]
    Gzip(gzip::Reader<'s>),
    #[cfg(feature = "snappy")]
    Snappy(snappy::Reader<'s>),
    #[cfg(feature = "lz4")]
    Lz4(lz4::Reader<'s>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::Reader<'s>),
}

impl<'s> Source<'s> {
    pub(crate) fn open(
        contexts: &'s mut Contexts,
        codec: Codec,
        input: &'s [u8],
        rules: Rules,
    ) -> Result<Self, Fault> {
        let _ = (&contexts, rules); // not every codec needs them
        match codec {
            Codec::None => Ok(Self::None(input)),
            #[cfg(feature = "gzip")]
            Codec::Gzip => gzip::Reader::open(contexts.gzip(), input).map(Self::Gzip),
            #[cfg(feature = "snappy")]
            Codec::Snappy => snappy::Reader::open(input).map(Self::Snappy),
            #[cfg(feature = "lz4")]
            Codec::Lz4 => lz4::Reader::open(contexts.block(), input, rules).map(Self::Lz4),
            #[cfg(feature = "zstd")]
            Codec::Zstd => zstd::Reader::open(contexts.zstd()?, input).map(Self::Zstd),
            #[cfg(not(all(
                feature = "gzip",
                feature = "snappy",
                feature = "lz4",
                feature = "zstd"
            )))]
            _ => Err(Fault::Disabled),
        }
    }

    /// Appends the next piece, 0 at the end. `room` bounds what is reserved: a piece of more
    /// than `room` bytes is `TooLong`, or comes in part, with some bytes above `room`.
    pub(crate) fn pull(&mut self, out: &mut Vec<u8>, room: usize) -> Result<usize, Fault> {
        match self {
            Self::None(rest) => {
                let piece = core::mem::take(rest);
                if piece.len() > room {
                    return Err(Fault::TooLong);
                }
                out.extend_from_slice(piece);
                Ok(piece.len())
            }
            #[cfg(feature = "gzip")]
            Self::Gzip(reader) => reader.pull(out, room),
            #[cfg(feature = "snappy")]
            Self::Snappy(reader) => reader.pull(out, room),
            #[cfg(feature = "lz4")]
            Self::Lz4(reader) => reader.pull(out, room),
            #[cfg(feature = "zstd")]
            Self::Zstd(reader) => reader.pull(out, room),
        }
    }
}

/// Makes sure that `out` can take `need` more bytes: doubles it, within `room`.
#[cfg(any(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd"))]
pub(crate) fn reserve(out: &mut Vec<u8>, need: usize, room: usize) {
    if out.capacity().saturating_sub(out.len()) < need {
        out.reserve_exact(out.len().max(PIECE).min(room).max(need));
    }
}

/// What `out` grows by, at least, within its room.
#[cfg(any(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd"))]
const PIECE: usize = 16 << 10;
