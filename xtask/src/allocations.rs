//! Counts allocations of this process.

use std::alloc::System;

use anyhow::Result;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How often `work` allocates or reallocates. Other threads count too.
///
/// # Errors
///
/// Those of `work`.
pub(crate) fn during<T>(work: impl FnOnce() -> Result<T>) -> Result<usize> {
    let region = Region::new(ALLOCATOR);
    let result = work();
    let change = region.change();
    result.map(|_| change.allocations + change.reallocations)
}

/// Bytes that this process has allocated and not given back.
pub(crate) fn live_bytes() -> u64 {
    let stats = ALLOCATOR.stats();
    let live = stats.bytes_allocated.saturating_sub(stats.bytes_deallocated);
    u64::try_from(live).unwrap_or(u64::MAX)
}
