//! One batch as a scan found it: what indexes, epochs and producer state need to know.

use alluvium_record_format::{
    BatchHeader, CorruptKind, Corruption, LeaderEpoch, Offset, Position, Timestamp,
};
use alluvium_sparse_index::BatchInfo;

use crate::{BatchContent, ProducerBatch};

/// One whole entry of a log file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FoundBatch {
    /// Its first byte in the segment.
    pub position: Position,
    /// Its size in bytes, header included.
    pub size_bytes: u32,
    /// What it is.
    pub entry: FoundEntry,
}

/// What kind of entry was found.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FoundEntry {
    /// A batch of magic 2.
    #[non_exhaustive]
    Batch {
        /// Its header.
        header: BatchHeader,
        /// For a batch of a producer, what it holds; the damage of a control record that could
        /// not be read.
        content: Result<BatchContent, Corruption>,
    },
    /// A message of magic 0 or 1, or a wrapper of them.
    #[non_exhaustive]
    Legacy {
        /// Its offset, or that of the last message in it.
        offset: Offset,
        /// Its timestamp, or the largest in it.
        timestamp: Option<Timestamp>,
    },
}

impl FoundBatch {
    /// The byte after it.
    #[must_use]
    pub const fn end(&self) -> Position {
        Position::new(self.position.get().saturating_add(self.size_bytes))
    }

    /// The offset of its first record, of a legacy wrapper of its last.
    #[must_use]
    pub fn base_offset(&self) -> Offset {
        match &self.entry {
            FoundEntry::Batch { header, .. } => header.base_offset(),
            FoundEntry::Legacy { offset, .. } => *offset,
        }
    }

    /// The offset of its last record.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        match &self.entry {
            FoundEntry::Batch { header, .. } => header.last_offset(),
            FoundEntry::Legacy { offset, .. } => *offset,
        }
    }

    /// The offset after its last record; the last offset where there is none.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset::new(self.last_offset().get().saturating_add(1))
    }

    /// The damage of a batch that cannot be in the segment with this base offset: its offsets lie
    /// below, or leave none for the next record.
    pub(crate) fn misplaced(&self, segment_base: Offset) -> Option<Corruption> {
        let last = self.last_offset();
        let is_misplaced = last < segment_base || last == Offset::MAX;
        is_misplaced.then(|| CorruptKind::out_of_range(last.get()).at(self.position))
    }

    /// The damage of a batch whose last offset some batch before it has reached already: an append
    /// behind it would give out offsets twice.
    pub(crate) fn falls_back(&self, next_offset: Offset) -> Option<Corruption> {
        let last = self.last_offset();
        (last < next_offset).then(|| CorruptKind::out_of_range(last.get()).at(self.position))
    }

    /// The leader epoch under which it was written, if it says.
    #[must_use]
    pub fn leader_epoch(&self) -> Option<LeaderEpoch> {
        match &self.entry {
            FoundEntry::Batch { header, .. } => header.leader_epoch(),
            FoundEntry::Legacy { .. } => None,
        }
    }

    /// What the index rule needs to know.
    #[must_use]
    pub fn index_info(&self) -> BatchInfo {
        let timestamp = match &self.entry {
            FoundEntry::Batch { header, .. } => header.max_timestamp(),
            FoundEntry::Legacy { timestamp, .. } => *timestamp,
        };
        BatchInfo::new(self.last_offset(), self.position, self.size_bytes, timestamp)
    }

    /// What producer state needs to know; `None` for a batch without a producer.
    ///
    /// # Errors
    ///
    /// A control batch of a producer that ends no transaction.
    pub fn producer(&self) -> Result<Option<ProducerBatch>, Corruption> {
        match &self.entry {
            FoundEntry::Batch { header, content } if header.producer_id().is_some() => {
                Ok(ProducerBatch::from_header(header, (*content)?))
            }
            _ => Ok(None),
        }
    }
}
