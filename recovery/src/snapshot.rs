//! Producer snapshots, `<offset>.snapshot`: `docs/format/producer-snapshot.md`.

use std::mem::size_of;
use std::path::Path;
use std::slice;

use alluvium_record_format::{
    Offset, Position, ProducerEpoch, ProducerId, Sequence, Timestamp, crc32c, crc32c_append,
};
use alluvium_segment::Io;
use zerocopy::big_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::durable::{read_file, read_start};
use crate::{BatchMetadata, Damage, DamageKind, FileError, ProducerEntry};

/// What stands before the entries.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    version: I16,     // 0: always 1
    crc: U32,         // 2: CRC-32C of bytes 6..
    entry_count: I32, // 6
}

/// One producer as stored: 46 bytes. All integers are big-endian.
///
/// Source: `ProducerStateManager.writeSnapshot` in Kafka;
/// `docs/format/producer-snapshot.md#entry`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SnapshotEntry {
    producer_id: I64,              // 0
    producer_epoch: I16,           // 8
    last_sequence: I32,            // 10: -1 when no batch is known
    last_offset: I64,              // 14: -1 when no batch is known
    offset_delta: I32,             // 22: last minus first offset of that batch
    last_timestamp: I64,           // 26: ms since the Unix epoch, -1 for none
    coordinator_epoch: I32,        // 34: -1 when no marker was seen
    current_txn_first_offset: I64, // 38: -1 without an open transaction
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);
const _: () = assert!(size_of::<SnapshotEntry>() == SnapshotEntry::LEN);

const HEADER_LEN: usize = 10;
const VERSION: i16 = 1;

/// The first byte that the checksum covers.
const CRC_START: usize = 6;

/// Offsets of fields, for errors.
const CRC_POSITION: Position = Position::new(2);
const COUNT_POSITION: Position = Position::new(6);

impl SnapshotEntry {
    /// Bytes of an entry.
    pub const LEN: usize = 46;

    /// The producer.
    #[must_use]
    pub fn producer_id(&self) -> ProducerId {
        ProducerId::new(self.producer_id.get())
    }

    /// The producer's latest epoch.
    #[must_use]
    pub fn producer_epoch(&self) -> ProducerEpoch {
        ProducerEpoch::new(self.producer_epoch.get())
    }

    /// The last batch of the producer; its others are not in a snapshot.
    #[must_use]
    pub fn last_batch(&self) -> Option<BatchMetadata> {
        (self.last_offset.get() >= 0).then(|| BatchMetadata {
            last_sequence: Sequence::new(self.last_sequence.get()),
            last_offset: Offset::new(self.last_offset.get()),
            offset_delta: self.offset_delta.get(),
            timestamp: self.last_timestamp(),
        })
    }

    /// The time of the last batch or marker.
    #[must_use]
    pub fn last_timestamp(&self) -> Timestamp {
        Timestamp::new(self.last_timestamp.get())
    }

    /// The epoch of the transaction coordinator that wrote the last marker.
    #[must_use]
    pub fn coordinator_epoch(&self) -> Option<i32> {
        let raw = self.coordinator_epoch.get();
        (raw >= 0).then_some(raw)
    }

    /// Where the open transaction began, if one is open.
    #[must_use]
    pub fn current_txn_first_offset(&self) -> Option<Offset> {
        let raw = self.current_txn_first_offset.get();
        (raw >= 0).then_some(Offset::new(raw))
    }

    /// The producer as it is after a restart: with its last batch alone.
    #[must_use]
    pub fn to_entry(&self) -> ProducerEntry {
        let mut entry = ProducerEntry::new(self.producer_id(), self.producer_epoch());
        entry.coordinator_epoch = self.coordinator_epoch();
        entry.last_timestamp = self.last_timestamp();
        entry.current_txn_first_offset = self.current_txn_first_offset();
        entry.batches.extend(self.last_batch());
        entry
    }
}

impl From<&ProducerEntry> for SnapshotEntry {
    fn from(entry: &ProducerEntry) -> Self {
        let last = entry.last_batch();
        Self {
            producer_id: entry.producer_id.get().into(),
            producer_epoch: entry.producer_epoch.get().into(),
            last_sequence: last.map_or(-1, |batch| batch.last_sequence.get()).into(),
            last_offset: last.map_or(-1, |batch| batch.last_offset.get()).into(),
            offset_delta: last.map_or(0, |batch| batch.offset_delta).into(),
            last_timestamp: entry.last_timestamp.get().into(),
            coordinator_epoch: entry.coordinator_epoch.unwrap_or(-1).into(),
            current_txn_first_offset: entry.current_txn_first_offset.map_or(-1, Offset::get).into(),
        }
    }
}

/// The content of a snapshot file, borrowed.
///
/// # Examples
///
/// ```
/// # use alluvium_recovery::ProducerSnapshot;
/// // What Kafka writes for a log without idempotent producers.
/// let bytes = [0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0];
/// let snapshot = ProducerSnapshot::parse(&bytes)?;
/// snapshot.verify_crc()?;
/// assert_eq!(snapshot.entries().len(), 0);
/// # Ok::<(), alluvium_recovery::Damage>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ProducerSnapshot<'a> {
    bytes: &'a [u8],
    header: &'a Header,
    entries: &'a [SnapshotEntry],
}

