//! Reads the records of a batch one by one, without holding them all.

mod step;

use alloc::vec::Vec;
use core::fmt;

use self::step::Body;

use crate::codec::decode::Decoder;
use crate::record::RecordContext;
use crate::varint::{VarintError, read_i32, read_i64};
use crate::{Batch, CorruptKind, Corruption, Offset, Position, Record, Timestamp};

/// The records of one batch of any codec, decompressed as they are read.
///
/// Made by [`Decompressor::records`](crate::Decompressor::records). Holds one record at a time
/// and one codec block, so memory is bounded by the record ceiling however much the payload
/// inflates to; an uncompressed batch is not copied. Where the whole payload may be in memory,
/// [`Decompressor::inflate`](crate::Decompressor::inflate) is faster.
///
/// Yields one error at most, then ends.
///
/// Source: `DefaultRecordBatch.streamingIterator` and `skipKeyValueIterator` in Kafka.
pub struct RecordStream<'s> {
    context: RecordContext,
    window: Window<'s>,
    position: Position,
    max_record_bytes: usize,
    count: i32,
    left: u32,
    done: bool,
}

/// What is known of a record whose key, value and headers were stepped over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartialRecord {
    /// The record's offset.
    pub offset: Offset,
    /// The record's time: its own, or the batch's with `LogAppendTime`. `None` for -1.
    pub timestamp: Option<Timestamp>,
    /// Bytes of the record by its length field, that field included.
    pub size_bytes: usize,
    /// Bytes of the key; `None` for null.
    pub key_bytes: Option<usize>,
    /// Bytes of the value; `None` for null.
    pub value_bytes: Option<usize>,
}

