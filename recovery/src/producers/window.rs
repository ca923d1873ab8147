//! The last five batches of a producer, by which a retry is known.

use alluvium_record_format::{Offset, Sequence, Timestamp};

/// One batch as a producer's entry remembers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchMetadata {
    /// The sequence of the last record; -1 for a batch that is not numbered.
    pub last_sequence: Sequence,
    /// The offset of the last record.
    pub last_offset: Offset,
    /// Last minus first offset.
    pub offset_delta: i32,
    /// The largest timestamp of the batch, -1 for none.
    pub timestamp: Timestamp,
}

impl BatchMetadata {
    /// The sequence of the first record, wrapping below 0.
    #[must_use]
    pub const fn first_sequence(&self) -> Sequence {
        self.last_sequence.wrapping_sub(self.offset_delta)
    }

    /// The offset of the first record.
    #[must_use]
    pub fn first_offset(&self) -> Offset {
        Offset::new(self.last_offset.get().saturating_sub(self.offset_delta.into()))
    }
}

/// At most five batches, oldest first; a sixth drops the oldest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchWindow {
    batches: [BatchMetadata; Self::CAPACITY],
    len: usize,
}

impl BatchWindow {
    /// How many batches a producer may have in flight.
    pub const CAPACITY: usize = 5;

    /// Adds the newest batch.
    pub fn push(&mut self, batch: BatchMetadata) {
        if self.len == Self::CAPACITY {
            self.batches.rotate_left(1);
            self.len = self.len.saturating_sub(1);
        }
        if let Some(slot) = self.batches.get_mut(self.len) {
            *slot = batch;
            self.len = self.len.saturating_add(1);
        }
    }

    /// Drops all batches.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// The batches, oldest first.
    #[must_use]
    pub fn as_slice(&self) -> &[BatchMetadata] {
        self.batches.get(..self.len).unwrap_or_default()
    }

    /// The newest batch.
    #[must_use]
    pub fn last(&self) -> Option<&BatchMetadata> {
        self.as_slice().last()
    }

    /// Whether no batch is known.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Extend<BatchMetadata> for BatchWindow {
    fn extend<I: IntoIterator<Item = BatchMetadata>>(&mut self, batches: I) {
        for batch in batches {
            self.push(batch);
        }
    }
}
