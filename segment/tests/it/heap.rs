//! Counts what each thread allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static HEAP: Counting = Counting;

/// The most bytes that were allocated at one time while `run` ran, above what was before.
pub(crate) fn peak_of<T>(run: impl FnOnce() -> T) -> (usize, T) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = run();
    (usize::try_from(PEAK.get() - before).unwrap(), result)
}

/// The bytes that `run` allocated and did not free.
pub(crate) fn kept_by<T>(run: impl FnOnce() -> T) -> (isize, T) {
    let before = LIVE.get();
    let result = run();
    (LIVE.get() - before, result)
}

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

impl Counting {
    fn add(bytes: isize) {
        // A thread that ends has no cells left, and nobody who asks.
        let _ended = LIVE.try_with(|live| {
            live.set(live.get() + bytes);
            PEAK.with(|peak| peak.set(peak.get().max(live.get())));
        });
    }
}

// SAFETY: every call goes to the system allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size().cast_signed());
        // SAFETY: our caller promises what the system allocator asks.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size().cast_signed());
        // SAFETY: our caller promises what the system allocator asks.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Self::add(-layout.size().cast_signed());
        // SAFETY: our caller promises what the system allocator asks.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::add(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: our caller promises what the system allocator asks.
        unsafe { System.realloc(block, layout, size) }
    }
}
