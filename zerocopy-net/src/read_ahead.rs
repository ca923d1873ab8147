//! Readers that go through a log in order: what they will need is asked for ahead, and what they
//! alone needed can be let go behind them.

use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Weak};

use alluvium_segment::page_cache;
use tracing::debug;

use crate::file_slice::FileSlice;

/// Slices in a row after which a reader counts as going in order.
const IN_ORDER: u32 = 2;

/// Bytes that are asked for ahead.
const AHEAD_BYTES: u64 = 4 * 1024 * 1024;

/// One reader of one log: notices that it goes in order, and asks the kernel to read ahead of it
/// where pages are not in memory.
///
/// It gives advice alone: nothing goes wrong without it, or if it guesses wrong. Small; keep one
/// for each partition of each connection, as long as it fetches.
#[derive(Debug, Default)]
pub struct ReadAhead {
    file: Weak<File>,
    /// The last slice. The next one may begin inside of it: a fetch often ends within a batch, and
    /// the reader goes on with all of that batch.
    last: Range<u64>,
    in_order: u32,
    /// Bytes of `file` before this were looked at, and asked for if they were not in memory.
    asked_until: u64,
    /// Bytes of `file` that were not in memory until they were asked for here.
    brought: Range<u64>,
    drops_behind: bool,
}

impl ReadAhead {
    /// For a reader that nothing is known of. Reads ahead, lets nothing go.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets go of pages behind the reader, of those that were not in memory before it came. For
    /// readers that catch up through a log larger than memory: without it they drive out what
    /// others read.
    #[must_use]
    pub const fn dropping_behind(mut self) -> Self {
        self.drops_behind = true;
        self
    }

    /// Notes that `slice` is about to be sent. An empty one, as at the end of a log, says nothing.
    ///
    /// Cost: nothing while slices are inside of what was asked for; else a system call or two
    /// for each 2 MiB. None of them waits for the data; metadata of the file system may be waited
    /// for.
    pub fn note(&mut self, slice: &FileSlice) {
        if slice.is_empty() {
            return;
        }
        let is_same = self.file.as_ptr() == Arc::as_ptr(slice.file());
        let follows = if is_same {
            self.last.start < slice.position() && slice.position() <= self.last.end
        } else {
            slice.position() == 0
        };
        self.in_order = if follows { self.in_order.saturating_add(1) } else { 0 };
        if !is_same || !follows {
            self.drop_brought(u64::MAX);
            self.file = Arc::downgrade(slice.file());
            self.asked_until = slice.position();
            self.brought = 0..0;
        }
        self.last = slice.position()..slice.position().saturating_add(slice.len());
        if self.in_order >= IN_ORDER {
            self.ask(slice);
            self.drop_brought(slice.position());
        }
    }

    /// Whether the reader goes in order, as far as it was seen.
    #[must_use]
    pub const fn is_in_order(&self) -> bool {
        self.in_order >= IN_ORDER
    }

    /// Asks for what follows the slice, once half of what was asked for is used up.
    fn ask(&mut self, slice: &FileSlice) {
        if self.asked_until > self.last.end.saturating_add(AHEAD_BYTES / 2) {
            return;
        }
        let file_end = slice.file().metadata().map_or(0, |metadata| metadata.len());
        let end = self.last.end.saturating_add(AHEAD_BYTES).min(file_end);
        let bytes = self.asked_until.max(slice.position())..end;
        self.asked_until = end.max(self.asked_until);
        if bytes.is_empty() || page_cache::is_resident(slice.file(), bytes.clone()).unwrap_or(true)
        {
            return;
        }
        let asked = page_cache::is_sequential(slice.file())
            .and_then(|()| page_cache::will_need(slice.file(), &bytes));
        if let Err(error) = asked {
            debug!(%error, "the kernel takes no advice on a file");
        }
        let from = if self.brought.end == bytes.start { self.brought.start } else { bytes.start };
        self.brought = from..bytes.end;
    }

    /// Lets go of what was brought in below `position`.
    fn drop_brought(&mut self, position: u64) {
        let behind = self.brought.start..self.brought.end.min(position);
        // A part now and then: a call for each slice would cost more than it gives.
        let is_due = position == u64::MAX || behind.end >= behind.start + AHEAD_BYTES / 4;
        if !self.drops_behind || behind.is_empty() || !is_due {
            return;
        }
        if let Some(file) = self.file.upgrade()
            && let Err(error) = page_cache::drop_pages(&file, &behind)
        {
            debug!(%error, "the kernel takes no advice on a file");
        }
        self.brought.start = behind.end;
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.drop_brought(u64::MAX);
    }
}
