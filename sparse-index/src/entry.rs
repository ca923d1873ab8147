//! The entries of the three index files, and how they are stored.

use core::mem::size_of;

use alluvium_record_format::{Offset, Position, ProducerId, Timestamp};
use zerocopy::big_endian::{I16, I64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Refusal;

/// Bytes of one entry of an offset index.
pub(crate) const OFFSET_ENTRY_LEN: usize = 8;

/// Bytes of one entry of a time index.
pub(crate) const TIME_ENTRY_LEN: usize = 12;

/// Bytes of one entry of a transaction index.
pub(crate) const TXN_ENTRY_LEN: usize = 34;

/// Where a batch lies: its last offset, and its first byte in the `.log` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OffsetEntry {
    /// The last offset of the batch.
    pub offset: Offset,
    /// The first byte of the batch. Above `i32::MAX` only in a damaged file.
    pub position: Position,
}

/// The largest timestamp of a segment up to a batch, and the batch that reached it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TimeEntry {
    /// The largest batch timestamp so far.
    pub timestamp: Timestamp,
    /// The last offset of the first batch with that timestamp.
    pub offset: Offset,
}

/// A transaction that was aborted: what a `read_committed` reader must leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AbortedTxn {
    /// Whose transaction it was.
    pub producer_id: ProducerId,
    /// The offset of its first record.
    pub first_offset: Offset,
    /// The offset of its ABORT marker.
    pub last_offset: Offset,
    /// The last stable offset once the marker was written.
    pub last_stable_offset: Offset,
}

impl OffsetEntry {
    /// An entry of these values.
    #[must_use]
    pub const fn new(offset: Offset, position: Position) -> Self {
        Self { offset, position }
    }

    /// Reads the 64 bits of a stored entry, in the order of the machine.
    pub(crate) const fn unpack(base: Offset, packed: u64) -> Self {
        let [r0, r1, r2, r3, p0, p1, p2, p3] = packed.to_be_bytes();
        Self {
            offset: absolute(base, i32::from_be_bytes([r0, r1, r2, r3])),
            position: Position::new(u32::from_be_bytes([p0, p1, p2, p3])),
        }
    }

    /// The 64 bits to store, in the order of the machine.
    pub(crate) fn pack(self, base: Offset) -> Result<u64, Refusal> {
        let relative = relative(base, self.offset)?;
        let position = self.position;
        if i32::try_from(position.get()).is_err() {
            return Err(Refusal::PositionOverflow { position });
        }
        let [r0, r1, r2, r3] = relative.to_be_bytes();
        let [p0, p1, p2, p3] = position.get().to_be_bytes();
        Ok(u64::from_be_bytes([r0, r1, r2, r3, p0, p1, p2, p3]))
    }
}

impl TimeEntry {
    /// An entry of these values.
    #[must_use]
    pub const fn new(timestamp: Timestamp, offset: Offset) -> Self {
        Self { timestamp, offset }
    }

    /// Reads the three words of a stored entry, in the order of the machine.
    pub(crate) fn unpack(base: Offset, words: [u32; 3]) -> Self {
        let [high, low, relative] = words;
        Self {
            timestamp: Timestamp::new(timestamp_of(high, low)),
            offset: absolute(base, i32::from_be_bytes(relative.to_be_bytes())),
        }
    }

    /// The three words to store, in the order of the machine.
    pub(crate) fn pack(self, base: Offset) -> Result<[u32; 3], Refusal> {
        let relative = relative(base, self.offset)?;
        let [h0, h1, h2, h3, l0, l1, l2, l3] = self.timestamp.get().to_be_bytes();
        let high = u32::from_be_bytes([h0, h1, h2, h3]);
        let low = u32::from_be_bytes([l0, l1, l2, l3]);
        Ok([high, low, u32::from_be_bytes(relative.to_be_bytes())])
    }
}

impl AbortedTxn {
    /// A transaction of these values.
    #[must_use]
    pub const fn new(
        producer_id: ProducerId,
        first_offset: Offset,
        last_offset: Offset,
        last_stable_offset: Offset,
    ) -> Self {
        Self { producer_id, first_offset, last_offset, last_stable_offset }
    }

    /// The entry as a transaction index stores it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use alluvium_record_format::{Offset, ProducerId};
    /// # use alluvium_sparse_index::{AbortedTxn, TransactionIndex};
    /// let [first, last, stable] = [100, 200, 201].map(Offset::new);
    /// let txn = AbortedTxn::new(ProducerId::new(7), first, last, stable);
    /// let bytes = txn.to_bytes();
    /// assert_eq!(TransactionIndex::new(first, &bytes).entry(0), Ok(Some(txn)));
    /// ```
    #[must_use]
    pub fn to_bytes(self) -> [u8; TXN_ENTRY_LEN] {
        let mut bytes = [0; TXN_ENTRY_LEN];
        bytes.copy_from_slice(StoredTxn::from(self).as_bytes());
        bytes
    }
}

/// One entry of a transaction index, byte for byte as stored.
///
/// Source: `AbortedTxn` in Kafka; `docs/format/transaction-index.md#entry`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct StoredTxn {
    version: I16,            // 0: always 0
    producer_id: I64,        // 2
    first_offset: I64,       // 10
    last_offset: I64,        // 18
    last_stable_offset: I64, // 26
}

const _: () = assert!(size_of::<StoredTxn>() == TXN_ENTRY_LEN);

impl StoredTxn {
    pub(crate) fn version(&self) -> i16 {
        self.version.get()
    }

    pub(crate) fn txn(&self) -> AbortedTxn {
        AbortedTxn {
            producer_id: ProducerId::new(self.producer_id.get()),
            first_offset: Offset::new(self.first_offset.get()),
            last_offset: Offset::new(self.last_offset.get()),
            last_stable_offset: Offset::new(self.last_stable_offset.get()),
        }
    }
}

impl From<AbortedTxn> for StoredTxn {
    fn from(txn: AbortedTxn) -> Self {
        Self {
            version: I16::new(0),
            producer_id: I64::new(txn.producer_id.get()),
            first_offset: I64::new(txn.first_offset.get()),
            last_offset: I64::new(txn.last_offset.get()),
            last_stable_offset: I64::new(txn.last_stable_offset.get()),
        }
    }
}

/// The two words of a timestamp as one number.
pub(crate) fn timestamp_of(high: u32, low: u32) -> i64 {
    let [h0, h1, h2, h3] = high.to_be_bytes();
    let [l0, l1, l2, l3] = low.to_be_bytes();
    i64::from_be_bytes([h0, h1, h2, h3, l0, l1, l2, l3])
}

/// An offset that a file states relative to `base`. Wraps where `base` itself is nonsense.
#[expect(clippy::as_conversions, reason = "widening, in a const function")]
const fn absolute(base: Offset, relative: i32) -> Offset {
    Offset::new(base.get().wrapping_add(relative as i64))
}

/// What an entry stores for `offset`. The difference is taken in 64 bits, so it cannot wrap.
fn relative(base: Offset, offset: Offset) -> Result<u32, Refusal> {
    match offset.relative_to(base) {
        Some(relative) => Ok(relative.get()),
        None => Err(Refusal::OffsetOverflow { base, offset }),
    }
}
