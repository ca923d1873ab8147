//! Decompresses whole payloads, below a ceiling.

use alloc::vec::Vec;
use core::fmt;

use super::decode::{Decoder, Fault, Rules, Source};
#[cfg(feature = "zstd")]
use super::zstd;
use crate::record_stream::{RecordStream, Window};
use crate::{Batch, Codec, CorruptKind, Corruption, Records};

/// Decompresses payloads, and keeps the state of its codecs from one to the next.
///
/// A fresh one is free; state comes with the first payload of a codec and is dear for zstd
/// (about 160 KiB) and gzip (about 50 KiB), so keep one per thread where many batches are read.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "lz4")] {
/// use alluvium_record_format::{Codec, CorruptKind, Decompressor, compress};
///
/// let mut payload = Vec::new();
/// compress(Codec::Lz4, None, &[b'a'; 1000], &mut payload)?;
///
/// let mut decompressor = Decompressor::new();
/// let mut out = Vec::new();
/// decompressor.decompress(Codec::Lz4, &payload, 1000, &mut out)?;
/// assert_eq!(out, [b'a'; 1000]);
///
/// let bomb = decompressor.decompress(Codec::Lz4, &payload, 999, &mut out).unwrap_err();
/// assert!(matches!(bomb, CorruptKind::OutputLimit { limit: 999, .. }));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Decompressor {
    contexts: Contexts,
    window: Vec<u8>,
}

impl Decompressor {
    /// One without any state yet: allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decompresses the whole of `input` into `out`, whose old contents are dropped.
    ///
    /// `limit` is a hard ceiling in bytes: a stream of exactly so many is read, one byte more is
    /// an error. Memory is bounded by `limit` plus one codec block whatever the stream claims,
    /// and grows with the bytes that arrive. On an error `out` is empty.
    ///
    /// [`Codec::None`] copies; use the input instead.
    ///
    /// # Errors
    ///
    /// `Compressed` where the stream breaks the rules of its codec, `OutputLimit` above `limit`,
    /// `CodecDisabled` without the codec's feature.
    pub fn decompress(
        &mut self,
        codec: Codec,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CorruptKind> {
        self.decompress_by(Rules::Current, codec, input, limit, out)
    }

    /// As [`decompress`](Self::decompress), for messages of magic 0: the header checksum of an
    /// lz4 frame is not looked at.
    pub(crate) fn decompress_magic0(
        &mut self,
        codec: Codec,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CorruptKind> {
        self.decompress_by(Rules::Magic0, codec, input, limit, out)
    }

    fn decompress_by(
        &mut self,
        rules: Rules,
        codec: Codec,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CorruptKind> {
        out.clear();
        self.contexts.inflate(rules, codec, input, limit, out).map_err(|fault| {
            out.clear();
            fault.kind(codec, limit)
        })
    }

    /// Begins to read `input` piece by piece.
    ///
    /// # Errors
    ///
    /// `Compressed` where the stream's header is bad, `CodecDisabled` without the codec's
    /// feature.
    pub fn decoder<'s>(
        &'s mut self,
        codec: Codec,
        input: &'s [u8],
    ) -> Result<Decoder<'s>, CorruptKind> {
        Decoder::open(&mut self.contexts, codec, input, Rules::Current)
    }

    /// The records of `batch`, whatever its codec.
    ///
    /// An uncompressed batch is not copied and `limit` does not apply: its records borrow from
    /// the batch's own buffer. A compressed one is decompressed into `buffer`, at most `limit`
    /// bytes. A batch without records is not decompressed at all.
    ///
    /// # Errors
    ///
    /// As [`decompress`](Self::decompress), and `UnknownCodec`, `RecordCount`.
    pub fn inflate<'b>(
        &mut self,
        batch: &Batch<'b>,
        limit: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Records<'b>, Corruption> {
        let (header, at) = (batch.header(), batch.payload_position());
        if header.record_count() == 0 {
            return Records::new(header, &[], at);
        }
        let codec = batch.codec()?;
        if codec == Codec::None {
            return Records::new(header, batch.payload(), at);
        }
        if let Some(found) = Some(header.record_count()).filter(|count| *count < 0) {
            return Err(CorruptKind::RecordCount { found }.at(at));
        }
        self.decompress(codec, batch.payload(), limit, buffer).map_err(|kind| kind.at(at))?;
        Records::new(header, buffer, at)
    }
}

