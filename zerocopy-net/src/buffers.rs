//! Buffers for bytes that are copied, used again and again.
//!
//! A connection has one only while it sends: idle ones hold none.

use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Bytes of a buffer: few system calls, and it stays in a core's cache.
pub(crate) const BUFFER_BYTES: usize = 128 * 1024;

/// How many unused buffers are kept, for all connections.
const KEPT: usize = 16;

static UNUSED: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

/// A buffer from the common stock, and what of it is still to be sent.
pub(crate) struct Staged {
    buffer: Box<[u8]>,
    range: Range<usize>,
}

impl Staged {
    /// Takes a buffer and lets `fill` put bytes into it; `None` if it puts none.
    pub(crate) fn fill<E>(
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Option<Self>, E> {
        let taken = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let buffer = taken.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice());
        let mut staged = Self { buffer, range: 0..0 };
        let count = fill(&mut staged.buffer)?;
        staged.range = 0..count;
        Ok((count > 0).then_some(staged))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }

    pub(crate) fn advance(&mut self, count: usize) {
        self.range.start = self.range.start.saturating_add(count).min(self.range.end);
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < KEPT {
            unused.push(mem::take(&mut self.buffer));
        }
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").field("range", &self.range).finish_non_exhaustive()
    }
}
