//! The page cache: which pages of a file are in memory, and advice on them.
//!
//! Counts come from `cachestat`, where the kernel has it (Linux 6.5); else, and for the places of
//! pages, from `mincore`. Neither reads the file or changes what is cached. What they say may be
//! out of date as soon as it is said.

mod uncached;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Access, Advice, access, fadvise};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::sys;

pub use uncached::{read_uncached, write_uncached};

/// How many pages of a range are in memory, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Residency {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages of the range, of which the last may reach beyond the file.
    pub page_count: u64,
    /// Those in memory, as runs of page numbers that ascend and do not touch. Page 0 holds the
    /// first byte of the file.
    pub resident: Vec<Range<u64>>,
    /// Pages in memory that wait to be written to disk, or are being written; `None` where the
    /// kernel does not tell (before Linux 6.5).
    pub dirty_count: Option<u64>,
    /// Pages that were in memory and made room for others; `None` as above.
    pub evicted_count: Option<u64>,
}

impl Residency {
    /// How many pages are in memory.
    #[must_use]
    pub fn resident_count(&self) -> u64 {
        self.resident.iter().map(|run| run.end - run.start).sum()
    }

    /// Whether the page with this number is in memory.
    #[must_use]
    pub fn is_resident(&self, page: u64) -> bool {
        let after = self.resident.partition_point(|run| run.end <= page);
        self.resident.get(after).is_some_and(|run| run.start <= page)
    }

    /// How many of these pages are in memory.
    #[must_use]
    pub fn resident_in(&self, pages: Range<u64>) -> u64 {
        let from = self.resident.partition_point(|run| run.end <= pages.start);
        let runs = self.resident[from..].iter().take_while(|run| run.start < pages.end);
        runs.map(|run| run.end.min(pages.end) - run.start.max(pages.start)).sum()
    }
}

/// Looks which pages of these bytes are in memory.
///
/// Cost: about a microsecond for each MiB of the range, and a byte of memory for each of 16 Ki
/// pages at a time.
///
/// # Errors
///
/// `PermissionDenied` for a file that the caller neither owns nor may write to: the kernel does
/// not tell. `InvalidInput` for a descending range.
pub fn residency(file: &File, bytes: Range<u64>) -> io::Result<Residency> {
    let page_bytes = page_bytes();
    let pages = pages_of(&bytes, page_bytes)?;
    let mut found = Residency {
        page_bytes,
        page_count: pages.end - pages.start,
        resident: Vec::new(),
        dirty_count: None,
        evicted_count: None,
    };
    if pages.is_empty() {
        return Ok(found);
    }
    match sys::cachestat(file, bytes.start, bytes.end - bytes.start) {
        Ok(stat) => {
            found.dirty_count = Some(stat.dirty.saturating_add(stat.writeback));
            found.evicted_count = Some(stat.evicted);
            if stat.cached == 0 {
                return Ok(found);
            }
            if stat.cached >= found.page_count {
                found.resident.push(pages);
                return Ok(found);
            }
        }
        Err(error) if lacks_cachestat(&error) => check_may_ask(file)?,
        Err(error) => return Err(error),
    }
    found.resident = resident_runs(file, pages)?;
    Ok(found)
}

/// Whether all pages of these bytes are in memory: whether a read of them does not wait for a
/// disk. Bytes behind the end of the file are not.
///
/// Cost: one system call, that looks at every page of the range.
///
/// # Errors
///
/// As [`residency`].
pub fn is_resident(file: &File, bytes: Range<u64>) -> io::Result<bool> {
    let pages = pages_of(&bytes, page_bytes())?;
    if pages.is_empty() {
        return Ok(true);
    }
    match sys::cachestat(file, bytes.start, bytes.end - bytes.start) {
        Ok(stat) => Ok(stat.cached >= pages.end - pages.start),
        Err(error) if lacks_cachestat(&error) => {
            check_may_ask(file)?;
            Ok(resident_runs(file, pages.clone())? == [pages])
        }
        Err(error) => Err(error),
    }
}

/// Asks the kernel to read these bytes into memory soon. Does not wait for the disk.
///
/// # Errors
///
/// As `posix_fadvise`.
pub fn will_need(file: &File, bytes: &Range<u64>) -> io::Result<()> {
    advise(file, bytes, Advice::WillNeed)
}

/// Tells the kernel that the file is read in order, so that it reads further ahead. Holds for all
/// who read through the same open file.
///
/// # Errors
///
/// As `posix_fadvise`.
pub fn is_sequential(file: &File) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::Sequential)?)
}

/// Lets go of the pages of these bytes, but of those that are dirty, in use or only partly in the
/// range. Others who read them meanwhile go to the disk.
///
/// # Errors
///
/// As `posix_fadvise`.
pub fn drop_pages(file: &File, bytes: &Range<u64>) -> io::Result<()> {
    advise(file, bytes, Advice::DontNeed)
}

fn advise(file: &File, bytes: &Range<u64>, advice: Advice) -> io::Result<()> {
    // A length of 0 would mean the rest of the file.
    match std::num::NonZeroU64::new(bytes.end.saturating_sub(bytes.start)) {
        Some(len) => Ok(fadvise(file, bytes.start, Some(len), advice)?),
        None => Ok(()),
    }
}

/// Bytes of a page.
pub(crate) fn page_bytes() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(u64::MAX)
}

/// The numbers of the pages that hold these bytes.
fn pages_of(bytes: &Range<u64>, page_bytes: u64) -> io::Result<Range<u64>> {
    if bytes.start > bytes.end {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if bytes.is_empty() {
        return Ok(0..0);
    }
    Ok(bytes.start / page_bytes..bytes.end.div_ceil(page_bytes))
}

/// Whether the kernel or the file system has no `cachestat`.
fn lacks_cachestat(error: &io::Error) -> bool {
    let lacks = [Errno::NOSYS, Errno::OPNOTSUPP].map(Errno::raw_os_error);
    error.kind() == io::ErrorKind::Unsupported
        || error.raw_os_error().is_some_and(|number| lacks.contains(&number))
}

/// Refuses a file about which `mincore` would lie: to who may not write to it, it says that all
/// pages are in memory.
fn check_may_ask(file: &File) -> io::Result<()> {
    let user = geteuid();
    if user.is_root() || user.as_raw() == file.metadata()?.uid() {
        return Ok(());
    }
    Ok(access(format!("/proc/self/fd/{}", file.as_raw_fd()), Access::WRITE_OK)?)
}

/// Pages that `mincore` is asked about at a time.
const WINDOW_PAGES: usize = 16 * 1024;

/// The runs of pages in memory among `pages`, by `mincore`.
fn resident_runs(file: &File, pages: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    let mut bits = [0; WINDOW_PAGES];
    let mut page = pages.start;
    while page < pages.end {
        let left = usize::try_from(pages.end - page).unwrap_or(usize::MAX);
        let window = &mut bits[..left.min(WINDOW_PAGES)];
        sys::mincore(file, page.saturating_mul(page_bytes()), window)?;
        for bit in window {
            if *bit & 1 == 1 {
                match runs.last_mut().filter(|run| run.end == page) {
                    Some(run) => run.end += 1,
                    None => runs.push(page..page + 1),
                }
            }
            page += 1;
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests;
