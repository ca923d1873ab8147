//! The 61 bytes at the start of a batch. Layout: `docs/format/record-batch.md#header`.

use core::mem::{offset_of, size_of};

use zerocopy::big_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Attributes;
use crate::{
    CorruptKind, Corruption, LeaderEpoch, Offset, Position, ProducerEpoch, ProducerId, Sequence,
    Timestamp, crc32c, crc32c_append,
};

/// Header of a v2 record batch, byte for byte as stored. All integers are big-endian.
///
/// Source: `DefaultRecordBatch` in Kafka.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BatchHeader {
    pub(super) base_offset: I64,       // 0: offset of the first record
    pub(super) batch_length: I32,      // 8: bytes after this field, so total - 12
    pub(super) leader_epoch: I32,      // 12: not covered by `crc`
    pub(super) magic: i8,              // 16: always 2
    pub(super) crc: U32,               // 17: CRC-32C of bytes 21..
    pub(super) attributes: I16,        // 21: see `Attributes`
    pub(super) last_offset_delta: I32, // 23
    pub(super) base_timestamp: I64,    // 27: ms since the Unix epoch, or the delete horizon
    pub(super) max_timestamp: I64,     // 35: ms since the Unix epoch
    pub(super) producer_id: I64,       // 43: -1 when absent
    pub(super) producer_epoch: I16,    // 51
    pub(super) base_sequence: I32,     // 53
    pub(super) record_count: I32,      // 57
}

const _: () = assert!(size_of::<BatchHeader>() == BatchHeader::LEN);
const _: () = assert!(offset_of!(BatchHeader, crc) == 17);
const _: () = assert!(offset_of!(BatchHeader, attributes) == 21);

impl BatchHeader {
    /// Bytes of the header.
    pub const LEN: usize = 61;

    /// The smallest value of the length field of a v2 batch.
    pub const MIN_BATCH_LENGTH: i32 = 49;

    /// Reads the header at the start of `bytes`, which is byte `at` of its file.
    ///
    /// Checks shape alone: magic 2 and a length field of at least 49. Bytes after the header
    /// are not looked at, nor is the CRC: see [`Batch::verify_crc`](crate::Batch::verify_crc).
    ///
    /// # Errors
    ///
    /// `Truncated` below 61 bytes, `Magic`, `BatchLength`.
    pub fn parse(bytes: &[u8], at: Position) -> Result<&Self, Corruption> {
        let (header, _) = Self::ref_from_prefix(bytes).map_err(|_short| {
            CorruptKind::Truncated { need: Self::LEN, have: bytes.len() }.at(at)
        })?;
        if header.magic != 2 {
            let magic_at = at.saturating_add_len(offset_of!(Self, magic));
            return Err(CorruptKind::Magic { found: header.magic }.at(magic_at));
        }
        let found = header.batch_length.get();
        if found < Self::MIN_BATCH_LENGTH {
            let length_at = at.saturating_add_len(offset_of!(Self, batch_length));
            return Err(
                CorruptKind::BatchLength { found, min: Self::MIN_BATCH_LENGTH }.at(length_at)
            );
        }
        Ok(header)
    }

