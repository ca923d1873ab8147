//! What is to be sent, and how far that has come.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

use crate::buffers::Staged;
#[cfg(feature = "tokio")]
use crate::cold::Window;
use crate::error::SendError;
use crate::file_slice::FileSlice;

/// A response: bytes and slices of files in any order, and how much of it has been sent.
///
/// All progress is kept here. A send that was cut short, by an error of time or a future that was
/// dropped, goes on where it stopped when the same response is sent again: no byte is lost and
/// none is sent twice.
///
/// Bytes that a file is short of are an error for good, see [`SendError::Truncated`].
#[derive(Debug, Default)]
pub struct Response {
    parts: VecDeque<Part>,
    remaining: u64,
    sent: u64,
    broken: bool,
    /// The position in the front file up to which pages were found in memory.
    resident_until: u64,
}

/// A piece of a response. None is empty.
#[derive(Debug)]
pub(crate) enum Part {
    /// Bytes in memory, and how many of them were sent.
    Bytes(Vec<u8>, usize),
    /// Bytes of a file that were read to be copied.
    Staged(Staged),
    /// Bytes of a file.
    File(FileSlice),
}

/// How many pieces one system call is given.
pub(crate) const MAX_PIECES: usize = 64;

impl Response {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        let parts = VecDeque::new();
        Self { parts, remaining: 0, sent: 0, broken: false, resident_until: 0 }
    }

    /// Adds bytes at the end.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.push_bytes(bytes);
        self
    }

    /// Adds a slice of a file at the end.
    #[must_use]
    pub fn slice(mut self, slice: impl Into<FileSlice>) -> Self {
        self.push_slice(slice);
        self
    }

    /// Adds bytes at the end.
    pub fn push_bytes(&mut self, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        if !bytes.is_empty() {
            self.remaining = self.remaining.saturating_add(len_u64(bytes.len()));
            self.parts.push_back(Part::Bytes(bytes, 0));
        }
    }

    /// Adds a slice of a file at the end.
    pub fn push_slice(&mut self, slice: impl Into<FileSlice>) {
        let slice = slice.into();
        if !slice.is_empty() {
            self.remaining = self.remaining.saturating_add(slice.len());
            self.parts.push_back(Part::File(slice));
        }
    }

    /// Bytes that are still to be sent.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Bytes that sockets took.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether nothing is left to send.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.remaining == 0
    }

    /// Refuses to go on after a failure.
    pub(crate) const fn check(&self) -> Result<(), SendError> {
        if self.broken { Err(SendError::Broken) } else { Ok(()) }
    }

    pub(crate) const fn mark_broken(&mut self) {
        self.broken = true;
    }

    /// The slice that comes next, if a slice comes next.
    pub(crate) fn front_file(&self) -> Option<&FileSlice> {
        match self.parts.front() {
            Some(Part::File(slice)) => Some(slice),
            _ => None,
        }
    }

    /// The next slice, unless bytes of it are waiting in a buffer.
    pub(crate) fn next_file(&self) -> Option<&FileSlice> {
        match &self.parts[self.next_file_index()?] {
            Part::File(slice) => Some(slice),
            _ => None,
        }
    }

    /// How many pieces are left.
    pub(crate) fn piece_count(&self) -> usize {
        self.parts.len()
    }

    /// The bytes that come next, as many pieces as one system call takes, and how long they are.
    pub(crate) fn front_bytes<'a>(&'a self, pieces: &mut [IoSlice<'a>]) -> (usize, u64) {
        let mut count = 0;
        let mut len = 0;
        for (piece, part) in pieces.iter_mut().zip(&self.parts) {
            let Some(bytes) = part.bytes() else { break };
            *piece = IoSlice::new(bytes);
            count += 1;
            len += len_u64(bytes.len());
        }
        (count, len)
    }

    /// Reads the start of the next slice into a buffer, unless as much is waiting already.
    ///
    /// The slice must be among the next few pieces: what stands before it goes out with it.
    pub(crate) fn stage(&mut self) -> Result<(), SendError> {
        let Some(index) = self.next_file_index() else { return Ok(()) };
        let Part::File(slice) = &mut self.parts[index] else { return Ok(()) };
        let position = slice.position();
        let read = Staged::fill(|buffer| {
            let len =
                usize::try_from(slice.len()).map_or(buffer.len(), |len| len.min(buffer.len()));
            read_at(slice, &mut buffer[..len])
        });
        let Some(staged) = read.map_err(|source| SendError::file(position, source))? else {
            return Err(SendError::Truncated { position, missing: slice.len() });
        };
        slice.advance(len_u64(staged.bytes().len()));
        if slice.is_empty() {
            self.parts[index] = Part::Staged(staged);
        } else {
            self.parts.insert(index, Part::Staged(staged));
        }
        Ok(())
    }

    /// The place of the next slice, if it is near enough to be sent soon.
    fn next_file_index(&self) -> Option<usize> {
        let mut ahead = self.parts.iter().take(MAX_PIECES).enumerate();
        let (index, part) = ahead.find(|(_, part)| !matches!(part, Part::Bytes(..)))?;
        matches!(part, Part::File(_)).then_some(index)
    }

    /// The start of the next slice, unless its pages were in memory when they were looked at.
    #[cfg(feature = "tokio")]
    pub(crate) fn unseen_window(&self) -> Option<Window> {
        let Part::File(slice) = &self.parts[self.next_file_index()?] else { return None };
        (slice.position() >= self.resident_until).then(|| Window::at_start_of(slice))
    }

    /// Notes that the pages of the next slice are in memory up to this byte of its file.
    #[cfg(feature = "tokio")]
    pub(crate) const fn note_resident(&mut self, until: u64) {
        self.resident_until = until;
    }

    /// Bytes of the slice that comes next of which pages were found in memory.
    pub(crate) fn front_resident_bytes(&self) -> u64 {
        let start = self.front_file().map_or(0, FileSlice::position);
        self.resident_until.saturating_sub(start)
    }

    /// Notes that a socket took `count` bytes from the front. Returns how many of them were
    /// copied out of files.
    pub(crate) fn advance(&mut self, count: u64) -> u64 {
        debug_assert!(count <= self.remaining, "more was sent than the response has");
        let mut rest = count;
        let mut copied = 0;
        while rest > 0 {
            let Some(front) = self.parts.front_mut() else { break };
            let taken = front.advance(rest);
            if matches!(front, Part::Staged(_)) {
                copied += taken;
            }
            if front.is_empty() && !matches!(self.parts.pop_front(), Some(Part::Bytes(..))) {
                self.resident_until = 0;
            }
            rest -= taken;
        }
        self.remaining = self.remaining.saturating_sub(count);
        self.sent = self.sent.saturating_add(count);
        copied
    }
}

impl Part {
    /// What is left of it in memory; `None` for a file.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes, sent) => Some(&bytes[*sent..]),
            Self::Staged(staged) => Some(staged.bytes()),
            Self::File(_) => None,
        }
    }

    /// Steps over up to `count` bytes. Returns how many.
    fn advance(&mut self, count: u64) -> u64 {
        let taken = count.min(self.len());
        let memory = usize::try_from(taken).unwrap_or(usize::MAX);
        match self {
            Self::Bytes(_, sent) => *sent = sent.saturating_add(memory),
            Self::Staged(staged) => staged.advance(memory),
            Self::File(slice) => slice.advance(taken),
        }
        taken
    }

    fn len(&self) -> u64 {
        match self {
            Self::File(slice) => slice.len(),
            _ => self.bytes().map_or(0, |bytes| len_u64(bytes.len())),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One read at the start of a slice, made again where it was interrupted.
fn read_at(slice: &FileSlice, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match slice.file().read_at(buffer, slice.position()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

pub(crate) fn len_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
