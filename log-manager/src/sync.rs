//! The locks, atomics and published pointers of this crate. Under `--cfg shuttle` they are those of
//! a model checker, which decides at each of them which thread goes on: `cargo xtask schedules`.

#[cfg(all(test, shuttle))]
mod model;

#[cfg(not(all(test, shuttle)))]
pub(crate) use {
    arc_swap::{ArcSwap, ArcSwapOption},
    parking_lot::{Condvar, Mutex, MutexGuard},
    std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize},
};

/// Locks whose condition variable wakes all who wait at once, not one after the other.
pub(crate) mod broadcast {
    #[cfg(all(test, shuttle))]
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    #[cfg(not(all(test, shuttle)))]
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
}

#[cfg(all(test, shuttle))]
pub(crate) use {
    model::{ArcSwap, ArcSwapOption, Condvar, Mutex, MutexGuard},
    shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize},
};
