//! Slices whose pages are not in memory: a read of them would wait for a disk.

use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use alluvium_segment::page_cache;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::buffers::Staged;
use crate::file_slice::FileSlice;
use crate::response::len_u64;

/// Bytes that are looked at, and read by another thread if need be, at a time.
const WINDOW_BYTES: u64 = 1024 * 1024;

/// The start of a slice, as far as it is looked at in one go.
#[derive(Clone, Debug)]
pub(crate) struct Window(FileSlice);

impl Window {
    pub(crate) fn at_start_of(slice: &FileSlice) -> Self {
        let len = slice.len().min(WINDOW_BYTES);
        Self(FileSlice::new(slice.file().clone(), slice.position(), len))
    }

    /// The first byte behind it.
    pub(crate) const fn end(&self) -> u64 {
        self.0.position().saturating_add(self.0.len())
    }

    const fn bytes(&self) -> Range<u64> {
        self.0.position()..self.end()
    }

    /// Whether all of its pages are in memory. One system call, 0.3 microseconds for a window.
    pub(crate) fn is_resident(&self) -> bool {
        page_cache::is_resident(self.0.file(), self.bytes())
            // The kernel does not tell who neither owns the file nor may write to it.
            .unwrap_or_else(|_untold| {
                self.has_byte(self.0.position()) && self.has_byte(self.end() - 1)
            })
    }

    /// Whether a byte can be read without a wait.
    fn has_byte(&self, position: u64) -> bool {
        let mut byte = [0];
        let buffers = &mut [IoSliceMut::new(&mut byte)];
        let read = preadv2(self.0.file(), buffers, position, ReadWriteFlags::NOWAIT);
        !matches!(read, Err(Errno::AGAIN))
    }

    /// Reads it, so that its pages are in memory. Waits for the disk.
    pub(crate) fn warm(&self) {
        // Whatever fails here fails again where it is reported.
        let _all_at_once = page_cache::will_need(self.0.file(), &self.bytes());
        let mut position = self.0.position();
        while position < self.end() {
            let read = Staged::fill(|buffer| self.0.file().read_at(buffer, position));
            match read {
                Ok(Some(staged)) => {
                    position = position.saturating_add(len_u64(staged.bytes().len()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(None) | Err(_) => return,
            }
        }
    }
}
