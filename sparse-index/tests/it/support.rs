//! What several modules need.

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_sparse_index::{
    BatchInfo, IndexError, MapPermit, OffsetEntry, OffsetIndexFile, Refusal, TimeEntry,
    TimeIndexFile,
};
use tempfile::TempDir;

/// A directory of the test's own, and the permit to map its files.
pub(crate) struct Dir {
    dir: TempDir,
    pub(crate) permit: MapPermit,
}

impl Dir {
    pub(crate) fn new() -> Self {
        Self::over(tempfile::tempdir().unwrap())
    }

    pub(crate) fn over(dir: TempDir) -> Self {
        // SAFETY: nobody else knows the directory. Tests that change a file under an open index
        // do not touch the index afterwards, or run in a process of their own.
        let permit = unsafe { MapPermit::new(Arc::new(())) };
        Self { dir, permit }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn offset_index(&self, base: i64, max_bytes: u32) -> OffsetIndexFile {
        let path = self.path(&format!("{base:020}.index"));
        OffsetIndexFile::create(&path, Offset::new(base), max_bytes, &self.permit).unwrap()
    }

    pub(crate) fn time_index(&self, base: i64, max_bytes: u32) -> TimeIndexFile {
        let path = self.path(&format!("{base:020}.timeindex"));
        TimeIndexFile::create(&path, Offset::new(base), max_bytes, &self.permit).unwrap()
    }
}

pub(crate) fn at(offset: i64, position: u32) -> OffsetEntry {
    OffsetEntry::new(Offset::new(offset), Position::new(position))
}

pub(crate) fn time(timestamp: i64, offset: i64) -> TimeEntry {
    TimeEntry::new(Timestamp::new(timestamp), Offset::new(offset))
}

/// The bytes of a hexadecimal text; spaces and bars are for the reader.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// A batch; timestamp -1 is none.
pub(crate) fn batch(last_offset: i64, position: u32, size_bytes: u32, timestamp: i64) -> BatchInfo {
    let timestamp = (timestamp != -1).then_some(Timestamp::new(timestamp));
    BatchInfo::new(Offset::new(last_offset), Position::new(position), size_bytes, timestamp)
}

/// The rule that was broken.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, IndexError>) -> Refusal {
    result.unwrap_err().refusal().expect("a refusal")
}
