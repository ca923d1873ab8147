//! Which pages of a segment are in memory.

use alluvium_record_format::Position;

use super::Segment;
use crate::error::{IoOp, SegmentError};
use crate::names::FileKind;
use crate::page_cache::{self, Residency};

impl Segment {
    /// Which pages of its log are in memory, up to the present size.
    ///
    /// Reads nothing and changes nothing. Cost: as [`page_cache::residency`].
    ///
    /// # Errors
    ///
    /// `Gone`; `Io`, of kind `PermissionDenied` for who neither owns the file nor may write to
    /// it.
    pub fn residency(&self) -> Result<Residency, SegmentError> {
        let log = self.log_file()?;
        let asked = page_cache::residency(&log, 0..u64::from(self.size_bytes()));
        asked.map_err(|source| self.page_cache_error(FileKind::Log, source))
    }

    /// Which pages of one of its files are in memory, to the end of the file. `None` if the file
    /// does not exist, as most segments have no transaction index.
    ///
    /// Opens the file anew, except for the log.
    ///
    /// # Errors
    ///
    /// As [`Self::residency`].
    ///
    /// # Panics
    ///
    /// For [`FileKind::Snapshot`], which belongs to no segment.
    pub fn file_residency(&self, kind: FileKind) -> Result<Option<Residency>, SegmentError> {
        if kind == FileKind::Log {
            return self.residency().map(Some);
        }
        let path = self.path(kind);
        let file = match self.dir().io().open(&path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(SegmentError::io(IoOp::Open, path, 0, source)),
        };
        let len = file.metadata().map_err(|source| self.page_cache_error(kind, source))?.len();
        let asked = page_cache::residency(&file, 0..len);
        asked.map(Some).map_err(|source| self.page_cache_error(kind, source))
    }

    fn page_cache_error(&self, kind: FileKind, source: std::io::Error) -> SegmentError {
        let (op, path) = (IoOp::PageCache, self.path(kind));
        SegmentError::Io { op, path, position: Position::new(0), source }
    }
}