    /// Bytes of the whole batch, header included: at least 61 after `parse`.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        u64::try_from(self.batch_length.get()).unwrap_or(0).saturating_add(12)
    }

    /// Offset of the first record of the batch as it was first written.
    #[must_use]
    pub fn base_offset(&self) -> Offset {
        Offset::new(self.base_offset.get())
    }

    /// Offset of the last record of the batch as it was first written; wraps on damaged bytes.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        Offset::new(self.base_offset.get().wrapping_add(i64::from(self.last_offset_delta.get())))
    }

    /// The offset after the batch; wraps on damaged bytes.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset::new(self.last_offset().get().wrapping_add(1))
    }

    /// Last offset minus base offset as stored.
    #[must_use]
    pub fn last_offset_delta(&self) -> i32 {
        self.last_offset_delta.get()
    }

    /// The epoch of the leader that wrote the batch; `None` for any negative number.
    #[must_use]
    pub fn leader_epoch(&self) -> Option<LeaderEpoch> {
        let raw = self.leader_epoch.get();
        (raw >= 0).then_some(LeaderEpoch::new(raw))
    }

    /// The leader epoch field as stored, -1 for none.
    #[must_use]
    pub fn leader_epoch_raw(&self) -> i32 {
        self.leader_epoch.get()
    }

    /// The stored CRC-32C, over everything from the attributes on.
    #[must_use]
    pub fn crc(&self) -> u32 {
        self.crc.get()
    }

    /// Codec, timestamp type and flags.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        Attributes::new(self.attributes.get())
    }

    /// The base of timestamp deltas as stored: the first record's timestamp, -1, or the delete
    /// horizon.
    #[must_use]
    pub fn base_timestamp_raw(&self) -> i64 {
        self.base_timestamp.get()
    }

    /// The largest timestamp as stored, -1 for none.
    #[must_use]
    pub fn max_timestamp_raw(&self) -> i64 {
        self.max_timestamp.get()
    }

    /// The largest timestamp of the batch; `None` when stored as -1.
    #[must_use]
    pub fn max_timestamp(&self) -> Option<Timestamp> {
        let raw = self.max_timestamp.get();
        (raw != -1).then_some(Timestamp::new(raw))
    }

    /// When tombstones and markers of the batch may go, if the cleaner has set it.
    #[must_use]
    pub fn delete_horizon(&self) -> Option<Timestamp> {
        self.attributes().has_delete_horizon().then(|| Timestamp::new(self.base_timestamp.get()))
    }

    /// The producer, for idempotent and transactional batches; `None` for any negative number.
    #[must_use]
    pub fn producer_id(&self) -> Option<ProducerId> {
        let raw = self.producer_id.get();
        (raw > -1).then_some(ProducerId::new(raw))
    }

    /// The producer id field as stored, -1 for none.
    #[must_use]
    pub fn producer_id_raw(&self) -> i64 {
        self.producer_id.get()
    }

    /// The producer epoch as stored, -1 for none.
    #[must_use]
    pub fn producer_epoch(&self) -> ProducerEpoch {
        ProducerEpoch::new(self.producer_epoch.get())
    }

    /// The sequence of the first record; `None` when stored as -1.
    #[must_use]
    pub fn base_sequence(&self) -> Option<Sequence> {
        let raw = self.base_sequence.get();
        (raw != -1).then_some(Sequence::new(raw))
    }

    /// The sequence of the last record: follows the offset delta, so it survives compaction.
    #[must_use]
    pub fn last_sequence(&self) -> Option<Sequence> {
        self.base_sequence().map(|base| base.wrapping_add(self.last_offset_delta.get()))
    }

    /// The sequence of the record at `offset`, which is one of the batch's; `None` without a
    /// base sequence.
    #[must_use]
    pub fn sequence_of(&self, offset: Offset) -> Option<Sequence> {
        let base = self.base_sequence().filter(|base| base.get() >= 0)?;
        let delta = offset.get().wrapping_sub(self.base_offset.get());
        i32::try_from(delta).ok().map(|delta| base.wrapping_add(delta))
    }

    /// Records that are in the batch now, as stored: may be negative on damaged bytes, and is
    /// below the offset range after compaction.
    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.record_count.get()
    }

    /// Whether no record is left: what compaction keeps to remember a producer's sequence or
    /// the end of a cleaned range. Its payload is never looked at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.record_count.get() == 0
    }

    /// The 61 bytes as stored.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        zerocopy::transmute_ref!(self)
    }

    /// The header of this batch after all its records went: a whole batch of 61 bytes that
    /// keeps offsets, producer, sequence, flags, timestamp type and largest timestamp.
    ///
    /// Codec and delete horizon go, attribute bits without a meaning stay.
    ///
    /// Source: `DefaultRecordBatch.writeEmptyHeader` in Kafka;
    /// `docs/format/record-batch.md#empty-batches`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use alluvium_record_format::{Batch, BatchBuilder, BatchSettings, Offset, Position};
    /// # use alluvium_record_format::SimpleRecord;
    /// let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(7)));
    /// builder.append(&SimpleRecord::new().value(b"gone soon"))?;
    /// let batch = Batch::parse(builder.finish()?, Position::new(0))?;
    ///
    /// let empty = batch.header().to_empty();
    /// let kept = Batch::parse(empty.as_bytes(), Position::new(0))?;
    /// kept.verify_crc()?;
    /// assert_eq!(kept.header().next_offset(), Offset::new(8));
    /// assert_eq!(kept.records()?.count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_empty(&self) -> Self {
        let gone = Attributes::CODEC_MASK | Attributes::DELETE_HORIZON;
        let mut empty = Self {
            batch_length: I32::new(Self::MIN_BATCH_LENGTH),
            attributes: I16::new(self.attributes.get() & !gone),
            base_timestamp: I64::new(-1),
            record_count: I32::new(0),
            ..*self
        };
        empty.write_crc(&[]);
        empty
    }

    /// Stores the CRC of this header followed by `payload`.
    pub(super) fn write_crc(&mut self, payload: &[u8]) {
        let covered = self.as_bytes().get(offset_of!(Self, attributes)..).unwrap_or_default();
        self.crc = U32::new(crc32c_append(crc32c(covered), payload));
    }
}
