//! Open files, bounded: a segment's log is opened on first use and closed when others need the
//! descriptor.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::descriptors;
use crate::error::{IoOp, SegmentError};
use crate::io::Io;
use crate::shared_file::{FileShare, SharedFile};

/// A bound on the log files and one on the indexes that are open at a time, shared by all segments
/// of a process, and the [`Io`] through which they are used.
///
/// Beyond the bound, a file that was not used for a round is closed; one with unsynced bytes is
/// synced before. Files that a [`SegmentSlice`](crate::SegmentSlice) holds are outside the bound.
#[derive(Debug)]
pub struct FilePool {
    io: Io,
    files: Clock,
    indexes: Clock,
}

impl FilePool {
    /// A pool of at most `max_open_files` open log files, at least one. The kernel is asked for
    /// room in its table of open files, so that no append has to wait for that.
    #[must_use]
    pub fn new(max_open_files: usize) -> Arc<Self> {
        Self::with_io(max_open_files, Io::new())
    }

    /// As [`FilePool::new`], through a given [`Io`].
    #[must_use]
    pub fn with_io(max_open_files: usize, io: Io) -> Arc<Self> {
        Self::with_bounds(max_open_files, max_maps() / 4, io)
    }

    /// As [`FilePool::with_io`], also with a bound on the indexes that are open, at least one. The
    /// others take a quarter of the maps that the system lets a process have
    /// (`vm.max_map_count`); who maps much beside the logs may want less.
    #[must_use]
    pub fn with_bounds(max_open_files: usize, max_open_indexes: usize, io: Io) -> Arc<Self> {
        descriptors::make_room(max_open_files);
        let (files, indexes) = (Clock::new(max_open_files), Clock::new(max_open_indexes));
        Arc::new(Self { io, files, indexes })
    }

    /// A pool that takes half of the descriptors which this process may have.
    #[must_use]
    pub fn for_this_process() -> Arc<Self> {
        Self::new(descriptors::limit() / 2)
    }

    /// The way to the files.
    #[must_use]
    pub const fn io(&self) -> &Io {
        &self.io
    }

    /// The bound on open log files.
    #[must_use]
    pub const fn max_open_files(&self) -> usize {
        self.files.max
    }

    /// How many log files the pool keeps open now.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.files.open()
    }

    /// The bound on open indexes.
    #[must_use]
    pub const fn max_open_indexes(&self) -> usize {
        self.indexes.max
    }

    /// How many indexes the pool keeps open now. Those of active segments are outside the bound.
    #[must_use]
    pub fn open_indexes(&self) -> usize {
        self.indexes.open()
    }

    fn admit(&self, file: &Arc<PooledFile>) {
        let file: Arc<dyn Pooled> = Arc::<PooledFile>::clone(file);
        self.files.admit(&file, &self.io);
    }

    pub(crate) fn admit_index(&self, index: &Arc<dyn Pooled>) {
        self.indexes.admit(index, &self.io);
    }
}

/// What a pool can close.
pub(crate) trait Pooled: Send + Sync {
    /// Used since the pool last looked.
    fn used(&self) -> &AtomicBool;
    /// Whether the pool's clock has it.
    fn counted(&self) -> &AtomicBool;
    fn is_open(&self) -> bool;
    fn close_if_synced(&self) -> Closing;
    fn sync_and_close(&self, io: &Io);
}

/// What an attempt to close came to.
pub(crate) enum Closing {
    Done,
    Unsynced,
    Busy,
}

/// The open things of one kind, in a ring. The hand closes what it finds unused.
struct Clock {
    max: usize,
    ring: Mutex<VecDeque<Weak<dyn Pooled>>>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("max", &self.max).finish_non_exhaustive()
    }
}

impl Clock {
    fn new(max: usize) -> Self {
        Self { max: max.max(1), ring: Mutex::default() }
    }

    fn open(&self) -> usize {
        self.ring.lock().iter().filter_map(Weak::upgrade).filter(|item| item.is_open()).count()
    }

