//! Reads and writes that leave no trace in the page cache: `RWF_DONTCACHE` (Linux 6.14), else
//! advice after the fact.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::{drop_pages, is_resident};

/// `RWF_DONTCACHE`: pages that the call brings into memory go when it is done; those that were
/// there stay.
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// The kernel refused the flag; a file system may, too, but one refusal is enough.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Reads up to `buffer.len()` bytes from byte `position` on, and leaves the page cache as it was:
/// what others read stays there, what this read brings in goes. Returns how many bytes were read,
/// 0 at the end of the file.
///
/// Where the kernel has no `RWF_DONTCACHE`, pages that were all in memory before stay and others
/// are dropped, which may take one that somebody read meanwhile.
///
/// # Errors
///
/// As the system call; an interrupted one is made again.
pub fn read_uncached(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    while !REFUSED.load(Ordering::Relaxed) {
        match preadv2(file, &mut [IoSliceMut::new(buffer)], position, DONT_CACHE) {
            Err(Errno::INTR) => {}
            Err(errno) if is_refusal(errno) => REFUSED.store(true, Ordering::Relaxed),
            read => return Ok(read?),
        }
    }
    let len = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
    let bytes = position..position.saturating_add(len);
    let stays = is_resident(file, bytes.clone()).unwrap_or(false);
    let read = loop {
        match preadv2(file, &mut [IoSliceMut::new(buffer)], position, ReadWriteFlags::empty()) {
            Err(Errno::INTR) => {}
            read => break read?,
        }
    };
    if !stays {
        drop_pages(file, &bytes)?;
    }
    Ok(read)
}

/// Writes up to `bytes.len()` bytes at byte `position`, and starts to write them to disk, after
/// which their pages go. Returns how many bytes were taken.
///
/// Where the kernel has no `RWF_DONTCACHE` this is a plain write: after a sync of the file,
/// [`drop_pages`] does what is missing.
///
/// # Errors
///
/// As the system call; an interrupted one is made again.
pub fn write_uncached(file: &File, bytes: &[u8], position: u64) -> io::Result<usize> {
    loop {
        let refused = REFUSED.load(Ordering::Relaxed);
        let flags = if refused { ReadWriteFlags::empty() } else { DONT_CACHE };
        match pwritev2(file, &[IoSlice::new(bytes)], position, flags) {
            Err(Errno::INTR) => {}
            Err(errno) if !refused && is_refusal(errno) => REFUSED.store(true, Ordering::Relaxed),
            written => return Ok(written?),
        }
    }
}

fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)
}
