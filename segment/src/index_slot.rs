//! An index of a segment: opened on first use, by exactly one thread, and closed when others
//! need the room.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::{Mutex, MutexGuard};

use crate::pool::{Closing, FilePool, Pooled};

/// An index that may be closed now and opened again on the next use. At no time are there two
/// objects over one file.
#[derive(Debug)]
pub(crate) struct IndexSlot<T> {
    value: ArcSwapOption<T>,
    /// Held while the index is opened, closed or renamed. Knows a closed object that somebody
    /// still reads.
    gate: Mutex<Weak<T>>,
    used: AtomicBool,
    counted: AtomicBool,
    /// Not to be closed by the pool: the segment is active.
    pinned: AtomicBool,
    /// Changed since the last flush, or not known.
    unsynced: AtomicBool,
}

impl<T> Default for IndexSlot<T> {
    fn default() -> Self {
        Self {
            value: ArcSwapOption::empty(),
            gate: Mutex::new(Weak::new()),
            used: AtomicBool::new(false),
            counted: AtomicBool::new(false),
            pinned: AtomicBool::new(false),
            unsynced: AtomicBool::new(false),
        }
    }
}

impl<T: Send + Sync + 'static> IndexSlot<T> {
    /// The index, opened by `open` unless it is.
    pub(crate) fn get<E>(
        self: &Arc<Self>,
        pool: &FilePool,
        open: impl FnOnce() -> Result<T, E>,
    ) -> Result<Guard<Option<Arc<T>>>, E> {
        let opened = self.value.load();
        if opened.is_some() {
            self.touch();
            return Ok(opened);
        }
        let mut gate = self.gate.lock();
        if self.value.load().is_none() {
            let value = match gate.upgrade() {
                Some(value) => value,
                None => Arc::new(open()?),
            };
            *gate = Arc::downgrade(&value);
            self.value.store(Some(value));
        }
        self.touch();
        let opened = self.value.load();
        drop(gate);
        pool.admit_index(&(Arc::clone(self) as Arc<dyn Pooled>));
        Ok(opened)
    }

    /// The index, if it is open.
    pub(crate) fn opened(&self) -> Option<Arc<T>> {
        self.value.load_full()
    }

    /// Keeps the index from being opened and closed by others.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Weak<T>> {
        self.gate.lock()
    }

    /// Lets go of the index if `stale` says so. Look-ups that are in it end with what they have.
    pub(crate) fn drop_if(&self, stale: impl Fn(&T) -> bool) {
        let mut gate = self.gate.lock();
        if gate.upgrade().is_some_and(|value| stale(&value)) {
            self.value.store(None);
            *gate = Weak::new();
        }
    }

    /// Puts in an object that was opened while the slot was held.
    pub(crate) fn put_held(&self, gate: &mut Weak<T>, value: T) {
        let value = Arc::new(value);
        *gate = Arc::downgrade(&value);
        self.value.store(Some(value));
        self.touch();
    }

    /// Keeps the pool from closing it.
    pub(crate) fn pin(&self) {
        self.pinned.store(true, Ordering::Release);
    }

    /// Lets the pool close it again.
    pub(crate) fn unpin(self: &Arc<Self>, pool: &FilePool) {
        self.pinned.store(false, Ordering::Release);
        if self.is_open() {
            pool.admit_index(&(Arc::clone(self) as Arc<dyn Pooled>));
        }
    }

    pub(crate) fn mark_unsynced(&self) {
        if !self.unsynced.load(Ordering::Relaxed) {
            self.unsynced.store(true, Ordering::Release);
        }
    }

    /// Whether it was changed since the last call; it counts as synced from now on.
    pub(crate) fn take_unsynced(&self) -> bool {
        self.unsynced.swap(false, Ordering::AcqRel)
    }

    fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }
}

impl<T: Send + Sync> Pooled for IndexSlot<T> {
    fn used(&self) -> &AtomicBool {
        &self.used
    }

    fn counted(&self) -> &AtomicBool {
        &self.counted
    }

    fn is_open(&self) -> bool {
        self.value.load().is_some()
    }

    fn close_if_synced(&self) -> Closing {
        let Some(_gate) = self.gate.try_lock() else { return Closing::Busy };
        if self.pinned.load(Ordering::Acquire) {
            // Leaves the ring and stays open; comes back when the segment is sealed.
            return Closing::Done;
        }
        // Its pages are in the page cache: a later flush of the file writes them.
        self.value.store(None);
        Closing::Done
    }

    fn sync_and_close(&self, _io: &crate::Io) {}
}
