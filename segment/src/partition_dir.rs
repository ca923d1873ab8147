//! The directory of one partition: where its segments' files are found, now and after a rename.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use alluvium_record_format::Offset;
use alluvium_sparse_index::MapPermit;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::dir_lock::DirLock;
use crate::error::{IoOp, SegmentError};
use crate::io::Io;
use crate::names::{SegmentFileName, Suffix};
use crate::pool::FilePool;
use crate::segment::Segment;

/// The directory of one partition, shared by its segments.
///
/// With the log directory's [`DirLock`] the segments can be written to and their indexes mapped;
/// without it no byte is changed, nothing is mapped and no file is made.
#[derive(Debug)]
pub struct PartitionDir {
    path: RwLock<PathBuf>,
    lock: Option<DirLock>,
    pool: Arc<FilePool>,
    /// The segments that are open, by base offset: usually one, more while one replaces another.
    segments: Mutex<HashMap<Offset, Vec<Weak<Segment>>>>,
    /// Names were made or changed since the directory was last synced.
    names_unsynced: AtomicBool,
    /// Held while the directory is synced, so that who finds nothing to sync need not ask whether
    /// somebody else is still at it.
    syncing: Mutex<()>,
}

impl PartitionDir {
    /// A directory to write to. It must lie in the log directory that `lock` stands for, and can
    /// be open for writing once at a time; what it gives out is shared by `Arc`.
    ///
    /// # Errors
    ///
    /// `Gone` or `Io` if it is not there; `OutsideLock` if it lies elsewhere; `Busy` if it is open.
    pub fn open(
        path: &Path,
        lock: &DirLock,
        pool: &Arc<FilePool>,
    ) -> Result<Arc<Self>, SegmentError> {
        let canonical = canonical(path, lock.dir())
            .map_err(|source| SegmentError::file(IoOp::Open, path, source))?;
        if canonical.parent() != Some(lock.dir()) {
            let lock_dir = lock.dir().to_path_buf();
            return Err(SegmentError::OutsideLock { path: path.into(), lock_dir });
        }
        if !lock.claim(&canonical) {
            return Err(SegmentError::Busy { path: path.into() });
        }
        Ok(Arc::new(Self::new(canonical, Some(lock.clone()), pool)))
    }

    /// A directory to look into. Needs no lock, as tools do that must not disturb a broker.
    #[must_use]
    pub fn read_only(path: &Path, pool: &Arc<FilePool>) -> Arc<Self> {
        Arc::new(Self::new(path.into(), None, pool))
    }

    fn new(path: PathBuf, lock: Option<DirLock>, pool: &Arc<FilePool>) -> Self {
        Self {
            path: RwLock::new(path),
            lock,
            pool: Arc::clone(pool),
            segments: Mutex::default(),
            names_unsynced: AtomicBool::new(false),
            syncing: Mutex::new(()),
        }
    }

