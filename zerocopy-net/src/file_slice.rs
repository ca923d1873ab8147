//! A range of a file that is to be sent.

use std::fs::File;
use std::sync::Arc;

use alluvium_segment::SegmentSlice;

/// Bytes of a file, not yet read. Holds the file open: what it points at stays readable when the
/// name is renamed or removed.
///
/// Made from a [`SegmentSlice`], or of any regular file.
#[derive(Clone, Debug)]
pub struct FileSlice {
    file: Arc<File>,
    position: u64,
    len: u64,
}

impl FileSlice {
    /// The bytes `position..position + len` of `file`.
    #[must_use]
    pub const fn new(file: Arc<File>, position: u64, len: u64) -> Self {
        Self { file, position, len }
    }

    /// The file.
    #[must_use]
    pub const fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The first byte that is still to be sent.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// How many bytes are still to be sent.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Notes that its first `count` bytes are taken care of.
    pub(crate) const fn advance(&mut self, count: u64) {
        debug_assert!(count <= self.len, "more was sent than the slice has");
        self.position = self.position.saturating_add(count);
        self.len = self.len.saturating_sub(count);
    }
}

impl From<&SegmentSlice> for FileSlice {
    fn from(slice: &SegmentSlice) -> Self {
        let position = u64::from(slice.position().get());
        Self::new(Arc::clone(slice.file()), position, u64::from(slice.len()))
    }
}

impl From<SegmentSlice> for FileSlice {
    fn from(slice: SegmentSlice) -> Self {
        Self::from(&slice)
    }
}
