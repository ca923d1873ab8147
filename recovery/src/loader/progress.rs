//! How far a load is.

use alluvium_record_format::Offset;

/// How far a load is. Passed to a callback, which may ask to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// So many segments with so many bytes will be scanned.
    #[non_exhaustive]
    Started {
        /// Segments to scan.
        segments: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// A segment is being scanned.
    #[non_exhaustive]
    Scanning {
        /// The base offset of the segment.
        base_offset: Offset,
        /// Bytes of it that are done.
        done_bytes: u64,
        /// Bytes of it in all.
        total_bytes: u64,
    },
    /// A segment has been scanned, and so many remain.
    #[non_exhaustive]
    Scanned {
        /// The base offset of the segment.
        base_offset: Offset,
        /// Segments that remain.
        remaining: usize,
    },
}
