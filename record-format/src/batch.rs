//! Record batches of magic 2. Layout: `docs/format/record-batch.md#header`.

use core::mem::{offset_of, size_of};

use zerocopy::big_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{
    Codec, CorruptKind, Corruption, LeaderEpoch, Offset, Position, ProducerEpoch, ProducerId,
    Records, Sequence, Timestamp, crc32c,
};

/// Header of a v2 record batch, byte for byte as stored. All integers are big-endian.
///
/// Source: `DefaultRecordBatch` in Kafka.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BatchHeader {
    base_offset: I64,       // 0: offset of the first record
    batch_length: I32,      // 8: bytes after this field, so total - 12
    leader_epoch: I32,      // 12: not covered by `crc`
    magic: i8,              // 16: always 2
    crc: U32,               // 17: CRC-32C of bytes 21..
    attributes: I16,        // 21: see `Attributes`
    last_offset_delta: I32, // 23
    base_timestamp: I64,    // 27: ms since the Unix epoch, or the delete horizon
    max_timestamp: I64,     // 35: ms since the Unix epoch
    producer_id: I64,       // 43: -1 when absent
    producer_epoch: I16,    // 51
    base_sequence: I32,     // 53
    record_count: I32,      // 57
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
    /// are not looked at, nor is the CRC: see [`Batch::verify_crc`].
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
        Attributes(self.attributes.get())
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

    /// Records that are in the batch now, as stored: may be negative on damaged bytes, and is
    /// below the offset range after compaction.
    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.record_count.get()
    }
}

/// Where record timestamps come from: bit 3 of the attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimestampType {
    /// The producer's time, per record.
    #[default]
    CreateTime,
    /// The broker's time, one for the batch.
    LogAppendTime,
}

impl TimestampType {
    /// Kafka's name, as in `message.timestamp.type` and the dump tool.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}

/// The attributes of a batch, all 16 bits as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(i16);

impl Attributes {
    /// Bits 0 to 2: the codec.
    pub const CODEC_MASK: i16 = 0x07;
    /// Bit 3: timestamps are the broker's.
    pub const LOG_APPEND_TIME: i16 = 0x08;
    /// Bit 4: part of a transaction.
    pub const TRANSACTIONAL: i16 = 0x10;
    /// Bit 5: control records.
    pub const CONTROL: i16 = 0x20;
    /// Bit 6: the base timestamp holds the delete horizon.
    pub const DELETE_HORIZON: i16 = 0x40;

    /// Wraps the stored bits.
    #[must_use]
    pub const fn new(bits: i16) -> Self {
        Self(bits)
    }

    /// All bits as stored, unknown ones included.
    #[must_use]
    pub const fn bits(self) -> i16 {
        self.0
    }

    /// The codec, or `None` for ids 5 to 7.
    #[must_use]
    pub const fn codec(self) -> Option<Codec> {
        Codec::from_id(self.codec_id())
    }

    /// The codec bits, 0 to 7.
    #[must_use]
    pub const fn codec_id(self) -> u8 {
        let [_, low] = self.0.to_be_bytes();
        low & 7
    }

    /// Where timestamps come from.
    #[must_use]
    pub const fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub const fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the batch holds control records.
    #[must_use]
    pub const fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether the base timestamp holds the delete horizon.
    #[must_use]
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }
}

/// One whole v2 batch in a buffer, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    header: &'a BatchHeader,
    bytes: &'a [u8],
    position: Position,
}

impl<'a> Batch<'a> {
    /// Reads the batch at the start of `bytes`, which is byte `at` of its file; later bytes are
    /// left alone. Checks shape, not content.
    ///
    /// # Errors
    ///
    /// As [`BatchHeader::parse`], and `Truncated` when the batch is longer than `bytes`.
    pub fn parse(bytes: &'a [u8], at: Position) -> Result<Self, Corruption> {
        let header = BatchHeader::parse(bytes, at)?;
        let need = usize::try_from(header.size_bytes()).unwrap_or(usize::MAX);
        let have = bytes.len();
        let bytes = bytes.get(..need).ok_or(CorruptKind::Truncated { need, have }.at(at))?;
        Ok(Self { header, bytes, position: at })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &'a BatchHeader {
        self.header
    }

    /// The whole batch as stored.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The first byte of the batch in its file or buffer.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The bytes after the header: records, or one compressed stream of them.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(BatchHeader::LEN..).unwrap_or_default()
    }

    /// The first byte of the payload in its file or buffer.
    #[must_use]
    pub fn payload_position(&self) -> Position {
        self.position.saturating_add_len(BatchHeader::LEN)
    }

    /// The CRC-32C of the bytes as they are.
    #[must_use]
    pub fn compute_crc(&self) -> u32 {
        let covered = offset_of!(BatchHeader, attributes);
        crc32c(self.bytes.get(covered..).unwrap_or_default())
    }

    /// Compares the stored CRC with the bytes.
    ///
    /// # Errors
    ///
    /// `Crc` at the CRC field.
    pub fn verify_crc(&self) -> Result<(), Corruption> {
        let (stored, computed) = (self.header.crc(), self.compute_crc());
        if stored == computed {
            return Ok(());
        }
        let at = self.position.saturating_add_len(offset_of!(BatchHeader, crc));
        Err(CorruptKind::Crc { stored, computed }.at(at))
    }

    /// The records of an uncompressed batch, borrowed from the buffer.
    ///
    /// # Errors
    ///
    /// `UnknownCodec`, `RecordCount`, and `Compressed` where the batch is compressed: inflate
    /// it first, then use [`Records::new`].
    pub fn records(&self) -> Result<Records<'a>, Corruption> {
        let attributes = self.header.attributes();
        match attributes.codec() {
            Some(Codec::None) => Records::new(self.header, self.payload(), self.payload_position()),
            Some(codec) => Err(CorruptKind::Compressed { codec }.at(self.payload_position())),
            None => {
                let at = self.position.saturating_add_len(offset_of!(BatchHeader, attributes));
                Err(CorruptKind::UnknownCodec { id: attributes.codec_id() }.at(at))
            }
        }
    }
}
