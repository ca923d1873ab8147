//! A file mapped into memory that one writer extends while readers look things up.
//!
//! The whole of `unsafe` of this crate is here. What each use buys is in the README, section
//! Safety. The design in short:
//!
//! - The address space for the largest length is taken once, so the address never changes and a
//!   reader needs no lock and no reference count to find the words.
//! - All words are read and written as atomics, so that a reader beside the writer is never a
//!   data race, whatever it reads.
//! - One atomic number holds how many bytes are valid and how often bytes were taken back. A
//!   reader that finds the second changed after its look-up looks again.
//! - The file is never made shorter below bytes that a reader may still touch: a plain page is
//!   put in their place first.

use core::any::Any;
use core::ffi::c_void;
use core::fmt;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;

use crate::published::{Published, State};

/// Proof that the index files of a directory may be mapped: nobody else writes or shortens them.
///
/// Cheap to clone. Every map holds a clone, and with it the lock that makes the promise true.
#[derive(Clone)]
pub struct MapPermit {
    _lock: Arc<dyn Any + Send + Sync>,
}

impl MapPermit {
    /// Makes the proof out of `lock`, which is held until the last clone and the last map with
    /// it are gone.
    ///
    /// A map turns some mistakes of others into a signal: whoever shortens a mapped file kills
    /// the process with SIGBUS, as does a disk that fails to deliver a page.
    ///
    /// # Safety
    ///
    /// As long as `lock` lives, nobody may write to or shorten the files that are opened with
    /// this permit: no other process, and in this process nobody but the one index object that
    /// has the file open.
    #[must_use]
    pub unsafe fn new<L: Any + Send + Sync>(lock: Arc<L>) -> Self {
        Self { _lock: lock }
    }
}

impl fmt::Debug for MapPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapPermit").finish_non_exhaustive()
    }
}

/// A shared, writable map of a file, with the number of its valid bytes.
pub(crate) struct Map {
    /// The first byte; dangling where `reserved_bytes` is 0.
    start: NonNull<u8>,
    /// Bytes of address space behind `start`: whole pages, fixed for life.
    reserved_bytes: usize,
    /// Bytes of the file, at most `reserved_bytes`.
    file_bytes: AtomicUsize,
    /// The valid bytes, and how often bytes were taken back.
    published: Published,
    /// From which byte on plain pages lie in the place of the file, if any do.
    covered_from: Mutex<Option<usize>>,
    /// Who holds the pages: a permit where they are a file's, nobody where they are our heap's.
    permit: Option<MapPermit>,
}

// SAFETY: the pages behind `start` belong to this object until it is dropped, wherever it is,
// and no thread has a special claim to them. All other fields are `Send`.
unsafe impl Send for Map {}

