//! The records of an entry, whatever its magic and codec, below fixed memory.

use alluvium_record_format::{
    Batch, Codec, CorruptKind, Corruption, Decompressor, LegacyEntry, Offset, RecordPiece, Records,
};

use crate::hash::LongHash;
use crate::offset_map::{OffsetMap, Place};

/// What the rules look at.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) offset: Offset,
    pub(crate) bytes: Option<KeyBytes<'a>>,
    pub(crate) is_tombstone: bool,
}

/// The key of a record.
#[derive(Clone, Copy)]
pub(crate) enum KeyBytes<'a> {
    Whole(&'a [u8]),
    /// It was too long to be held, but for its first bytes.
    Hashed {
        hash: (u64, u64),
        head: [u8; 4],
    },
}

/// A record whose key was hashed, waiting for its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashed {
    pub(crate) offset: Offset,
    pub(crate) place: Option<Place>,
    pub(crate) is_tombstone: bool,
}

impl Hashed {
    #[inline]
    pub(crate) fn of(map: &OffsetMap, key: Key<'_>) -> Self {
        let place = key.bytes.map(|bytes| match bytes {
            KeyBytes::Whole(bytes) => map.place(bytes),
            KeyBytes::Hashed { hash, .. } => map.place_of(hash),
        });
        Self { offset: key.offset, place, is_tombstone: key.is_tombstone }
    }
}

/// So many records are hashed before they are looked up together.
pub(crate) const HASHED_AT_ONCE: usize = 64;

/// The state of the codecs and the memory for what they give.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) decompressor: Decompressor,
    pub(crate) inflated: Vec<u8>,
    /// The hash of long keys, before the first byte.
    long: LongHash,
    /// Whether the records of the present batch are all in memory; `None` before they were
    /// asked for.
    is_held: Option<bool>,
}

impl Reader {
    /// For the keys of a map.
    pub(crate) fn of(map: &OffsetMap) -> Self {
        Self {
            decompressor: Decompressor::default(),
            inflated: Vec::new(),
            long: map.hasher().begin(),
            is_held: None,
        }
    }

    /// Another batch comes.
    pub(crate) const fn next_batch(&mut self) {
        self.is_held = None;
    }

    /// Calls `visit` for every record of a batch, until it returns false.
    ///
    /// A payload that inflates to more than [`INFLATE_BYTES`] passes piece by piece.
    pub(crate) fn keys(
        &mut self,
        batch: &Batch<'_>,
        max_record_bytes: usize,
        mut visit: impl FnMut(Key<'_>) -> bool,
    ) -> Result<(), Corruption> {
        let Some(records) = self.inflate(batch, max_record_bytes)? else {
            return self.stream_keys(batch, max_record_bytes, visit);
        };
        for record in records.keys() {
            let record = record?;
            let key = Key {
                offset: record.offset(),
                bytes: record.key().map(KeyBytes::Whole),
                is_tombstone: record.value_bytes().is_none(),
            };
            if !visit(key) {
                break;
            }
        }
        Ok(())
    }

    /// The records of a batch, or `None` if they are too many bytes to hold.
    pub(crate) fn inflate<'b>(
        &'b mut self,
        batch: &Batch<'b>,
        max_record_bytes: usize,
    ) -> Result<Option<Records<'b>>, Corruption> {
        let limit = INFLATE_BYTES.min(max_record_bytes);
        self.is_held = Some(false);
        match self.decompressor.inflate(batch, limit, &mut self.inflated) {
            Ok(records) => {
                self.is_held = Some(true);
                Ok(Some(records))
            }
            Err(damage) if matches!(damage.kind(), CorruptKind::OutputLimit { .. }) => Ok(None),
            Err(damage) => Err(damage),
        }
    }

    /// The records of the present batch, `None` if they are too many bytes to hold. If
    /// [`keys`](Self::keys) walked them, nothing is inflated again.
    pub(crate) fn held<'b>(
        &'b mut self,
        batch: &Batch<'b>,
        max_record_bytes: usize,
    ) -> Result<Option<Records<'b>>, Corruption> {
        match self.is_held {
            Some(true) => {}
            Some(false) => return Ok(None),
            None => return self.inflate(batch, max_record_bytes),
        }
        let is_plain = batch.header().attributes().codec() == Some(Codec::None);
        let payload = if is_plain { batch.payload() } else { &self.inflated };
        Records::new(batch.header(), payload, batch.payload_position()).map(Some)
    }

    fn stream_keys(
        &mut self,
        batch: &Batch<'_>,
        max_record_bytes: usize,
        mut visit: impl FnMut(Key<'_>) -> bool,
    ) -> Result<(), Corruption> {
        let Self { decompressor, inflated: held, long, .. } = self;
        let mut records = decompressor.records(batch, max_record_bytes)?;
        loop {
            held.clear();
            let (mut hash, mut head) = (None, [0; 4]);
            let next = records.next_pieces(&mut |piece| {
                let RecordPiece::Key(bytes) = piece else { return };
                if hash.is_none() && held.len() + bytes.len() > HELD_KEY_BYTES {
                    hash.insert(*long).update(held);
                    head.iter_mut()
                        .zip(held.iter().chain(bytes))
                        .for_each(|(to, byte)| *to = *byte);
                }
                match &mut hash {
                    Some(hash) => hash.update(bytes),
                    None => held.extend_from_slice(bytes),
                }
            });
            let Some(record) = next else { return Ok(()) };
            let record = record?;
            let bytes = record.key_bytes.map(|_| match hash {
                Some(hash) => KeyBytes::Hashed { hash: hash.finish(), head },
                None => KeyBytes::Whole(held),
            });
            let is_tombstone = record.value_bytes.is_none();
            if !visit(Key { offset: record.offset, bytes, is_tombstone }) {
                return Ok(());
            }
        }
    }

    /// As [`keys`](Self::keys), for an entry of magic 0 or 1.
    pub(crate) fn legacy_keys(
        &mut self,
        entry: &LegacyEntry<'_>,
        mut visit: impl FnMut(Key<'_>) -> bool,
    ) -> Result<(), Corruption> {
        let records =
            self.decompressor.inflate_legacy(entry, LEGACY_INFLATE_BYTES, &mut self.inflated)?;
        for record in records {
            let record = record?;
            let (offset, is_tombstone) = (record.offset(), record.value().is_none());
            let bytes = record.key().map(KeyBytes::Whole);
            if !visit(Key { offset, bytes, is_tombstone }) {
                break;
            }
        }
        Ok(())
    }
}

/// The most that a payload may inflate to and be held in memory as a whole.
pub(crate) const INFLATE_BYTES: usize = 4 << 20;

/// The most that a wrapper of magic 0 or 1 may inflate to: such messages cannot be streamed.
pub(crate) const LEGACY_INFLATE_BYTES: usize = 128 << 20;

/// The longest key that is held where its payload is not.
const HELD_KEY_BYTES: usize = 64 << 10;

const _: () = assert!(HELD_KEY_BYTES > crate::hash::KeyHasher::SHORT_BYTES);
