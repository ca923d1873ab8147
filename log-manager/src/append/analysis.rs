//! The first look at the batches of an append: shape, checksum, order of offsets.
//!
//! Source: `UnifiedLog.analyzeAndValidateRecords` in Kafka.

use alluvium_record_format::{Codec, Entry, LeaderEpoch, LegacyEntry, Offset, Position, Prefix};

use super::{AppendOrigin, InvalidBatch, ValidationError};

/// What the batches of an append are, all of them sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Analysis {
    /// Bytes of whole batches from the start; the rest of the buffer is left out.
    pub(crate) valid_bytes: usize,
    /// How many batches that is.
    pub(crate) batch_count: usize,
    /// The base offset of the first batch; `None` without one, and before magic 2, whose first
    /// offset is deep.
    pub(crate) first_offset: Option<Offset>,
    /// The last offset of the first batch.
    pub(crate) last_offset_of_first: Offset,
    /// The last offset of the last batch.
    pub(crate) last_offset: Offset,
    /// The largest timestamp, as the headers say; -1 for none.
    pub(crate) max_timestamp: i64,
    /// The codec of the last compressed batch.
    pub(crate) source: Codec,
    /// The magic of the first batch.
    pub(crate) first_magic: i8,
}

/// Looks at batches that get their offsets here.
pub(super) fn analyze_sent(
    buffer: &[u8],
    origin: AppendOrigin,
    max_message_bytes: u32,
) -> Result<Analysis, ValidationError> {
    let mut analysis = Analysis::empty();
    while let Some(entry) = next_entry(buffer, analysis.valid_bytes)? {
        let position = Position::saturating_from_len(analysis.valid_bytes);
        if let Entry::Batch(batch) = &entry
            && origin == AppendOrigin::Client
            && batch.header().base_offset() != Offset::new(0)
        {
            let found = batch.header().base_offset().get();
            let reason = InvalidBatch::BaseOffset { found };
            return Err(ValidationError::Batch { position, reason });
        }
        check_size(&entry, position, max_message_bytes)?;
        analysis.add(&entry)?;
    }
    Ok(analysis)
}

/// Looks at batches that bring their offsets: what a follower fetched. All are of magic 2.
///
/// Stops before the first batch of a later election than `leader_epoch`, which the follower has
/// not heard of yet. What a Raft leader appends must be of that very election, and no larger than
/// `max_message_bytes`: a follower takes what its leader took.
pub(crate) fn analyze_given(
    buffer: &[u8],
    leader_epoch: LeaderEpoch,
    origin: AppendOrigin,
    max_message_bytes: u32,
) -> Result<Analysis, ValidationError> {
    let is_raft = origin == AppendOrigin::RaftLeader;
    let mut analysis = Analysis::empty();
    let mut previous = Offset::new(-1);
    let mut fall = None;
    while let Some(entry) = next_entry(buffer, analysis.valid_bytes)? {
        let position = Position::saturating_from_len(analysis.valid_bytes);
        let found = epoch_of(&entry);
        if is_raft && found != leader_epoch.get() {
            return Err(InvalidBatch::LeaderEpoch { found, expected: leader_epoch }.at(position));
        }
        if found > leader_epoch.get() {
            break;
        }
        if is_raft {
            check_size(&entry, position, max_message_bytes)?;
        }
        analysis.add(&entry)?;
        if found < -1 {
            return Err(InvalidBatch::NegativeEpoch { found }.at(position));
        }
        if let Entry::Legacy(entry) = &entry {
            return Err(InvalidBatch::OldFormat { magic: entry.magic() }.at(position));
        }
        if analysis.last_offset <= previous {
            let offset = analysis.last_offset;
            fall.get_or_insert(ValidationError::OffsetsOutOfOrder { previous, offset });
        }
        previous = analysis.last_offset;
    }
    fall.map_or(Ok(analysis), Err)
}

impl Analysis {
    const fn empty() -> Self {
        Self {
            valid_bytes: 0,
            batch_count: 0,
            first_offset: None,
            last_offset_of_first: Offset::new(-1),
            last_offset: Offset::new(-1),
            max_timestamp: -1,
            source: Codec::None,
            first_magic: 2,
        }
    }