    /// Counts what was just opened, and closes others if there are too many.
    fn admit(&self, item: &Arc<dyn Pooled>, io: &Io) {
        let unsynced = {
            let mut ring = self.ring.lock();
            if !item.counted().swap(true, Ordering::Relaxed) {
                ring.push_back(Arc::downgrade(item));
            }
            self.close_some(&mut ring)
        };
        for item in unsynced {
            item.sync_and_close(io);
        }
    }

    /// Closes what is unused and holds no unsynced bytes until the bound is kept. Returns as
    /// many with unsynced bytes as are still too many.
    fn close_some(&self, ring: &mut VecDeque<Weak<dyn Pooled>>) -> Vec<Arc<dyn Pooled>> {
        let mut unsynced: Vec<Arc<dyn Pooled>> = Vec::new();
        // One round of grace after the last use, so two rounds see each one unused.
        for _ in 0..ring.len().saturating_mul(2) {
            if ring.len() <= self.max {
                return Vec::new();
            }
            let Some(weak) = ring.pop_front() else { break };
            let Some(item) = weak.upgrade() else { continue };
            let unused = !item.used().swap(false, Ordering::Relaxed);
            match if unused { item.close_if_synced() } else { Closing::Busy } {
                Closing::Done => item.counted().store(false, Ordering::Relaxed),
                Closing::Unsynced => {
                    unsynced.push(item);
                    ring.push_back(weak);
                }
                Closing::Busy => ring.push_back(weak),
            }
        }
        unsynced.truncate(ring.len().saturating_sub(self.max));
        unsynced
    }
}

/// A file that may be closed now and opened again on the next use.
#[derive(Debug, Default)]
pub(crate) struct PooledFile {
    /// For readers, who do not wait. Only `put` and `close` change this and `gate`, together.
    file: ArcSwapOption<SharedFile>,
    /// The same file. Held while it is opened, closed, renamed or written to.
    gate: Mutex<Option<Arc<File>>>,
    /// Used since the pool last looked.
    used: AtomicBool,
    /// Whether the pool's clock has it.
    counted: AtomicBool,
    sync: AtomicU8,
    in_doubt: AtomicBool,
    /// The pool is syncing it, and has not said yet whether that failed.
    pool_syncs: AtomicBool,
}

/// An open file that is not closed, renamed or written to by others.
pub(crate) type HeldFile<'a> = MappedMutexGuard<'a, Arc<File>>;

/// Whether the bytes are durable.
mod sync_state {
    /// As found: perhaps.
    pub(super) const UNKNOWN: u8 = 0;
    /// Yes: synced since the last write.
    pub(super) const SYNCED: u8 = 1;
    /// No: written since the last sync.
    pub(super) const UNSYNCED: u8 = 2;
}

impl PooledFile {
    /// The open file. `open` is called if it is closed, while nobody renames it.
    pub(crate) fn get(
        self: &Arc<Self>,
        pool: &FilePool,
        open: impl FnOnce() -> Result<File, SegmentError>,
    ) -> Result<Arc<File>, SegmentError> {
        if let Some(file) = self.get_open(|shared| Arc::clone(shared.file())) {
            return Ok(file);
        }
        let mut gate = self.gate.lock();
        if let Some(file) = &*gate {
            self.touch();
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(open()?);
        self.put(&mut gate, Arc::clone(&file));
        drop(gate);
        pool.admit(self);
        Ok(file)
    }

    /// The same, for readers beside each other.
    pub(crate) fn get_share(
        self: &Arc<Self>,
        pool: &FilePool,
        open: impl FnOnce() -> Result<File, SegmentError>,
    ) -> Result<FileShare, SegmentError> {
        if let Some(share) = self.get_open(SharedFile::share) {
            return Ok(share);
        }
        self.get(pool, open).map(FileShare::of)
    }

    /// The open file, kept from being closed and renamed as long as the guard lives.
    pub(crate) fn get_held(
        self: &Arc<Self>,
        pool: &FilePool,
        open: impl FnOnce() -> Result<File, SegmentError>,
    ) -> Result<HeldFile<'_>, SegmentError> {
        let mut gate = self.gate.lock();
        if gate.is_some() {
            self.touch();
        } else {
            self.put(&mut gate, Arc::new(open()?));
            pool.admit(self);
        }
        Ok(MutexGuard::map(gate, |file| file.as_mut().expect("it was opened above")))
    }

