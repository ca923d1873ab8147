//! The messages of an entry, taken out of their wrapper.

use alloc::vec::Vec;

use super::{LegacyEntry, LegacyRecord};
use crate::{Codec, CorruptKind, Corruption, Decompressor, Offset, Position};

/// Iterates over the messages of one entry of magic 0 or 1: those in the wrapper, or the one
/// that it is. Made by [`Decompressor::inflate_legacy`].
///
/// Yields one error at most, then ends.
///
/// Source: `AbstractLegacyRecordBatch.DeepRecordsIterator` in Kafka.
#[derive(Clone, Debug)]
pub struct LegacyRecords<'a> {
    outer: LegacyEntry<'a>,
    state: State<'a>,
}

#[derive(Clone, Debug)]
enum State<'a> {
    Plain,
    /// The rest of the inflated wrapper, and what makes its offsets absolute.
    Wrapped(&'a [u8], i64),
    Done,
}

impl<'a> LegacyRecords<'a> {
    fn wrapped(outer: LegacyEntry<'a>, inflated: &'a [u8]) -> Result<Self, CorruptKind> {
        let mut last = None;
        let mut rest = inflated;
        while let Some((entry, after)) = next_inner(rest)? {
            last = Some(entry.offset().get());
            rest = after;
        }
        let last = last.ok_or(CorruptKind::LegacyWrapper)?;
        let wrapper = outer.offset().get();
        let base = match outer.magic() {
            // Offsets are absolute.
            0 => 0,
            // Old librdkafka left the wrapper's offset at 0.
            _ if wrapper == 0 => 0,
            _ if wrapper < last => return Err(CorruptKind::LegacyWrapper),
            _ => wrapper.wrapping_sub(last),
        };
        Ok(Self { outer, state: State::Wrapped(inflated, base) })
    }

    fn read_wrapped(
        &self,
        rest: &'a [u8],
        base: i64,
    ) -> Result<Option<(LegacyRecord<'a>, &'a [u8])>, CorruptKind> {
        let Some((entry, after)) = next_inner(rest)? else { return Ok(None) };
        if entry.codec() != Some(Codec::None) {
            return Err(CorruptKind::LegacyWrapper);
        }
        let offset = Offset::new(base.wrapping_add(entry.offset().get()));
        let record = LegacyRecord::of(entry)?.at_offset(offset).wrapped_in(&self.outer);
        Ok(Some((record, after)))
    }
}

impl<'a> Iterator for LegacyRecords<'a> {
    type Item = Result<LegacyRecord<'a>, Corruption>;

    fn next(&mut self) -> Option<Self::Item> {
        let (record, state) = match self.state {
            State::Plain => (LegacyRecord::of(self.outer), State::Done),
            State::Wrapped(rest, base) => match self.read_wrapped(rest, base) {
                Ok(Some((record, after))) => (Ok(record), State::Wrapped(after, base)),
                Ok(None) => return None,
                Err(kind) => (Err(kind), State::Done),
            },
            State::Done => return None,
        };
        self.state = state;
        Some(record.map_err(|kind| kind.at(self.outer.position())))
    }
}

/// The first entry of an inflated wrapper and the bytes after it. A cut entry at the end is left
/// out, as Kafka leaves it.
fn next_inner(bytes: &[u8]) -> Result<Option<(LegacyEntry<'_>, &[u8])>, CorruptKind> {
    let inside = Position::new(0);
    match LegacyEntry::parse(bytes, inside) {
        Ok(entry) => Ok(bytes.get(entry.bytes().len()..).map(|rest| (entry, rest))),
        Err(error) if matches!(error.kind(), CorruptKind::Truncated { .. }) => Ok(None),
        Err(_broken) => Err(CorruptKind::LegacyWrapper),
    }
}

impl Decompressor {
    /// The messages of an entry of magic 0 or 1, whatever its codec.
    ///
    /// A plain message borrows from its entry, and `limit` does not apply. A wrapper is
    /// decompressed into `buffer`, at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// As [`decompress`](Self::decompress); `UnknownCodec`; `LegacyWrapper` for zstd, a null
    /// value, no messages, or offsets above the wrapper's. All at the entry's first byte.
    pub fn inflate_legacy<'b>(
        &mut self,
        entry: &LegacyEntry<'b>,
        limit: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<LegacyRecords<'b>, Corruption> {
        let records = match entry.codec() {
            Some(Codec::None) => return Ok(LegacyRecords { outer: *entry, state: State::Plain }),
            Some(Codec::Zstd) => Err(CorruptKind::LegacyWrapper),
            Some(codec) => self.unwrap_legacy(codec, entry, limit, buffer),
            None => Err(CorruptKind::UnknownCodec { id: entry.codec_id() }),
        };
        records.map_err(|kind| kind.at(entry.position()))
    }

    fn unwrap_legacy<'b>(
        &mut self,
        codec: Codec,
        entry: &LegacyEntry<'b>,
        limit: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<LegacyRecords<'b>, CorruptKind> {
        let [_key, value] = entry.fields()?;
        let value = value.ok_or(CorruptKind::LegacyWrapper)?;
        match entry.magic() {
            0 => self.decompress_magic0(codec, value, limit, buffer)?,
            _ => self.decompress(codec, value, limit, buffer)?,
        }
        LegacyRecords::wrapped(*entry, buffer)
    }
}

impl<'a> LegacyEntry<'a> {
    /// The messages of the entry, whatever its codec: decompressed into `buffer`, at most
    /// `limit` bytes, or borrowed from the entry where it is not compressed.
    ///
    /// Makes the codec's state anew: [`Decompressor::inflate_legacy`] keeps it.
    ///
    /// # Errors
    ///
    /// As [`Decompressor::inflate_legacy`].
    pub fn inflate<'b>(
        &self,
        limit: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<LegacyRecords<'b>, Corruption>
    where
        'a: 'b,
    {
        Decompressor::new().inflate_legacy(self, limit, buffer)
    }
}
