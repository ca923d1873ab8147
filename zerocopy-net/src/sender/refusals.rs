//! Files of which `sendfile` was refused: the file's fault, or that of the socket?

use std::fs::File;
use std::sync::{Arc, Weak};

/// Files in a row after which it is the socket that takes no `sendfile`.
const SOCKETS_FAULT: u8 = 3;

/// The last file that was refused, and how many were without one that was not.
#[derive(Debug)]
pub(crate) struct Refusals {
    last: Weak<File>,
    in_a_row: u8,
}

impl Refusals {
    pub(crate) const fn new() -> Self {
        Self { last: Weak::new(), in_a_row: 0 }
    }

    /// Notes that this file was refused. Returns whether the socket is to blame.
    pub(crate) fn note(&mut self, file: &Arc<File>) -> bool {
        self.last = Arc::downgrade(file);
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.in_a_row >= SOCKETS_FAULT
    }

    /// Notes that the socket took a file.
    pub(crate) const fn note_success(&mut self) {
        self.in_a_row = 0;
    }

    /// Whether this file is the last one that was refused.
    pub(crate) fn stand_for(&self, file: &Arc<File>) -> bool {
        self.last.as_ptr() == Arc::as_ptr(file)
    }
}
