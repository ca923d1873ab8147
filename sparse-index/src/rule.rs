//! When a batch gets an index entry: the one place that decides, for append, recovery and tools.

use alluvium_record_format::{BatchHeader, Offset, Position, Timestamp};

use crate::{OffsetEntry, TimeEntry};

/// What the rule needs to know of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchInfo {
    /// Its last offset.
    pub last_offset: Offset,
    /// Its first byte in the `.log` file.
    pub position: Position,
    /// Its size in bytes, header included.
    pub size_bytes: u32,
    /// Its largest timestamp; `None` where it has none (-1).
    pub max_timestamp: Option<Timestamp>,
}

impl BatchInfo {
    /// A batch of these values.
    #[must_use]
    pub const fn new(
        last_offset: Offset,
        position: Position,
        size_bytes: u32,
        max_timestamp: Option<Timestamp>,
    ) -> Self {
        Self { last_offset, position, size_bytes, max_timestamp }
    }

    /// The batch with this header, which begins at byte `position` of its file.
    #[must_use]
    pub fn from_header(header: &BatchHeader, position: Position) -> Self {
        Self {
            last_offset: header.last_offset(),
            position,
            size_bytes: u32::try_from(header.size_bytes()).unwrap_or(u32::MAX),
            max_timestamp: header.max_timestamp(),
        }
    }
}

/// The entries that a batch brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueEntries {
    /// For the offset index: the batch itself.
    pub offset: OffsetEntry,
    /// For the time index: the running maximum, which may be an earlier batch. `None` while no
    /// batch had a timestamp. The index ignores it where it is not above its last entry.
    pub time: Option<TimeEntry>,
}

/// Kafka's rule for index entries: an entry for the first batch that starts more than the
/// interval after the start of the last batch with an entry.
///
/// Feed it every batch in file order. The bytes are compared before the batch is counted, so
/// the first batch after [`new`](Self::new) never gets an entry. Kafka's recovery counts from
/// file positions and comes to the same entries, as long as one object saw all batches: use
/// this type for both. A log that is reopened counts from 0 again, wherever the last entry lies.
///
/// Source: `LogSegment.append`, `LogSegment.recover` in Kafka;
/// `docs/format/offset-index.md#interval`.
///
/// # Examples
///
/// ```
/// # use alluvium_record_format::{Offset, Position, Timestamp};
/// # use alluvium_sparse_index::{BatchInfo, IndexRule};
/// let mut rule = IndexRule::new(300);
/// let mut positions = Vec::new();
/// for (last_offset, position, size) in [(1, 0, 283), (2, 283, 172), (3, 455, 172)] {
///     let batch = BatchInfo::new(Offset::new(last_offset), Position::new(position), size, None);
///     positions.extend(rule.on_batch(batch).map(|due| due.offset.position.get()));
/// }
/// assert_eq!(positions, [455]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct IndexRule {
    interval_bytes: u32,
    bytes_since_last_entry: u64,
    max_timestamp: Option<TimeEntry>,
}

impl IndexRule {
    /// A rule for an empty segment. `interval_bytes` is `index.interval.bytes`; Kafka's default
    /// is 4096.
    #[must_use]
    pub const fn new(interval_bytes: u32) -> Self {
        Self::resume(interval_bytes, None)
    }

    /// A rule for a segment that holds data. `max_timestamp` is what is known of that data, most
    /// often the last entry of the time index.
    #[must_use]
    pub const fn resume(interval_bytes: u32, max_timestamp: Option<TimeEntry>) -> Self {
        Self { interval_bytes, bytes_since_last_entry: 0, max_timestamp }
    }

    /// Counts a batch, and returns the entries to append for it, if any.
    pub fn on_batch(&mut self, batch: BatchInfo) -> Option<DueEntries> {
        self.note_timestamp(batch);
        let due = self.bytes_since_last_entry > u64::from(self.interval_bytes);
        if due {
            self.bytes_since_last_entry = 0;
        }
        self.bytes_since_last_entry =
            self.bytes_since_last_entry.saturating_add(u64::from(batch.size_bytes));
        due.then(|| DueEntries {
            offset: OffsetEntry::new(batch.last_offset, batch.position),
            time: self.max_timestamp,
        })
    }

    /// Starts to count from 0 again, as Kafka does after a truncation, with what is now known of
    /// the largest timestamp.
    pub const fn restart(&mut self, max_timestamp: Option<TimeEntry>) {
        self.bytes_since_last_entry = 0;
        self.max_timestamp = max_timestamp;
    }

    /// Gives the next batch an entry, however near the last one is: one behind bytes that are no
    /// batch, where no walk from an entry before arrives.
    pub const fn make_next_due(&mut self) {
        self.bytes_since_last_entry = u64::MAX;
    }

    /// The largest timestamp so far, with the last offset of the first batch that had it:
    /// the final entry of the time index. `None` while no batch had a timestamp.
    #[must_use]
    pub const fn max_timestamp(&self) -> Option<TimeEntry> {
        self.max_timestamp
    }

    /// Bytes from the start of the last batch with an entry to the end of the last batch.
    #[must_use]
    pub const fn bytes_since_last_entry(&self) -> u64 {
        self.bytes_since_last_entry
    }

    /// Strictly larger alone counts: of batches with the same maximum, the first stays.
    fn note_timestamp(&mut self, batch: BatchInfo) {
        let Some(timestamp) = batch.max_timestamp else { return };
        let known = self.max_timestamp.map_or(NO_TIMESTAMP, |entry| entry.timestamp);
        if timestamp > known {
            self.max_timestamp = Some(TimeEntry::new(timestamp, batch.last_offset));
        }
    }
}

/// Kafka starts from -1, so a timestamp below 0 is never the largest.
const NO_TIMESTAMP: Timestamp = Timestamp::new(-1);