/// A part of a record, as it passes. Made by [`RecordStream::next_pieces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "who leaves a part out damages the record")]
pub enum RecordPiece<'a> {
    /// A record begins.
    Start {
        /// The record's offset.
        offset: Offset,
        /// The record's time: its own, or the batch's with `LogAppendTime`. `None` for -1.
        timestamp: Option<Timestamp>,
        /// Bytes of the key, which come next; `None` for null.
        key_bytes: Option<usize>,
        /// Bytes of all that follows the key.
        rest_bytes: usize,
    },
    /// Bytes of the key.
    Key(&'a [u8]),
    /// Bytes of what follows the key, as stored: the value with its length, and the headers.
    Rest(&'a [u8]),
}

impl<'s> RecordStream<'s> {
    pub(crate) fn new(
        batch: &Batch<'s>,
        window: Window<'s>,
        max_record_bytes: usize,
    ) -> Result<Self, Corruption> {
        let (count, position) = (batch.header().record_count(), batch.payload_position());
        let Ok(left) = u32::try_from(count) else {
            return Err(CorruptKind::RecordCount { found: count }.at(position));
        };
        let context = RecordContext::new(batch.header());
        let done = left == 0;
        Ok(Self { context, window, position, max_record_bytes, count, left, done })
    }

    /// The next record, valid until the next call; `None` at the end.
    ///
    /// # Errors
    ///
    /// In the item: `RecordTooLarge` above the ceiling, `Compressed` where the stream breaks,
    /// `RecordCount` where it ends before the last record, `TrailingBytes` where it goes on
    /// after, and what [`Records`](crate::Records) yields.
    pub fn next_record(&mut self) -> Option<Result<Record<'_>, Corruption>> {
        match self.begin() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
        let loaded = self.read_length().and_then(|(found, len)| self.load_body(found, len));
        match loaded {
            Ok(body_len) => {
                let body = self.window.take(body_len);
                let record = self.context.read_body(body);
                self.done |= record.is_err();
                Some(record.map_err(|kind| kind.at(self.position)))
            }
            Err(kind) => Some(Err(self.fail(kind))),
        }
    }

    /// As [`next_record`](Self::next_record), but key, value and headers are stepped over and
    /// never held. Whether the fields fill the record's length is not checked, as in Kafka.
    ///
    /// Source: `DefaultRecord.readPartiallyFrom` in Kafka.
    ///
    /// # Errors
    ///
    /// In the item, as for [`next_record`](Self::next_record).
    pub fn next_partial(&mut self) -> Option<Result<PartialRecord, Corruption>> {
        self.next_by(Self::read_partial)
    }

    /// As [`next_partial`](Self::next_partial), but with every check of
    /// [`next_record`](Self::next_record). A record of at most 64 KiB is held; what is larger
    /// passes piece by piece, so that memory is bounded whatever a record inflates to.
    ///
    /// # Errors
    ///
    /// In the item: the error that [`next_record`](Self::next_record) would give.
    pub fn next_checked(&mut self) -> Option<Result<PartialRecord, Corruption>> {
        self.next_by(Self::read_checked)
    }

    /// As [`next_checked`](Self::next_checked), but every part of the record is shown to `visit`
    /// as it passes, and no record is held, however small. What is wrong with a record may show
    /// after some of its parts.
    ///
    /// # Errors
    ///
    /// In the item: the error that [`next_record`](Self::next_record) would give.
    pub fn next_pieces(
        &mut self,
        visit: &mut dyn FnMut(RecordPiece<'_>),
    ) -> Option<Result<PartialRecord, Corruption>> {
        self.next_by(|stream| {
            let before = stream.window.taken;
            let (found, body_len) = stream.read_length()?;
            let size_bytes = stream.window.taken.wrapping_sub(before).saturating_add(body_len);
            let body = Body::new(&mut stream.window, body_len).visited(visit);
            body.check(stream.context, found, size_bytes)
        })
    }

    pub(crate) const fn context(&self) -> &RecordContext {
        &self.context
    }

    fn next_by(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<PartialRecord, CorruptKind>,
    ) -> Option<Result<PartialRecord, Corruption>> {
        match self.begin() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
        let partial = read(self);
        Some(partial.map_err(|kind| self.fail(kind)))
    }

    /// Whether a record is to be read. After the last one, the payload must end.
    fn begin(&mut self) -> Result<bool, Corruption> {
        if self.done {
            return Ok(false);
        }
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return Ok(true);
        }
        self.done = true;
        self.window.fill(1).map_err(|kind| kind.at(self.position))?;
        match self.window.unread().len() {
            0 => Ok(false),
            found => Err(CorruptKind::TrailingBytes { found }.at(self.position)),
        }
    }

    #[cold]
    fn fail(&mut self, kind: CorruptKind) -> Corruption {
        self.done = true;
        kind.at(self.position)
    }

    /// Reads everything that a length field counts into the window.
    fn load_body(&mut self, found: i32, body_len: usize) -> Result<usize, CorruptKind> {
        self.window.fill(body_len)?;
        let have = self.window.unread().len();
        if have < body_len {
            return Err(CorruptKind::RecordLength { found: i64::from(found), have });
        }
        Ok(body_len)
    }

    fn read_checked(&mut self) -> Result<PartialRecord, CorruptKind> {
        let before = self.window.taken;
        let (found, body_len) = self.read_length()?;
        let size_bytes = self.window.taken.wrapping_sub(before).saturating_add(body_len);
        if body_len > HELD_BYTES && self.window.is_inflated() {
            return Body::new(&mut self.window, body_len).check(self.context, found, size_bytes);
        }
        let body_len = self.load_body(found, body_len)?;
        let record = self.context.read_body(self.window.take(body_len))?;
        Ok(PartialRecord {
            offset: record.offset(),
            timestamp: record.timestamp(),
            size_bytes,
            key_bytes: record.key().map(<[u8]>::len),
            value_bytes: record.value().map(<[u8]>::len),
        })
    }

    fn read_partial(&mut self) -> Result<PartialRecord, CorruptKind> {
        let before = self.window.taken;
        let (_, body_len) = self.read_length()?;
        let size_bytes = self.window.taken.wrapping_sub(before).saturating_add(body_len);
        let context = self.context;
        self.skip(1)?; // attributes
        let timestamp = context.timestamp(self.varint(read_i64, 64)?);
        let offset = context.offset(self.varint(read_i32, 32)?);
        let key_bytes = self.skip_field()?;
        let value_bytes = self.skip_field()?;
        let headers = self.varint(read_i32, 32)?;
        if headers < 0 {
            return Err(self.bad_length(headers));
        }
        for _ in 0..headers {
            let key_len = self.varint(read_i32, 32)?;
            let len = usize::try_from(key_len).map_err(|_negative| self.bad_length(key_len))?;
            self.skip(len)?;
            self.skip_field()?;
        }
        let timestamp = (timestamp != -1).then_some(Timestamp::new(timestamp));
        Ok(PartialRecord { offset, timestamp, size_bytes, key_bytes, value_bytes })
    }

    /// The length field as stored and as a size, checked against the ceiling.
    fn read_length(&mut self) -> Result<(i32, usize), CorruptKind> {
        self.window.fill(1)?;
        if self.window.unread().is_empty() {
            return Err(CorruptKind::RecordCount { found: self.count });
        }
        let found = self.varint(read_i32, 32)?;
        let length = usize::try_from(found).map_err(|_negative| self.bad_length(found))?;
        if length > self.max_record_bytes && self.window.is_inflated() {
            return Err(CorruptKind::RecordTooLarge { length, max: self.max_record_bytes });
        }
        Ok((found, length))
    }

    /// Steps over a length and so many bytes; any negative length is null.
    fn skip_field(&mut self) -> Result<Option<usize>, CorruptKind> {
        let len = self.varint(read_i32, 32)?;
        let Ok(len) = usize::try_from(len) else { return Ok(None) };
        self.skip(len)?;
        Ok(Some(len))
    }

    fn skip(&mut self, len: usize) -> Result<(), CorruptKind> {
        Body::unbounded(&mut self.window).pass(len)
    }

    fn varint<T>(
        &mut self,
        read: impl Fn(&[u8]) -> Result<(T, &[u8]), VarintError>,
        max_bits: u8,
    ) -> Result<T, CorruptKind> {
        Body::unbounded(&mut self.window).varint(read, max_bits)
    }

    fn bad_length(&self, found: i32) -> CorruptKind {
        CorruptKind::RecordLength { found: i64::from(found), have: self.window.unread().len() }
    }
}