    /// Where the directory is now.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.read().clone()
    }

    /// Where a file of the directory is now.
    #[must_use]
    pub fn file_path(&self, name: SegmentFileName) -> PathBuf {
        self.path.read().join(name.to_string())
    }

    /// Whether it was opened without the lock.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.lock.is_none()
    }

    /// The pool that keeps its files open.
    #[must_use]
    pub const fn pool(&self) -> &Arc<FilePool> {
        &self.pool
    }

    /// The way to its files.
    #[must_use]
    pub fn io(&self) -> &Io {
        self.pool.io()
    }

    /// Renames the directory within its log directory, also while its segments are in use.
    /// Durable once the log directory is synced.
    ///
    /// # Errors
    ///
    /// `ReadOnly` without the lock; `InvalidName` if `name` is not a single file name; `Io`.
    pub fn rename(&self, name: &str) -> Result<(), SegmentError> {
        self.lock()?;
        let mut path = self.path.write();
        if Path::new(name).components().count() != 1 || name == ".." || name == "." {
            return Err(SegmentError::InvalidName { name: name.into() });
        }
        let to = path.with_file_name(name);
        self.io()
            .rename(&path, &to)
            .map_err(|source| SegmentError::file(IoOp::Rename, &path, source))?;
        if let Some(lock) = &self.lock {
            lock.unclaim(&path);
            lock.claim(&to);
        }
        *path = to;
        drop(path);
        // Collected first: the last owner of a segment takes the same lock when it lets go.
        let segments: Vec<_> =
            self.segments.lock().values().flatten().filter_map(Weak::upgrade).collect();
        for segment in &segments {
            segment.dir_renamed();
        }
        Ok(())
    }

    /// Makes the names in the directory durable, if one changed since the last call: the second
    /// half of making a new file durable, after its bytes. Waits for a call that is under way: what
    /// was changed before the call is durable when it returns, whoever syncs it.
    ///
    /// # Errors
    ///
    /// `Io`; the names then still count as not durable.
    pub fn sync_names(&self) -> Result<(), SegmentError> {
        let _one_at_a_time = self.syncing.lock();
        if !self.names_unsynced.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let mut path = self.path();
        while let Err(source) = self.io().sync_dir(&path) {
            let now = self.path();
            // Renamed meanwhile: the names are no more durable for it.
            if source.kind() == io::ErrorKind::NotFound && now != path {
                path = now;
                continue;
            }
            self.names_unsynced.store(true, Ordering::Release);
            return Err(SegmentError::io(IoOp::Sync, path, 0, source));
        }
        Ok(())
    }

    /// To be told of a file that somebody else made, renamed or removed in the directory: after the
    /// change, even one that failed. Told before, a sync beside it would take it for durable.
    pub fn names_changed(&self) {
        self.names_unsynced.store(true, Ordering::Release);
    }

    /// The lock, needed for every change.
    pub(crate) fn lock(&self) -> Result<&DirLock, SegmentError> {
        self.lock.as_ref().ok_or_else(|| SegmentError::ReadOnly { path: self.path() })
    }

    /// Keeps the directory from being renamed.
    pub(crate) fn pin(&self) -> RwLockReadGuard<'_, PathBuf> {
        self.path.read()
    }

    /// The right to map the directory's indexes.
    pub(crate) fn permit(&self) -> Option<&MapPermit> {
        self.lock.as_ref().map(DirLock::permit)
    }

    /// The one object for the files with this base and suffix: that which is open, or the one
    /// that `make` makes.
    pub(crate) fn segment(
        &self,
        base: Offset,
        suffix: Suffix,
        make: impl FnOnce() -> Result<Segment, SegmentError>,
    ) -> Result<Arc<Segment>, SegmentError> {
        // Declared before the lock, so let go after it: the last owner of a segment takes it.
        let alive: Vec<Arc<Segment>>;
        let mut segments = self.segments.lock();
        let open = segments.entry(base).or_default();
        alive = open.iter().filter_map(Weak::upgrade).collect();
        if let Some(segment) =
            alive.iter().find(|open| open.suffix() == suffix && !open.is_deleted())
        {
            return Ok(Arc::clone(segment));
        }
        let segment = Arc::new(make()?);
        open.push(Arc::downgrade(&segment));
        Ok(segment)
    }

    /// Forgets a base without open segments.
    pub(crate) fn forget(&self, base: Offset) {
        let mut segments = self.segments.lock();
        if let Some(open) = segments.get_mut(&base) {
            open.retain(|weak| weak.strong_count() > 0);
            if open.is_empty() {
                segments.remove(&base);
            }
        }
    }
}

impl Drop for PartitionDir {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            lock.unclaim(&self.path.read());
        }
    }
}

/// The path without links. That of a plain directory in the canonical `log_dir` is it already.
fn canonical(path: &Path, log_dir: &Path) -> io::Result<PathBuf> {
    let is_plain = path.parent() == Some(log_dir) && path.file_name().is_some();
    if is_plain && fs::symlink_metadata(path)?.is_dir() {
        return Ok(path.into());
    }
    fs::canonicalize(path)
}
