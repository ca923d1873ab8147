//! Room in the table of open files, made before an append needs it.
//!
//! Linux doubles the table of a process when the next descriptor does not fit. In a process with
//! threads, whoever opens that file waits until every core has been through the scheduler: 4 to 14
//! ms on two idle cores. Without this, appends that roll would pay for the 256th file, the 512th
//! and so on.

use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// Makes room for so many open files and as many sockets, up to [`MOST`] in all. Takes 8 bytes of
/// the kernel's memory each, and some calls where there was less room before.
pub(crate) fn make_room(files: usize) {
    let wanted = files.saturating_mul(2).min(MOST).min(limit());
    if MADE.fetch_max(wanted, Ordering::Relaxed) >= wanted {
        return;
    }
    let Ok(last) = i32::try_from(wanted.saturating_sub(1)) else { return };
    // Any open file can be given this number for a moment. Without it, only time is lost.
    if let Ok(any) = File::open("/") {
        drop(fcntl_dupfd_cloexec(&any, last));
    }
}

/// How many descriptors this process may have.
pub(crate) fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT)
}

/// The most that room was made for.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// Taken where the system sets no limit.
const DEFAULT_LIMIT: usize = 65_536;

/// A table of one MiB.
const MOST: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the table of open files, as the kernel tells.
    fn table() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn the_table_has_room_for_the_files_of_a_pool_before_they_are_open() {
        let files = limit() / 3;
        drop(crate::FilePool::new(files));
        assert!(table() >= (2 * files).min(MOST), "{} for {files} files", table());
    }
}