    /// Verifies the checksum of a batch and takes note of it.
    fn add(&mut self, entry: &Entry<'_>) -> Result<(), ValidationError> {
        let facts = match entry {
            Entry::Batch(batch) => {
                batch.verify_crc().map_err(|source| ValidationError::Corrupt { source })?;
                let header = batch.header();
                let Some(codec) = header.attributes().codec() else {
                    return Err(unknown_codec(batch.position()));
                };
                Facts {
                    first_offset: Some(header.base_offset()),
                    last_offset: header.last_offset(),
                    max_timestamp: header.max_timestamp_raw(),
                    codec,
                    magic: 2,
                }
            }
            Entry::Legacy(entry) => Facts::of_legacy(entry)?,
            _ => return Ok(()),
        };
        if self.batch_count == 0 {
            self.first_offset = facts.first_offset;
            self.last_offset_of_first = facts.last_offset;
            self.first_magic = facts.magic;
        }
        self.batch_count += 1;
        self.valid_bytes += entry.bytes().len();
        self.last_offset = facts.last_offset;
        self.max_timestamp = self.max_timestamp.max(facts.max_timestamp);
        if facts.codec != Codec::None {
            self.source = facts.codec;
        }
        Ok(())
    }
}

/// The epoch of the leader that wrote an entry, -1 for none.
fn epoch_of(entry: &Entry<'_>) -> i32 {
    match entry {
        Entry::Batch(batch) => batch.header().leader_epoch_raw(),
        _ => -1,
    }
}

fn unknown_codec(position: Position) -> ValidationError {
    InvalidBatch::UnknownCodec.at(position)
}

struct Facts {
    first_offset: Option<Offset>,
    last_offset: Offset,
    max_timestamp: i64,
    codec: Codec,
    magic: i8,
}

impl Facts {
    fn of_legacy(entry: &LegacyEntry<'_>) -> Result<Self, ValidationError> {
        entry.verify_crc().map_err(|source| ValidationError::Corrupt { source })?;
        let Some(codec) = entry.codec() else { return Err(unknown_codec(entry.position())) };
        Ok(Self {
            first_offset: None,
            last_offset: entry.offset(),
            max_timestamp: entry.timestamp_raw(),
            codec,
            magic: entry.magic(),
        })
    }
}

/// The entry at byte `at` of the buffer; `None` where no whole one is left.
///
/// A batch that the buffer cuts off is no error: a fetch ends anywhere.
///
/// Source: `ByteBufferLogInputStream` in Kafka.
pub(super) fn next_entry(buffer: &[u8], at: usize) -> Result<Option<Entry<'_>>, ValidationError> {
    let rest = buffer.get(at..).unwrap_or_default();
    let position = Position::saturating_from_len(at);
    let Some(length) = rest.get(8..12).and_then(|bytes| bytes.try_into().ok()) else {
        return Ok(None);
    };
    let corrupt = |source| ValidationError::Corrupt { source };
    let length = i32::from_be_bytes(length);
    if length < Prefix::MIN_LENGTH {
        return Prefix::parse(rest, position).map(|_| None).map_err(corrupt);
    }
    if rest.len() < Prefix::LEN {
        return Ok(None);
    }
    if !matches!(rest[MAGIC_AT], 0..=2) {
        return Prefix::parse(rest, position).map(|_| None).map_err(corrupt);
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    match rest.get(..length.saturating_add(Prefix::OVERHEAD)) {
        Some(bytes) => Entry::parse(bytes, position).map(Some).map_err(corrupt),
        None => Ok(None),
    }
}

fn check_size(
    entry: &Entry<'_>,
    position: Position,
    max_bytes: u32,
) -> Result<(), ValidationError> {
    match u32::try_from(entry.bytes().len()) {
        Ok(size) if size <= max_bytes => Ok(()),
        _ => {
            let size_bytes = u64::try_from(entry.bytes().len()).unwrap_or(u64::MAX);
            Err(ValidationError::BatchTooLarge { position, size_bytes, max_bytes })
        }
    }
}

/// The magic byte within an entry of any format.
const MAGIC_AT: usize = 16;
