//! A range of a log file, ready to be sent: nothing is copied.

use std::fs::File;
use std::io;
use std::sync::Arc;

use alluvium_record_format::{Offset, Position};

use crate::io::Io;
use crate::shared_file::FileShare;

/// Bytes of a segment's log that a read found, not yet read.
///
/// The slice owns its file: it stays readable while the segment is closed, renamed, replaced or
/// deleted. It may start before the offset that was asked for, at the start of the batch that
/// holds it, and may end inside a batch.
#[derive(Clone, Debug)]
pub struct SegmentSlice {
    pub(crate) file: FileShare,
    pub(crate) position: Position,
    pub(crate) len: u32,
    pub(crate) base_offset: Offset,
    pub(crate) segment_base: Offset,
    pub(crate) first_batch_bytes: u32,
    pub(crate) first_entry_incomplete: bool,
}

impl SegmentSlice {
    /// The file, for `sendfile` and its like.
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The first byte, where a batch starts. Set in an empty slice too.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// How many bytes the slice has.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The base offset of the batch at [`SegmentSlice::position`].
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// The base offset of the segment.
    #[must_use]
    pub const fn segment_base(&self) -> Offset {
        self.segment_base
    }

    /// The size of the batch at [`SegmentSlice::position`], of which the slice may hold a part.
    #[must_use]
    pub const fn first_batch_bytes(&self) -> u32 {
        self.first_batch_bytes
    }

    /// Whether the limit on bytes cut the first batch.
    #[must_use]
    pub const fn first_entry_incomplete(&self) -> bool {
        self.first_entry_incomplete
    }

    /// Reads the bytes and adds them to `out`.
    ///
    /// # Errors
    ///
    /// As the system call; `UnexpectedEof` if the file was cut meanwhile. `out` is then as before.
    pub fn read_to(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let before = out.len();
        let len = usize::try_from(self.len).unwrap_or(usize::MAX);
        out.resize(before.saturating_add(len), 0);
        let path = &std::path::PathBuf::new;
        let position = u64::from(self.position.get());
        let read = Io::new().read_full(&self.file, path, &mut out[before..], position);
        match read {
            Ok(count) if count == len => Ok(()),
            failed => {
                out.truncate(before);
                Err(failed.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
            }
        }
    }
}