impl Decompressor {
    /// The records of `batch` one by one, whatever its codec, none of which may be longer than
    /// `max_record_bytes` when it is compressed. The ceiling counts what follows the record's
    /// length field, as Kafka's `max.decompressed.message.bytes` does.
    ///
    /// # Errors
    ///
    /// `UnknownCodec`, `CodecDisabled`, `RecordCount`, and `Compressed` where the stream's
    /// header is bad.
    pub fn records<'s>(
        &'s mut self,
        batch: &Batch<'s>,
        max_record_bytes: usize,
    ) -> Result<RecordStream<'s>, Corruption> {
        let (payload, at) = (batch.payload(), batch.payload_position());
        let window = match batch.header().record_count() {
            ..=0 => Window::stored(&[]),
            _ => match batch.codec()? {
                Codec::None => Window::stored(payload),
                codec => {
                    let decoder = Decoder::open(&mut self.contexts, codec, payload, Rules::Current);
                    if self.window.capacity() > KEPT_BYTES {
                        self.window = Vec::new();
                    }
                    Window::inflated(&mut self.window, decoder.map_err(|kind| kind.at(at))?)
                }
            },
        };
        RecordStream::new(batch, window, max_record_bytes)
    }
}

impl Decompressor {
    /// Gives back what a rare large payload took: a buffer above 1 MiB, and the state of a codec
    /// above 4 MiB. For one that is kept while it has nothing to do; costs nothing otherwise.
    pub fn trim(&mut self) {
        if self.window.capacity() > KEPT_WINDOW_BYTES {
            self.window = Vec::new();
        }
        self.contexts.trim();
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

impl<'a> Batch<'a> {
    /// The records of the batch, whatever its codec: decompressed into `buffer`, at most `limit`
    /// bytes, or borrowed from the batch where it is not compressed.
    ///
    /// Makes the codec's state anew: [`Decompressor::inflate`] keeps it.
    ///
    /// # Errors
    ///
    /// As [`Decompressor::inflate`].
    pub fn inflate<'b>(
        &self,
        limit: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Records<'b>, Corruption>
    where
        'a: 'b,
    {
        Decompressor::new().inflate(self, limit, buffer)
    }
}

/// Decompresses the whole of `input` into `out`, at most `limit` bytes.
///
/// Makes the codec's state anew: [`Decompressor::decompress`] keeps it.
///
/// # Errors
///
/// As [`Decompressor::decompress`].
pub fn decompress(
    codec: Codec,
    input: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), CorruptKind> {
    Decompressor::new().decompress(codec, input, limit, out)
}

/// What a decompressor keeps of a state or a buffer from one payload to the next: a rare large
/// one gives its memory back.
const KEPT_BYTES: usize = 8 << 20;

/// What of the window outlives [`Decompressor::trim`].
const KEPT_WINDOW_BYTES: usize = 1 << 20;

/// What of a codec's state outlives [`Decompressor::trim`]: zstd's window at Kafka's default
/// level (2 MiB) and the largest block of lz4 (4 MiB).
#[cfg(any(feature = "lz4", feature = "zstd"))]
const KEPT_STATE_BYTES: usize = 4 << 20;

/// The state of the codecs, made at first use.
#[derive(Default)]
pub(crate) struct Contexts {
    #[cfg(feature = "gzip")]
    gzip: Option<flate2::Decompress>,
    #[cfg(feature = "lz4")]
    block: Vec<u8>,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::Context>,
}

impl Contexts {
    #[cfg_attr(
        not(any(feature = "lz4", feature = "zstd")),
        expect(clippy::unused_self, clippy::needless_pass_by_ref_mut, reason = "no state grows")
    )]
    fn trim(&mut self) {
        #[cfg(feature = "lz4")]
        if self.block.capacity() > KEPT_STATE_BYTES {
            self.block = Vec::new();
        }
        #[cfg(feature = "zstd")]
        if self.zstd.as_ref().is_some_and(|context| context.size_bytes() > KEPT_STATE_BYTES) {
            self.zstd = None;
        }
    }

    #[cfg(feature = "gzip")]
    pub(crate) fn gzip(&mut self) -> &mut flate2::Decompress {
        self.gzip.get_or_insert_with(|| flate2::Decompress::new(false))
    }

    /// Where blocks of lz4 are decoded: zeroed once, not for every block.
    #[cfg(feature = "lz4")]
    pub(crate) fn block(&mut self) -> &mut Vec<u8> {
        &mut self.block
    }

    #[cfg(feature = "zstd")]
    pub(crate) fn zstd(&mut self) -> Result<&mut zstd::Context, Fault> {
        let kept = self.zstd.take().filter(|context| context.size_bytes() <= KEPT_BYTES);
        let context = match kept {
            Some(context) => context,
            None => zstd::Context::new()?,
        };
        Ok(self.zstd.insert(context))
    }

    fn inflate(
        &mut self,
        rules: Rules,
        codec: Codec,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        #[cfg(feature = "zstd")]
        if codec == Codec::Zstd {
            return self.zstd()?.decompress(input, limit, out);
        }
        let mut source = Source::open(self, codec, input, rules)?;
        // Most payloads inflate less than this, so that one piece holds them.
        out.reserve(input.len().saturating_mul(4).min(limit));
        loop {
            let room = limit.saturating_sub(out.len());
            let added = source.pull(out, room)?;
            if added == 0 {
                return Ok(());
            }
            if added > room {
                return Err(Fault::TooLong);
            }
        }
    }
}
