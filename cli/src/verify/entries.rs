//! Reads the entries of an index file one after the other, through one small buffer.

use std::path::Path;

use super::finding::{Findings, Kind};
use crate::error::CliError;
use crate::log_file::{LogFile, Window};

/// Entries that are searched for zeros in one go.
const BLOCK_ENTRIES: usize = 4096;

/// More than the entries of any log take: 34 bytes for each marker of 78, in 2 GiB.
const MAX_INDEX_BYTES: u64 = 1 << 30;

/// An entry and its first byte in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<T> {
    pub(super) at: u64,
    pub(super) entry: T,
}

/// The entries of an index file, in order.
#[derive(Debug)]
pub(super) struct Entries<'f> {
    window: Window<'f>,
    entry_len: usize,
    /// Slots of zeros since the last entry that is none.
    padding: u64,
}

impl<'f> Entries<'f> {
    /// The entries of a file, of `entry_len` bytes each.
    pub(super) fn new(file: &'f LogFile, entry_len: usize) -> Self {
        Self { window: Window::new(file, 0, MAX_INDEX_BYTES), entry_len, padding: 0 }
    }

    /// The file.
    pub(super) fn path(&self) -> &'f Path {
        self.window.file().path()
    }

    /// The next entry, read by `parse` from its bytes; `None` behind the last whole one.
    pub(super) fn next<T>(
        &mut self,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<Slot<T>>, CliError> {
        let at = self.window.position();
        let len = self.entry_len;
        let bytes = self.window.peek(len)?;
        if bytes.len() < len {
            return Ok(None);
        }
        let entry = parse(bytes);
        self.window.advance(len as u64);
        Ok(entry.map(|entry| Slot { at, entry }))
    }

    /// As [`next`](Self::next), past slots that hold `padding`, which is all zeros.
    pub(super) fn next_but<T: PartialEq>(
        &mut self,
        padding: &T,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<Slot<T>>, CliError> {
        loop {
            let next = self.next(&parse)?;
            if next.as_ref().is_none_or(|slot| slot.entry != *padding) {
                return Ok(next);
            }
            self.padding += 1 + self.skip_zeros()?;
        }
    }

    /// Whether slots of zeros were passed since the last entry.
    pub(super) const fn has_padding(&self) -> bool {
        self.padding > 0
    }

    /// One of the slots of zeros is an entry after all.
    pub(super) fn take_one_padding(&mut self) {
        self.padding = self.padding.saturating_sub(1);
    }

    /// Names the padding before an entry at byte `at`, if there is any.
    pub(super) fn name_hidden(&mut self, kind: Kind, at: u64, findings: &mut Findings) {
        let slots = std::mem::take(&mut self.padding);
        if slots > 0 {
            let detail = format_args!("an entry behind {slots} slots of zeros");
            findings.add(kind, self.path(), at, detail);
        }
    }

    /// Names the padding at the end, which the index of an active segment has by right.
    pub(super) fn name_padding(&self, is_active: bool, findings: &mut Findings) {
        if self.padding > 0 && !is_active {
            let detail = format_args!("{} slots", self.padding);
            findings.add(Kind::IndexPadding, self.path(), None, detail);
        }
    }

    /// Steps over entries that are all zeros; returns how many.
    fn skip_zeros(&mut self) -> Result<u64, CliError> {
        let len = self.entry_len;
        let mut skipped = 0;
        loop {
            let bytes = self.window.peek(len * BLOCK_ENTRIES)?;
            let whole = bytes.len() / len;
            let zeros = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len()) / len;
            self.window.advance((zeros * len) as u64);
            skipped += zeros as u64;
            if zeros < whole || whole == 0 {
                return Ok(skipped);
            }
        }
    }

    /// Names the bytes behind the last whole entry.
    pub(super) fn finish(&self, findings: &mut Findings) {
        let spare = self.window.file().len().saturating_sub(self.window.position());
        if spare >= self.entry_len as u64 {
            let detail = format!("{spare} bytes more than the entries of any log take");
            findings.add(Kind::IndexLength, self.path(), self.window.position(), detail);
        } else if spare > 0 {
            let detail = format!("{spare} bytes behind the last whole entry");
            findings.add(Kind::IndexLength, self.path(), self.window.position(), detail);
        }
    }
}