    /// Shows an open file to all.
    fn put(&self, gate: &mut Option<Arc<File>>, file: Arc<File>) {
        *gate = Some(Arc::clone(&file));
        self.file.store(Some(Arc::new(SharedFile::new(file))));
        self.touch();
    }

    /// What `take` makes of the file, if it is open.
    fn get_open<T>(&self, take: impl FnOnce(&SharedFile) -> T) -> Option<T> {
        let file = self.file.load();
        let file = file.as_deref()?;
        self.touch();
        Some(take(file))
    }

    /// Takes over a file that was opened elsewhere, as one that was just made.
    pub(crate) fn adopt(self: &Arc<Self>, pool: &FilePool, file: File) {
        self.put(&mut self.gate.lock(), Arc::new(file));
        pool.admit(self);
    }

    /// Keeps the file from being opened, closed or renamed by others.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Option<Arc<File>>> {
        self.gate.lock()
    }

    /// Lets go of the file, which is held, without a sync: it closes when the last reader is done.
    pub(crate) fn close(&self, held: &mut Option<Arc<File>>) {
        *held = None;
        self.file.store(None);
    }

    /// To be called after every write, while held.
    pub(crate) fn mark_unsynced(&self) {
        self.sync.store(sync_state::UNSYNCED, Ordering::Release);
    }

    /// Nothing that this process does can make the bytes trusted again.
    pub(crate) fn mark_in_doubt(&self) {
        self.in_doubt.store(true, Ordering::Release);
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Acquire)
    }

    /// Makes all bytes durable that were written before the call. A failure leaves the file in
    /// doubt: the kernel may drop the bytes and report the next sync as a success.
    pub(crate) fn sync(
        self: &Arc<Self>,
        pool: &FilePool,
        path: &dyn Fn() -> PathBuf,
        open: impl FnOnce() -> Result<File, SegmentError>,
    ) -> Result<(), SegmentError> {
        if self.is_in_doubt() {
            return Err(SegmentError::InDoubt { path: path() });
        }
        if self.sync.load(Ordering::Acquire) == sync_state::SYNCED {
            return Ok(());
        }
        let file = self.get(pool, open)?;
        // A write that comes later sets the state again, so it is never taken for durable.
        self.sync.store(sync_state::SYNCED, Ordering::Release);
        pool.io.sync(&file, path).map_err(|source| {
            self.sync.store(sync_state::UNSYNCED, Ordering::Release);
            self.mark_in_doubt();
            SegmentError::io(IoOp::Sync, path(), 0, source)
        })?;
        self.wait_for_pool();
        if self.is_in_doubt() {
            return Err(SegmentError::InDoubt { path: path() });
        }
        Ok(())
    }

    /// Waits until the pool has said what its sync came to, if one is under way. The kernel tells
    /// of a failure once, and the pool may be the one that it told.
    fn wait_for_pool(&self) {
        // The gate alone would do, and would have a sync meet every writer.
        if self.pool_syncs.load(Ordering::SeqCst) {
            drop(self.gate.lock());
        }
    }

    fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }
}

impl Pooled for PooledFile {
    fn used(&self) -> &AtomicBool {
        &self.used
    }

    fn counted(&self) -> &AtomicBool {
        &self.counted
    }

    fn is_open(&self) -> bool {
        self.file.load().is_some()
    }

    fn close_if_synced(&self) -> Closing {
        let Some(mut gate) = self.gate.try_lock() else { return Closing::Busy };
        if self.sync.load(Ordering::Acquire) == sync_state::UNSYNCED && gate.is_some() {
            return Closing::Unsynced;
        }
        self.close(&mut gate);
        Closing::Done
    }

