//! The lock of a log directory: proof that no other process, and nobody else in this one,
//! writes to the partitions in it. `docs/format/segment.md#lock`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use alluvium_sparse_index::MapPermit;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use crate::io::Io;

/// The name of the lock file in a log directory.
pub const LOCK_FILE: &str = ".lock";

/// Proof that this process holds the lock of a log directory. Cheap to clone; the lock falls
/// with the last clone.
///
/// It is the record lock that Kafka takes, so a broker and this crate exclude each other. The
/// operating system ties such a lock to the process and drops it as soon as the process closes
/// **any** descriptor of the file: while the lock is held, nothing in this process may open
/// `.lock`. A second [`DirLock::acquire`] in one process is refused without opening it.
///
/// Source: `FileLock` in Kafka; `docs/format/segment.md#lock`.
#[derive(Clone, Debug)]
pub struct DirLock {
    held: Arc<Held>,
    permit: MapPermit,
}

impl DirLock {
    /// Takes the lock of `dir` and makes the lock file if it is not there. Does not wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] if anybody has it, this process included; [`LockError::Io`].
    pub fn acquire(dir: &Path) -> Result<Self, LockError> {
        Self::acquire_with(dir, &Io::new())
    }

    /// As [`DirLock::acquire`], through a given [`Io`].
    ///
    /// # Errors
    ///
    /// As [`DirLock::acquire`].
    pub fn acquire_with(dir: &Path, io: &Io) -> Result<Self, LockError> {
        let path = dir.join(LOCK_FILE);
        let fail = |source| LockError::Io { path: path.clone(), source };
        let dir = fs::canonicalize(dir).map_err(fail)?;

        // One look-up and one insertion: no other thread may open the file in between.
        let mut taken = TAKEN.lock();
        if let Some(id) = existing_id(&path).map_err(fail)?
            && taken.contains(&id)
        {
            return Err(LockError::Held { path });
        }
        let file = io.open_or_create(&path).map_err(fail)?;
        let id = FileId::of(&file.metadata().map_err(fail)?);
        if taken.contains(&id) {
            // The name was put on a locked file just now. Closing this descriptor would drop
            // that lock, so it stays open until the process ends.
            std::mem::forget(file);
            return Err(LockError::Held { path });
        }
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => return Err(LockError::Held { path }),
            Err(error) => return Err(fail(error.into())),
        }
        taken.insert(id);
        drop(taken);
        let open_dirs = Mutex::default();
        let held = Arc::new(Held { dir, id, file: Some(file), open_dirs });
        let permit = map_permit(&held);
        Ok(Self { held, permit })
    }

    /// The directory, in canonical form.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.held.dir
    }

    /// The right to map index files in the directories that are claimed.
    pub(crate) const fn permit(&self) -> &MapPermit {
        &self.permit
    }

    /// Takes a partition directory for one owner. False if it has one already.
    pub(crate) fn claim(&self, dir: &Path) -> bool {
        self.held.open_dirs.lock().insert(dir.into())
    }

    /// Gives a partition directory back.
    pub(crate) fn unclaim(&self, dir: &Path) {
        self.held.open_dirs.lock().remove(dir);
    }

    /// Whether both stand for the same held lock.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }
}

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process, or another part of this one, has the lock.
    #[error("{} is held by somebody else", path.display())]
    #[non_exhaustive]
    Held {
        /// The lock file.
        path: PathBuf,
    },
    /// The operating system failed.
    #[error("cannot lock {}", path.display())]
    #[non_exhaustive]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

#[derive(Debug)]
struct Held {
    dir: PathBuf,
    id: FileId,
    /// `None` only while dropping.
    file: Option<File>,
    /// Partition directories that are open for writing.
    open_dirs: Mutex<HashSet<PathBuf>>,
}

/// The one place where this crate promises something that the compiler cannot check.
#[expect(unsafe_code, reason = "mapping an index is sound only while its directory is ours")]
fn map_permit(held: &Arc<Held>) -> MapPermit {
    // SAFETY: asked for is that nobody else writes to or shortens the index files that are mapped
    // with the permit. Other processes are kept out by the record lock on the log directory's
    // `.lock`, which a broker takes too and which `held` keeps until the last map is gone. In this
    // process, `open_dirs` gives a partition directory to one `PartitionDir`, which gives a
    // segment to one `Segment`, which opens an index at most once at a time (`IndexSlot`) and
    // changes the file by other means only while it is closed.
    unsafe { MapPermit::new(Arc::clone(held)) }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock();
        // Closing drops the lock; only then may the next one open the file.
        drop(self.file.take());
        taken.remove(&self.id);
    }
}

/// A file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(metadata: &fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

fn existing_id(path: &Path) -> io::Result<Option<FileId>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(FileId::of(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The lock files that this process holds. Record locks do not exclude threads of one process
/// from each other; this does.
static TAKEN: LazyLock<Mutex<HashSet<FileId>>> = LazyLock::new(Mutex::default);