impl fmt::Debug for RecordStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordStream").field("left", &self.left).finish_non_exhaustive()
    }
}

/// The bytes between the decoder and the records.
pub(crate) struct Window<'s> {
    bytes: Bytes<'s>,
    /// Bytes handed out, counted from the start of the payload.
    taken: usize,
    /// Bytes handed out of those that are held.
    at: usize,
}

enum Bytes<'s> {
    /// The payload of an uncompressed batch, all there.
    Stored(&'s [u8]),
    /// What was decompressed and not yet dropped, and the decoder until it has ended.
    Inflated(&'s mut Vec<u8>, Option<Decoder<'s>>),
}

impl<'s> Window<'s> {
    pub(crate) const fn stored(payload: &'s [u8]) -> Self {
        Self { bytes: Bytes::Stored(payload), taken: 0, at: 0 }
    }

    pub(crate) fn inflated(buffer: &'s mut Vec<u8>, decoder: Decoder<'s>) -> Self {
        buffer.clear();
        Self { bytes: Bytes::Inflated(buffer, Some(decoder)), taken: 0, at: 0 }
    }

    const fn is_inflated(&self) -> bool {
        matches!(self.bytes, Bytes::Inflated(..))
    }

    fn unread(&self) -> &[u8] {
        let held = match &self.bytes {
            Bytes::Stored(payload) => payload,
            Bytes::Inflated(buffer, _) => buffer.as_slice(),
        };
        held.get(self.at..).unwrap_or_default()
    }

    /// Hands out the next `len` bytes, which are there.
    fn take(&mut self, len: usize) -> &[u8] {
        let from = self.at;
        self.at = from.saturating_add(len);
        self.taken = self.taken.wrapping_add(len);
        let held = match &self.bytes {
            Bytes::Stored(payload) => payload,
            Bytes::Inflated(buffer, _) => buffer.as_slice(),
        };
        held.get(from..self.at).unwrap_or_default()
    }

    /// Decompresses until `need` bytes are unread, or the payload has ended. The buffer grows
    /// with the bytes that arrive, whatever `need` claims.
    #[inline]
    fn fill(&mut self, need: usize) -> Result<(), CorruptKind> {
        if self.unread().len() >= need { Ok(()) } else { self.fill_slow(need) }
    }

    fn fill_slow(&mut self, need: usize) -> Result<(), CorruptKind> {
        let Bytes::Inflated(buffer, decoder) = &mut self.bytes else { return Ok(()) };
        let Some(source) = decoder else { return Ok(()) };
        buffer.drain(..self.at.min(buffer.len()));
        self.at = 0;
        while buffer.len() < need {
            if buffer.len() == buffer.capacity() {
                let missing = need.saturating_sub(buffer.len());
                buffer.reserve_exact(buffer.len().min(missing).max(PIECE));
            }
            if source.pull(buffer)? == 0 {
                *decoder = None;
                break;
            }
        }
        Ok(())
    }
}

/// What the buffer grows by, at least.
const PIECE: usize = 32 << 10;

/// The largest record that is held where it need not be: below, one pass over bytes at hand is
/// faster.
const HELD_BYTES: usize = 64 << 10;
