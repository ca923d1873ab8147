//! What a load does to a directory, and why.

use std::fmt;

use alluvium_record_format::{Corruption, Offset};
use alluvium_segment::SegmentFileName;

/// One change of a partition directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A file goes.
    Remove(SegmentFileName),
    /// A file loses its `.swap` and takes the place of what has that name.
    Restore(SegmentFileName),
    /// A file gets `.deleted`, to be removed after the delay for files.
    MarkDeleted(SegmentFileName),
    /// A file loses its end.
    #[non_exhaustive]
    Cut {
        /// The file.
        file: SegmentFileName,
        /// Its bytes before.
        from_bytes: u64,
        /// Its bytes after.
        to_bytes: u64,
    },
    /// A file is made, or gets another content.
    #[non_exhaustive]
    Write {
        /// The file.
        file: SegmentFileName,
        /// Bytes of the content.
        bytes: u64,
    },
    /// A segment becomes several, which each span fewer offsets. Its old files get `.deleted`.
    #[non_exhaustive]
    Split {
        /// The base offset of the segment.
        base: Offset,
        /// The base offsets of what it becomes.
        into: Vec<Offset>,
    },
    /// The leader epochs are emptied, durably.
    ClearEpochs,
    /// The changes of names so far are made durable.
    SyncNames,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remove(file) => write!(f, "remove {file}"),
            Self::Restore(file) => write!(f, "take the .swap off {file}"),
            Self::MarkDeleted(file) => write!(f, "rename {file} to {file}.deleted"),
            Self::Cut { file, from_bytes, to_bytes } => {
                write!(f, "cut {file} from {from_bytes} to {to_bytes} bytes")
            }
            Self::Write { file, bytes } => write!(f, "write {file} ({bytes} bytes)"),
            Self::Split { base, into } => {
                write!(f, "split segment {base} into {} segments", into.len())
            }
            Self::ClearEpochs => f.write_str("empty the leader epochs"),
            Self::SyncNames => f.write_str("sync the directory"),
        }
    }
}

/// Why a load changes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A crash left it in the middle of a deletion, cleaning or split.
    LeftOver,
    /// It is complete and takes the place of older files.
    Swap,
    /// An index without its log file.
    Orphan,
    /// An index of the segment is missing.
    IndexMissing,
    /// An index does not fit the log, is padded, or is cut inside an entry.
    IndexDamaged,
    /// The transaction index cannot be read.
    TransactionIndexDamaged,
    /// The segment was not synced before the stop, so it is read again and its indexes with it.
    Unflushed,
    /// Bytes of the log file are no batch, or a batch is damaged or cut off.
    Damage(Corruption),
    /// A batch ends at or below an offset before it: it is cut, and what follows it. Kafka empties
    /// such a segment where the index has an entry for the batch, else it lets the log end fall.
    #[non_exhaustive]
    OutOfOrder {
        /// The largest offset before it.
        last: Offset,
        /// The last offset of the batch.
        found: Offset,
    },
    /// An earlier segment was cut at this offset: what follows would leave a hole.
    AfterCut(Offset),
    /// An offset does not fit into the segment.
    OffsetOverflow(Offset),
    /// The log start offset is beyond the end of the log.
    LogStartBeyondEnd,
    /// A log has at least one segment.
    NoSegment,
    /// A producer snapshot that belongs to no part of the log, or is damaged.
    Snapshot(&'static str),
    /// The producer state at this point of the log.
    ProducerState,
    /// Names changed that later changes build on.
    Order,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftOver => f.write_str("left over from an interrupted operation"),
            Self::Swap => f.write_str("an interrupted replacement of segments is finished"),
            Self::Orphan => f.write_str("there is no log file that it belongs to"),
            Self::IndexMissing => f.write_str("an index is missing"),
            Self::IndexDamaged => f.write_str("an index does not fit the log"),
            Self::TransactionIndexDamaged => f.write_str("the transaction index is damaged"),
            Self::Unflushed => f.write_str("the segment was not synced before the stop"),
            Self::Damage(damage) => write!(f, "damage at {damage}"),
            Self::OutOfOrder { last, found } => {
                write!(f, "a batch that ends at offset {found} follows offset {last}")
            }
            Self::AfterCut(offset) => write!(f, "the log was cut at offset {offset} before it"),
            Self::OffsetOverflow(offset) => {
                write!(f, "offset {offset} does not fit into the segment")
            }
            Self::LogStartBeyondEnd => f.write_str("the log starts beyond its end"),
            Self::NoSegment => f.write_str("the log has no segment"),
            Self::Snapshot(why) => f.write_str(why),
            Self::ProducerState => f.write_str("the state of producers there"),
            Self::Order => f.write_str("later changes build on it"),
        }
    }
}

/// A change with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// What.
    pub change: Change,
    /// Why.
    pub reason: Reason,
}

impl Step {
    pub(super) const fn new(change: Change, reason: Reason) -> Self {
        Self { change, reason }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.change, self.reason)
    }
}