// SAFETY: through `&Map` the pages are reached as slices of atomics only, which threads may
// read and write at once. All other fields are `Sync`.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `file`, which has `file_bytes`, with room to grow to `max_bytes`.
    ///
    /// `valid_bytes` of it can be read from the start. A map of no bytes at all is none: the
    /// system refuses it.
    pub(crate) fn new(
        file: &File,
        file_bytes: usize,
        max_bytes: usize,
        permit: MapPermit,
    ) -> io::Result<Self> {
        let reserved_bytes = round_up(file_bytes.max(max_bytes))?;
        let start = if reserved_bytes == 0 {
            NonNull::<AtomicU64>::dangling().cast()
        } else {
            // SAFETY: no range is replaced.
            let start = unsafe { map_file(ptr::null_mut(), reserved_bytes, file, 0)? };
            if max_bytes > 0 {
                read_no_more_than_touched(start, reserved_bytes);
            }
            start
        };
        Ok(Self {
            start,
            reserved_bytes,
            file_bytes: AtomicUsize::new(file_bytes),
            published: Published::new(),
            covered_from: Mutex::new(None),
            permit: Some(permit),
        })
    }

    /// Holds the first `bytes` of `words` in memory, with no file behind them. Cannot change.
    pub(crate) fn in_memory(words: Box<[u64]>, bytes: usize) -> Self {
        let reserved_bytes = words.len().saturating_mul(size_of::<u64>());
        let start = NonNull::from(Box::leak(words)).cast();
        Self {
            start,
            reserved_bytes,
            file_bytes: AtomicUsize::new(bytes.min(reserved_bytes)),
            published: Published::new(),
            covered_from: Mutex::new(None),
            permit: None,
        }
    }

    /// Whether there is no file behind the words.
    pub(crate) const fn is_in_memory(&self) -> bool {
        self.permit.is_none()
    }

    /// Shows the first `valid_bytes` to readers, as many as were stored by now.
    pub(crate) fn publish(&self, valid_bytes: u32) {
        self.published.publish(self.clamp(valid_bytes));
    }

    /// Takes bytes back: readers see `valid_bytes` from now on, and those that still look at
    /// more find out.
    pub(crate) fn take_back(&self, valid_bytes: u32) {
        self.published.take_back(self.clamp(valid_bytes));
    }

    /// Makes the file `new_bytes` long. Not below the valid bytes; not above the address space.
    pub(crate) fn resize(&self, file: &File, new_bytes: usize) -> io::Result<()> {
        if new_bytes > self.reserved_bytes || self.is_in_memory() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let state = self.published.latest();
        let new_bytes = new_bytes.max(usize::try_from(state.valid_bytes).unwrap_or(usize::MAX));
        let old_bytes = self.file_bytes();
        let set_len = |len| file.set_len(u64::try_from(len).unwrap_or(u64::MAX));
        // A reader may hold more words than are valid now only if some were taken back.
        if new_bytes < old_bytes && state.times_taken_back > 0 {
            self.cover_from(new_bytes)?;
        }
        // The file grows before its pages are put back, for the sake of the same readers.
        if let Err(error) = set_len(new_bytes).and_then(|()| self.uncover_below(new_bytes, file)) {
            // Back to the old length: a file of another length is refused at its next use.
            let _second_error =
                set_len(old_bytes).and_then(|()| self.uncover_below(old_bytes, file));
            return Err(error);
        }
        self.file_bytes.store(new_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// The valid bytes as they are now.
    pub(crate) fn view(&self) -> View<'_> {
        View { map: self, state: self.published.seen() }
    }

    /// The `N` words from byte `at` on, to store into. `None` outside the file.
    pub(crate) fn slot32<const N: usize>(&self, at: usize) -> Option<&[AtomicU32; N]> {
        let (_, words) = self.words32(self.file_bytes()).split_at_checked(words_in(at, WORD32))?;
        words.first_chunk()
    }

    /// The word at byte `at`, to store into. `None` outside the file.
    pub(crate) fn slot64(&self, at: usize) -> Option<&AtomicU64> {
        self.words64(self.file_bytes()).get(words_in(at, WORD64))
    }

    /// Bytes of the file as this map left it.
    pub(crate) fn file_bytes(&self) -> usize {
        self.file_bytes.load(Ordering::Relaxed)
    }

    /// The largest length that the file can be given.
    pub(crate) const fn reserved_bytes(&self) -> usize {
        self.reserved_bytes
    }

    fn clamp(&self, valid_bytes: u32) -> u32 {
        u32::try_from(self.file_bytes()).map_or(valid_bytes, |max| valid_bytes.min(max))
    }

    /// The first `bytes` as 8-byte words.
    fn words64(&self, bytes: usize) -> &[AtomicU64] {
        let count = words_in(bytes.min(self.reserved_bytes), WORD64);
        // SAFETY: `start` is aligned to a page, or dangling and aligned where nothing is mapped
        // and `count` is 0. `count` words lie within the `reserved_bytes` that stay mapped,
        // readable and writable, until `self` is dropped, and the slice borrows `self`. Words
        // of these pages are touched as atomics by this process alone (`MapPermit::new`), with
        // one width per map. Any bits are a valid `AtomicU64`.
        unsafe { slice::from_raw_parts(self.start.cast::<AtomicU64>().as_ptr(), count) }
    }

    /// The first `bytes` as 4-byte words.
    fn words32(&self, bytes: usize) -> &[AtomicU32] {
        let count = words_in(bytes.min(self.reserved_bytes), WORD32);
        // SAFETY: as in `words64`, with words of half the width.
        unsafe { slice::from_raw_parts(self.start.cast::<AtomicU32>().as_ptr(), count) }
    }

    /// Puts plain pages of zeros in the place of all file pages that begin at or after `byte`,
    /// so that a reader that is still there meets no page without a file behind it.
    fn cover_from(&self, byte: usize) -> io::Result<()> {
        let mut covered_from = self.covered_from.lock().unwrap_or_else(PoisonError::into_inner);
        let from = round_up(byte)?;
        let end = covered_from.unwrap_or(self.reserved_bytes);
        let Some(len) = end.checked_sub(from).filter(|len| *len > 0) else { return Ok(()) };
        let at = self.page_at(from);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: `from..from + len` is a range of whole pages inside our own reservation, and
        // FIXED replaces exactly that range. The system does so in one step: a thread that
        // touches a page finds the old or the new one. References into it are to atomics, whose
        // content may change at any time.
        unsafe { mmap_anonymous(at, len, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        *covered_from = Some(from);
        Ok(())
    }

    /// Puts the pages of the file back, if some below `byte` are covered.
    fn uncover_below(&self, byte: usize, file: &File) -> io::Result<()> {
        let mut covered_from = self.covered_from.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(from) = covered_from.filter(|from| *from < byte) else { return Ok(()) };
        if let Some(len) = self.reserved_bytes.checked_sub(from) {
            // SAFETY: `covered_from` is a whole number of pages below `reserved_bytes`, and the
            // range behind it ends with our reservation.
            let start = unsafe { map_file(self.page_at(from), len, file, from)? };
            read_no_more_than_touched(start, len);
        }
        *covered_from = None;
        Ok(())
    }

    /// The address of byte `from` of the reservation.
    const fn page_at(&self, from: usize) -> *mut c_void {
        self.start.as_ptr().wrapping_add(from).cast()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.is_in_memory() {
            let count = words_in(self.reserved_bytes, WORD64);
            let words = ptr::slice_from_raw_parts_mut(self.start.cast::<u64>().as_ptr(), count);
            // SAFETY: the slice that `in_memory` leaked, with its length; `&mut self` proves
            // that nothing of it is borrowed.
            drop(unsafe { Box::from_raw(words) });
            return;
        }
        if self.reserved_bytes == 0 {
            return;
        }
        // SAFETY: exactly the range that `new` mapped and no part of which was given up since.
        // `&mut self` proves that no slice of it is borrowed.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.reserved_bytes) };
        debug_assert!(result.is_ok(), "the range is ours");
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("reserved_bytes", &self.reserved_bytes)
            .field("file_bytes", &self.file_bytes)
            .field("valid_bytes", &self.view().valid_bytes())
            .finish_non_exhaustive()
    }
}

/// The valid bytes of a [`Map`] at one moment.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    map: &'a Map,
    state: State,
}

impl<'a> View<'a> {
    pub(crate) fn valid_bytes(&self) -> usize {
        usize::try_from(self.state.valid_bytes).unwrap_or(usize::MAX)
    }

    /// The valid bytes as big-endian words.
    pub(crate) fn words64(&self) -> &'a [AtomicU64] {
        self.map.words64(self.valid_bytes())
    }

    /// The valid bytes as big-endian words.
    pub(crate) fn words32(&self) -> &'a [AtomicU32] {
        self.map.words32(self.valid_bytes())
    }

    /// How often bytes had been taken back when the view was made.
    pub(crate) const fn times_taken_back(&self) -> u32 {
        self.state.times_taken_back
    }

    /// Whether no byte was taken back since the view was made: then all words that were read
    /// through it belong together.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.map.published.is_unchanged(self.state)
    }
}

