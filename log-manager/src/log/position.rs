//! Where an offset lies.

use alluvium_record_format::{Offset, Position};

/// An offset, and where it lies if that is known.
///
/// Source: `LogOffsetMetadata` in Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogPosition {
    /// The offset: where the place is known, the base offset of the batch there.
    pub offset: Offset,
    /// The segment and the byte in it.
    pub place: Option<Place>,
}

/// A byte of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The base offset of the segment.
    pub segment_base: Offset,
    /// The byte in the segment's log file.
    pub position: Position,
}

impl LogPosition {
    /// An offset somewhere.
    pub(crate) const fn somewhere(offset: Offset) -> Self {
        Self { offset, place: None }
    }

    /// An offset at a byte.
    pub(crate) const fn at(offset: Offset, segment_base: Offset, position: Position) -> Self {
        Self { offset, place: Some(Place { segment_base, position }) }
    }
}
