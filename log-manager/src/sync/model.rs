//! What `parking_lot` and `arc_swap` offer, over the model checker's primitives.
//!
//! A published pointer is `arc_swap`'s own: it never waits, so it is one step, before which another
//! thread may come.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::{AsRaw, Guard};
use shuttle::sync;
use shuttle::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

#[derive(Debug)]
pub(crate) struct Waited;

#[derive(Debug)]
pub(crate) struct ArcSwap<T>(arc_swap::ArcSwap<T>, Step);

#[derive(Debug)]
pub(crate) struct ArcSwapOption<T>(arc_swap::ArcSwapOption<T>, Step);

/// Where another thread may come.
#[derive(Debug, Default)]
struct Step(AtomicBool);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap()))
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().unwrap()
    }
}

impl Condvar {
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().unwrap();
        guard.0 = Some(self.0.wait(held).unwrap());
    }

    /// There is no time in the model: nothing is ever late.
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _until: Instant) -> Waited {
        self.wait(guard);
        Waited
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl Waited {
    pub(crate) const fn timed_out(&self) -> bool {
        false
    }
}

impl<T> ArcSwap<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        Self(arc_swap::ArcSwap::new(value), Step::default())
    }

    pub(crate) fn from_pointee(value: T) -> Self {
        Self(arc_swap::ArcSwap::from_pointee(value), Step::default())
    }

    pub(crate) fn load(&self) -> Guard<Arc<T>> {
        self.1.take();
        self.0.load()
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        self.1.take();
        self.0.load_full()
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        self.1.take();
        self.0.store(value);
    }

    pub(crate) fn compare_and_swap(&self, current: impl AsRaw<T>, new: Arc<T>) -> Guard<Arc<T>> {
        self.1.take();
        self.0.compare_and_swap(current, new)
    }
}

impl<T> ArcSwapOption<T> {
    pub(crate) fn empty() -> Self {
        Self(arc_swap::ArcSwapOption::empty(), Step::default())
    }

    pub(crate) fn load(&self) -> Guard<Option<Arc<T>>> {
        self.1.take();
        self.0.load()
    }

    pub(crate) fn store(&self, value: Option<Arc<T>>) {
        self.1.take();
        self.0.store(value);
    }

    pub(crate) fn compare_and_swap(
        &self,
        current: impl AsRaw<T>,
        new: Option<Arc<T>>,
    ) -> Guard<Option<Arc<T>>> {
        self.1.take();
        self.0.compare_and_swap(current, new)
    }
}

impl Step {
    fn take(&self) {
        self.0.load(Ordering::SeqCst);
    }
}