/// Maps `len` bytes of `file` from byte `from`: at `at`, or wherever there is room if `at` is
/// null.
///
/// # Safety
///
/// `at` is null, or the `len` bytes there are whole pages of a reservation of ours, to which
/// there are no references but to atomics.
unsafe fn map_file(
    at: *mut c_void,
    len: usize,
    file: &File,
    from: usize,
) -> io::Result<NonNull<u8>> {
    let fixed = if at.is_null() { MapFlags::empty() } else { MapFlags::FIXED };
    let offset = u64::try_from(from).unwrap_or(u64::MAX);
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: with a null address the system chooses a free range. With another one it replaces
    // a range that our caller owns, in one step; the content of atomics may change at any time.
    // `MapPermit` promises that nobody else changes the bytes or takes pages away.
    let start = unsafe { mmap(at, len, protection, MapFlags::SHARED | fixed, file, offset)? };
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Keeps the system from reading ahead in a map that is written to. Behind its last entry there is
/// nothing to read: the first store would fill megabytes of the page cache with zeros, for
/// milliseconds, and the cut to the valid size would throw them away again.
fn read_no_more_than_touched(start: NonNull<u8>, len: usize) {
    // SAFETY: the range is a map of ours, and this advice changes no byte of it.
    let advised = unsafe { madvise(start.as_ptr().cast(), len, Advice::Random) };
    // Where the system does not take it, the map is slower and no more.
    advised.unwrap_or_default();
}

/// The whole words of `1 << shift` bytes in `bytes`.
const fn words_in(bytes: usize, shift: u32) -> usize {
    bytes >> shift
}

const WORD32: u32 = size_of::<AtomicU32>().trailing_zeros();

const WORD64: u32 = size_of::<AtomicU64>().trailing_zeros();

/// `bytes` rounded up to whole pages.
fn round_up(bytes: usize) -> io::Result<usize> {
    bytes.checked_next_multiple_of(page_size()).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
