//! System calls that `rustix` lacks. The one module of this crate where `unsafe` is allowed
//! freely; each use is small enough to be checked by eye.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// What `cachestat` tells of a range, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct CacheStat {
    pub(crate) cached: u64,
    pub(crate) dirty: u64,
    pub(crate) writeback: u64,
    pub(crate) evicted: u64,
    pub(crate) recently_evicted: u64,
}

/// The range that `cachestat` is asked about, in bytes. A length of 0 means up to the end.
#[repr(C)]
struct CacheStatRange {
    position: u64,
    len: u64,
}

/// The number of `cachestat` (Linux 6.5) where all architectures share their new numbers.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
const CACHESTAT: Option<libc::c_long> = Some(451);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const CACHESTAT: Option<libc::c_long> = None;

/// Counts the pages of a range that are in memory.
///
/// # Errors
///
/// `Unsupported` (`ENOSYS`) before Linux 6.5, `EOPNOTSUPP` on hugetlbfs, `PermissionDenied` for a
/// file that the caller neither owns nor may write to.
pub(crate) fn cachestat(file: &File, position: u64, len: u64) -> io::Result<CacheStat> {
    let Some(number) = CACHESTAT else { return Err(io::ErrorKind::Unsupported.into()) };
    let range = CacheStatRange { position, len };
    let mut stat = CacheStat::default();
    let no_flags: libc::c_uint = 0;
    // SAFETY: the descriptor is open while `file` is borrowed; the kernel reads `range` and writes
    // `stat`, which have its layout, live until the call returns, and may hold any bits.
    let status = unsafe {
        libc::syscall(number, file.as_raw_fd(), &raw const range, &raw mut stat, no_flags)
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(stat) }
}

/// Tells for each page of a range whether it is in memory: the lowest bit of each byte of
/// `resident`, one byte a page. `position` lies at the start of a page.
///
/// # Errors
///
/// As `mmap` and `mincore`.
pub(crate) fn mincore(file: &File, position: u64, resident: &mut [u8]) -> io::Result<()> {
    let len = resident.len().checked_mul(rustix::param::page_size());
    let len = len.filter(|len| *len > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: a new mapping, at an address that the kernel chooses, without access. Nothing is
    // ever read through it, so that it does not matter who changes or cuts the file.
    let map = unsafe {
        mmap(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::SHARED, file, position)
    }?;
    // SAFETY: `map` is a mapping of `len` bytes, and `resident` has a byte for each page of it.
    let status = unsafe { libc::mincore(map, len, resident.as_mut_ptr()) };
    let asked = if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: the mapping made above, of which no pointer is left.
    unsafe { munmap(map, len) }?;
    asked
}

/// Sets an option of a socket whose value is bytes.
///
/// # Errors
///
/// As `setsockopt`.
pub(crate) fn set_socket_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &[u8],
) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open while `socket` lives, and `value` has `len` bytes, which the
    // kernel reads before the call returns.
    let status =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), len) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
