//! The indexes as a caller may look at them.

use std::fmt;
use std::sync::Arc;

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_sparse_index::{OffsetEntry, TimeEntry};
use arc_swap::Guard;

use super::{OffsetHints, Segment, TimeHints};
use crate::error::SegmentError;

/// The offset index of a segment, for reading: what [`Segment::read`] looks into. Entries are
/// hints; nothing here compares them with the log.
#[derive(Clone)]
pub struct OffsetIndexView {
    hints: Arc<OffsetHints>,
}

/// The time index of a segment, for reading.
#[derive(Clone)]
pub struct TimeIndexView {
    hints: Arc<TimeHints>,
}

impl OffsetIndexView {
    /// The entry at or below `target`, and the one above it.
    #[must_use]
    pub fn lookup_pair(&self, target: Offset) -> (Option<OffsetEntry>, Option<OffsetEntry>) {
        let near = self.hints.lookup_near(target);
        (near.floor, near.next)
    }

    /// The offset of the first entry that begins `size_bytes` or more after `position`.
    #[must_use]
    pub fn upper_bound_offset(&self, position: Position, size_bytes: u32) -> Option<Offset> {
        self.hints.upper_bound_offset(position, size_bytes)
    }

    /// The entry in slot `index`, from 0.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<OffsetEntry> {
        self.hints.entry(index)
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hints.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hints.len() == 0
    }
}

impl TimeIndexView {
    /// The entry with the largest timestamp that is not above `target`.
    #[must_use]
    pub fn lookup(&self, target: Timestamp) -> Option<TimeEntry> {
        self.hints.lookup(target)
    }

    /// The entry in slot `index`, from 0.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<TimeEntry> {
        self.hints.entry(index)
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hints.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hints.len() == 0
    }
}

impl fmt::Debug for OffsetIndexView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffsetIndexView").field("len", &self.len()).finish()
    }
}

impl fmt::Debug for TimeIndexView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeIndexView").field("len", &self.len()).finish()
    }
}

impl Segment {
    /// The offset index; it is opened if it is not. A view of the index of a small sealed segment
    /// does not see what changes later.
    ///
    /// # Errors
    ///
    /// `Index`, `Gone`, `Io`.
    pub fn offset_index(&self) -> Result<OffsetIndexView, SegmentError> {
        let gone = || SegmentError::Gone { path: self.path(crate::FileKind::OffsetIndex) };
        let hints = Guard::into_inner(self.offset_hints()?).ok_or_else(gone)?;
        Ok(OffsetIndexView { hints })
    }

    /// The time index, as [`Segment::offset_index`].
    ///
    /// # Errors
    ///
    /// `Index`, `Gone`, `Io`.
    pub fn time_index(&self) -> Result<TimeIndexView, SegmentError> {
        let gone = || SegmentError::Gone { path: self.path(crate::FileKind::TimeIndex) };
        let hints = Guard::into_inner(self.time_hints()?).ok_or_else(gone)?;
        Ok(TimeIndexView { hints })
    }
}