impl<'a> ProducerSnapshot<'a> {
    /// Reads the shape of a snapshot: version, count, size. No allocation, no checksum.
    ///
    /// # Errors
    ///
    /// Another version than 1, a negative count, a size that is not that of so many entries.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Damage> {
        let have = bytes.len();
        let start = Position::new(0);
        let (header, rest) = Header::ref_from_prefix(bytes)
            .map_err(|_short| truncated(HEADER_LEN, have).at(start))?;
        if header.version.get() != VERSION {
            let found = header.version.get().into();
            return Err(DamageKind::Version { found }.at(start));
        }
        let stated = header.entry_count.get();
        let bad_count = DamageKind::Number { field: "entry count" }.at(COUNT_POSITION);
        let count = usize::try_from(stated).map_err(|_negative| bad_count)?;
        let need = count.saturating_mul(SnapshotEntry::LEN);
        let (entries, trailing) = rest
            .split_at_checked(need)
            .ok_or(truncated(need.saturating_add(HEADER_LEN), have).at(start))?;
        if !trailing.is_empty() {
            let end = Position::saturating_from_len(have.saturating_sub(trailing.len()));
            let found = u64::try_from(trailing.len()).unwrap_or(u64::MAX);
            return Err(DamageKind::TrailingBytes { found }.at(end));
        }
        let entries = <[SnapshotEntry]>::ref_from_bytes(entries).map_err(|_size| bad_count)?;
        Ok(Self { bytes, header, entries })
    }

    /// Compares the stored checksum with the bytes.
    ///
    /// # Errors
    ///
    /// [`DamageKind::Crc`].
    pub fn verify_crc(&self) -> Result<(), Damage> {
        let stored = self.header.crc.get();
        let computed = crc32c(self.bytes.get(CRC_START..).unwrap_or_default());
        if stored == computed {
            return Ok(());
        }
        Err(DamageKind::Crc { stored, computed }.at(CRC_POSITION))
    }

    /// The producers, in the order of the file, which means nothing.
    pub fn entries(&self) -> slice::Iter<'a, SnapshotEntry> {
        self.entries.iter()
    }
}

/// The content of a snapshot file of these producers, byte for byte as Kafka writes it.
///
/// # Examples
///
/// ```
/// # use alluvium_recovery::encode_snapshot;
/// assert_eq!(encode_snapshot([]), [0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0]);
/// ```
#[must_use]
pub fn encode_snapshot<'a>(entries: impl IntoIterator<Item = &'a ProducerEntry>) -> Vec<u8> {
    let entries: Vec<_> = entries.into_iter().map(SnapshotEntry::from).collect();
    let count = i32::try_from(entries.len()).unwrap_or(i32::MAX);
    let crc = crc32c_append(crc32c(&count.to_be_bytes()), entries.as_bytes());
    let header = Header { version: VERSION.into(), crc: crc.into(), entry_count: count.into() };
    [header.as_bytes(), entries.as_bytes()].concat()
}

/// Reads and checks a snapshot file: the producers as they are after a restart.
///
/// # Errors
///
/// [`FileError::Corrupt`] as for [`ProducerSnapshot::parse`] and
/// [`ProducerSnapshot::verify_crc`]: drop the file and take the one before. [`FileError::Io`].
pub fn read_snapshot(io: &Io, path: &Path) -> Result<Vec<ProducerEntry>, FileError> {
    let bytes = read_snapshot_bytes(io, path)?;
    decode(&bytes).map_err(|e| FileError::corrupt(path, e))
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<ProducerEntry>, Damage> {
    let snapshot = ProducerSnapshot::parse(bytes)?;
    snapshot.verify_crc()?;
    Ok(snapshot.entries().map(SnapshotEntry::to_entry).collect())
}

/// The bytes of a snapshot file, which are no more than its count of producers calls for: what
/// a file says of itself is read before memory is taken for it.
pub(crate) fn read_snapshot_bytes(io: &Io, path: &Path) -> Result<Vec<u8>, FileError> {
    let head = read_start(io, path, HEADER_LEN)?;
    let count = Header::ref_from_prefix(&head).map_or(0, |(head, _)| head.entry_count.get());
    let bytes = usize::try_from(count).unwrap_or(0).saturating_mul(SnapshotEntry::LEN);
    let max = u64::try_from(bytes.saturating_add(HEADER_LEN)).unwrap_or(u64::MAX);
    read_file(io, path, max.min(MAX_SNAPSHOT_BYTES))
}

/// Forty million producers.
const MAX_SNAPSHOT_BYTES: u64 = 1 << 31;

fn truncated(need: usize, have: usize) -> DamageKind {
    let wide = |len| u64::try_from(len).unwrap_or(u64::MAX);
    DamageKind::Truncated { need: wide(need), have: wide(have) }
}