    fn sync_and_close(&self, io: &Io) {
        let Some(mut gate) = self.gate.try_lock() else { return };
        let Some(file) = &*gate else { return };
        if self.sync.load(Ordering::Acquire) == sync_state::UNSYNCED {
            self.pool_syncs.store(true, Ordering::SeqCst);
            let synced = io.sync(file, &PathBuf::new);
            if synced.is_err() {
                // Kept open, so that the error stays with this descriptor; its owner learns of
                // it from the next append or flush.
                self.mark_in_doubt();
            }
            // Last, so that who finds it over finds the doubt too.
            self.pool_syncs.store(false, Ordering::SeqCst);
            if synced.is_err() {
                return;
            }
            self.sync.store(sync_state::SYNCED, Ordering::Release);
        }
        self.close(&mut gate);
    }
}

/// The maps that the system lets this process have.
fn max_maps() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(DEFAULT_MAPS)
}

/// Linux's default.
const DEFAULT_MAPS: usize = 65_530;

const _: () = assert!(sync_state::UNKNOWN == 0, "the default of an `AtomicU8`");

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    struct Fixture {
        dir: tempfile::TempDir,
        pool: Arc<FilePool>,
    }

    impl Fixture {
        fn new(max: usize) -> Self {
            Self { dir: tempfile::tempdir().unwrap(), pool: FilePool::new(max) }
        }

        fn get(&self, file: &Arc<PooledFile>, name: usize) -> Arc<File> {
            let path = self.dir.path().join(name.to_string());
            let open = || Ok(self.pool.io().open_or_create(&path).unwrap());
            file.get(&self.pool, open).unwrap()
        }
    }

    #[test]
    fn no_more_files_are_open_than_the_bound_allows() {
        let fixture = Fixture::new(3);
        let files: Vec<_> = (0..20).map(|_| Arc::new(PooledFile::default())).collect();
        for round in 0..3 {
            for (name, file) in files.iter().enumerate() {
                fixture.get(file, name);
                assert!(fixture.pool.open_files() <= 3, "round {round}, file {name}");
            }
        }
    }

    #[test]
    fn a_pool_for_this_process_leaves_half_of_the_descriptors_to_others() {
        let taken = FilePool::for_this_process().max_open_files();
        let left = descriptors::limit() - taken;
        assert!(left == taken || left == taken + 1, "{taken} are taken, {left} are left");
    }

    #[test]
    fn a_file_that_somebody_reads_stays_readable_after_it_was_closed() {
        let fixture = Fixture::new(1);
        let first = Arc::new(PooledFile::default());
        let reader = fixture.get(&first, 0);
        reader.write_at(b"x", 0).unwrap();
        for name in 1..4 {
            fixture.get(&Arc::new(PooledFile::default()), name);
        }
        assert!(!first.is_open());
        let mut byte = [0];
        assert_eq!(reader.read_at(&mut byte, 0).unwrap(), 1);
    }

    #[test]
    fn a_file_with_unsynced_bytes_is_synced_before_it_is_closed() {
        let fixture = Fixture::new(1);
        let written = Arc::new(PooledFile::default());
        fixture.get(&written, 0);
        written.mark_unsynced();
        // Held, so that there is no other to close.
        let other = Arc::new(PooledFile::default());
        let path = fixture.dir.path().join("1");
        let open = || Ok(fixture.pool.io().open_or_create(&path).unwrap());
        let held = other.get_held(&fixture.pool, open).unwrap();
        assert!(!written.is_open());
        assert_eq!(written.sync.load(Ordering::Acquire), sync_state::SYNCED);
        drop(held);
    }

    #[test]
    fn a_file_being_written_to_is_not_closed() {
        let fixture = Fixture::new(1);
        let held = Arc::new(PooledFile::default());
        fixture.get(&held, 0);
        let gate = held.hold();
        for name in 1..4 {
            fixture.get(&Arc::new(PooledFile::default()), name);
        }
        assert!(held.is_open());
        drop(gate);
    }
}
