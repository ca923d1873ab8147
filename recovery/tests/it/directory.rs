//! A log directory with one partition, locked by this process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_segment::{DirLock, FilePool, Io, PartitionDir};
use tempfile::TempDir;

/// A log directory with one partition. Goes with everything in it.
pub(crate) struct Disk {
    root: TempDir,
    dir: Arc<PartitionDir>,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self::with_io(Io::new())
    }

    /// A directory that is used through `io`.
    pub(crate) fn with_io(io: Io) -> Self {
        let root = temporary();
        let path = root.path().join("topic-0");
        std::fs::create_dir(&path).unwrap();
        let lock = DirLock::acquire(root.path()).unwrap();
        let dir = PartitionDir::open(&path, &lock, &FilePool::with_io(8, io)).unwrap();
        Self { root, dir }
    }

    /// Where the partition is.
    pub(crate) fn path(&self) -> PathBuf {
        self.root.path().join("topic-0")
    }

    /// The partition, to write to.
    pub(crate) const fn dir(&self) -> &Arc<PartitionDir> {
        &self.dir
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path().join(name), bytes).unwrap();
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path().join(name).exists()
    }

    /// All files with their content.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        files(&self.path())
    }

    /// The names of all files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.files().into_keys().collect()
    }
}

/// A directory in memory, where there is one: thousands of syncs cost nothing there.
fn temporary() -> TempDir {
    let in_memory = TempDir::new_in("/dev/shm");
    in_memory.unwrap_or_else(|_| TempDir::new().unwrap())
}

fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap_or_default())
        })
        .collect()
}
