//! Compresses payloads as Kafka's writers frame them.

use alloc::vec::Vec;
use core::fmt;

#[cfg(feature = "gzip")]
use super::gzip;
#[cfg(feature = "lz4")]
use super::lz4;
#[cfg(feature = "snappy")]
use super::snappy;
#[cfg(feature = "zstd")]
use super::zstd;
use crate::Codec;

/// Why a payload could not be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressError {
    /// Kafka does not take this level for this codec.
    #[error("codec {codec} has no level {level}")]
    #[non_exhaustive]
    Level {
        /// The codec.
        codec: Codec,
        /// The level that was asked for.
        level: i32,
    },
    /// This build leaves the codec out.
    #[error("codec {codec} is not compiled in")]
    #[non_exhaustive]
    CodecDisabled {
        /// The codec that a feature of this crate would bring.
        codec: Codec,
    },
    /// The codec's library failed: it has no memory left.
    #[error("codec {codec} failed")]
    #[non_exhaustive]
    Failed {
        /// The codec.
        codec: Codec,
    },
}

/// Compresses payloads, one after the other, bytes as they come.
///
/// Makes the codec's state once; [`finish`](Self::finish) ends a payload and is ready for the
/// next. The output is what Kafka's own readers take, and framed as Kafka frames it: see
/// `docs/format/codecs.md`.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "zstd")] {
/// use alluvium_record_format::{Codec, Compressor, decompress};
///
/// let mut compressor = Compressor::new(Codec::Zstd, Some(1))?;
/// let mut payload = Vec::new();
/// for _ in 0..100 {
///     compressor.write(b"record ", &mut payload)?;
/// }
/// compressor.finish(&mut payload)?;
/// assert!(payload.len() < 100);
///
/// let mut out = Vec::new();
/// decompress(Codec::Zstd, &payload, 1 << 20, &mut out)?;
/// assert_eq!(out, b"record ".repeat(100));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Compressor {
    codec: Codec,
    sink: Sink,
}

impl Compressor {
    /// One for `codec`, at `level` or at Kafka's default.
    ///
    /// lz4: 9 is the fast compressor, every other level the high one, as in Kafka. That one looks
    /// for longer matches, the more the higher the level, up to 12.
    ///
    /// # Errors
    ///
    /// `Level` where Kafka refuses it, `CodecDisabled`, `Failed`.
    pub fn new(codec: Codec, level: Option<i32>) -> Result<Self, CompressError> {
        if let Some(level) = level.filter(|level| !codec.accepts_level(*level)) {
            return Err(CompressError::Level { codec, level });
        }
        let level = level.or(codec.default_level()).unwrap_or(0);
        let sink = Sink::new(codec, level)?;
        Ok(Self { codec, sink })
    }

    /// The codec.
    #[must_use]
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// Takes `bytes` of the payload; appends to `out` what the codec lets go of.
    ///
    /// # Errors
    ///
    /// `Failed`.
    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
        self.sink.write(bytes, out).map_err(|Failed| CompressError::Failed { codec: self.codec })
    }

    /// Ends the payload: appends the rest to `out`. The next [`write`](Self::write) begins
    /// another.
    ///
    /// # Errors
    ///
    /// `Failed`.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), CompressError> {
        self.sink.finish(out).map_err(|Failed| CompressError::Failed { codec: self.codec })
    }

    /// Drops a payload that was begun, so that the next write begins another.
    pub fn reset(&mut self) {
        self.sink.reset();
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("codec", &self.codec).finish_non_exhaustive()
    }
}

/// Compresses the whole of `input` onto the end of `out`, at `level` or at Kafka's default.
///
/// Makes the codec's state anew: [`Compressor`] keeps it.
///
/// # Errors
///
/// As [`Compressor::new`].
pub fn compress(
    codec: Codec,
    level: Option<i32>,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CompressError> {
    let mut compressor = Compressor::new(codec, level)?;
    compressor.write(input, out)?;
    compressor.finish(out)
}

/// The library of a codec ran out of memory.
pub(super) struct Failed;

/// The writer of each codec behind one face.
enum Sink {
    None,
    #[cfg(feature = "gzip")]
    Gzip(gzip::Writer),
    #[cfg(feature = "snappy")]
    Snappy(snappy::Writer),
    #[cfg(feature = "lz4")]
    Lz4(lz4::Writer),
    #[cfg(feature = "zstd")]
    Zstd(zstd::Writer),
}

impl Sink {
    fn new(codec: Codec, level: i32) -> Result<Self, CompressError> {
        let _ = level; // not every codec needs it
        match codec {
            Codec::None => Ok(Self::None),
            #[cfg(feature = "gzip")]
            Codec::Gzip => Ok(Self::Gzip(gzip::Writer::new(level))),
            #[cfg(feature = "snappy")]
            Codec::Snappy => Ok(Self::Snappy(snappy::Writer::new())),
            #[cfg(feature = "lz4")]
            Codec::Lz4 => Ok(Self::Lz4(lz4::Writer::new(level))),
            #[cfg(feature = "zstd")]
            Codec::Zstd => zstd::Writer::new(level)
                .map(Self::Zstd)
                .map_err(|Failed| CompressError::Failed { codec }),
            #[cfg(not(all(
                feature = "gzip",
                feature = "snappy",
                feature = "lz4",
                feature = "zstd"
            )))]
            _ => Err(CompressError::CodecDisabled { codec }),
        }
    }

    #[cfg_attr(
        not(any(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd")),
        expect(clippy::unnecessary_wraps, reason = "without codecs nothing fails")
    )]
    fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
        match self {
            Self::None => out.extend_from_slice(bytes),
            #[cfg(feature = "gzip")]
            Self::Gzip(writer) => return writer.write(bytes, out),
            #[cfg(feature = "snappy")]
            Self::Snappy(writer) => return writer.write(bytes, out),
            #[cfg(feature = "lz4")]
            Self::Lz4(writer) => return writer.write(bytes, out),
            #[cfg(feature = "zstd")]
            Self::Zstd(writer) => return writer.write(bytes, out),
        }
        Ok(())
    }

    #[cfg_attr(
        not(any(feature = "gzip", feature = "snappy", feature = "lz4", feature = "zstd")),
        expect(clippy::unnecessary_wraps, reason = "without codecs nothing fails")
    )]
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Failed> {
        let _ = &out; // not every codec needs it
        match self {
            Self::None => Ok(()),
            #[cfg(feature = "gzip")]
            Self::Gzip(writer) => writer.finish(out),
            #[cfg(feature = "snappy")]
            Self::Snappy(writer) => writer.finish(out),
            #[cfg(feature = "lz4")]
            Self::Lz4(writer) => writer.finish(out),
            #[cfg(feature = "zstd")]
            Self::Zstd(writer) => writer.finish(out),
        }
    }

    fn reset(&mut self) {
        match self {
            Self::None => {}
            #[cfg(feature = "gzip")]
            Self::Gzip(writer) => writer.reset(),
            #[cfg(feature = "snappy")]
            Self::Snappy(writer) => writer.reset(),
            #[cfg(feature = "lz4")]
            Self::Lz4(writer) => writer.reset(),
            #[cfg(feature = "zstd")]
            Self::Zstd(writer) => writer.reset(),
        }
    }
}
