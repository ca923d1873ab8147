//! One system call's worth of progress on a bare socket.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::{Limits, SocketSender, Step};
use crate::error::SendError;
use crate::path::refusal;
use crate::response::{MAX_PIECES, Response, len_u64};

/// The most that one `sendfile` moves, whatever is asked for.
const MAX_SENDFILE: u64 = 0x7fff_f000;

impl SocketSender {
    /// Makes calls until one moves bytes or finds that it cannot.
    pub(super) fn step(
        &mut self,
        socket: BorrowedFd<'_>,
        response: &mut Response,
        mut limits: Limits,
    ) -> Result<Step, SendError> {
        loop {
            if limits.never_wait && is_cold(response) {
                return Ok(Step::Cold);
            }
            if self.copies(response) {
                response.stage()?;
            }
            let step = if response.front_file().is_some() {
                if limits.never_wait {
                    limits.budget = limits.budget.min(response.front_resident_bytes());
                }
                self.send_file(socket, response, limits.budget)?
            } else {
                self.send_bytes(socket, response)?
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
    }

    /// Sends from the page cache. `None`: try again, perhaps another way.
    fn send_file(
        &mut self,
        socket: BorrowedFd<'_>,
        response: &mut Response,
        budget: u64,
    ) -> Result<Option<Step>, SendError> {
        if response.piece_count() > 1 {
            self.cork.push(socket);
        }
        let Some(slice) = response.front_file() else { return Ok(None) };
        let mut position = slice.position();
        // What is left of the slice and never more: behind it lies what was not promised.
        let count = slice.len().min(budget).min(MAX_SENDFILE);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        match sendfile(socket, slice.file(), Some(&mut position), count) {
            Ok(0) => {
                let (position, missing) = (slice.position(), slice.len());
                Err(SendError::Truncated { position, missing })
            }
            Ok(moved) => {
                let moved = len_u64(moved);
                response.advance(moved);
                self.refusals.note_success();
                self.counters.zero_copy.increment(moved);
                Ok(Some(Step::Moved))
            }
            Err(Errno::INTR) => Ok(None),
            Err(Errno::AGAIN) => Ok(Some(Step::Full)),
            Err(Errno::IO) => Err(SendError::file(slice.position(), Errno::IO.into())),
            Err(errno) => {
                let Some(reason) = refusal(errno) else {
                    return Err(SendError::socket(response.sent(), errno.into()));
                };
                let file = Arc::clone(slice.file());
                self.note_refusal(&file, reason);
                Ok(None)
            }
        }
    }

    /// Sends bytes that are in memory. `None`: try again.
    fn send_bytes(
        &self,
        socket: BorrowedFd<'_>,
        response: &mut Response,
    ) -> Result<Option<Step>, SendError> {
        let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
        let (count, len) = response.front_bytes(&mut pieces);
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, len < response.remaining());
        let mut control = SendAncillaryBuffer::default();
        match sendmsg(socket, &pieces[..count], &mut control, flags) {
            Ok(0) => {
                let source = std::io::ErrorKind::WriteZero.into();
                Err(SendError::socket(response.sent(), source))
            }
            Ok(taken) => {
                let taken = len_u64(taken);
                let copied = response.advance(taken);
                self.count_bytes(taken, copied);
                Ok(Some(Step::Moved))
            }
            Err(Errno::INTR) => Ok(None),
            Err(Errno::AGAIN) => Ok(Some(Step::Full)),
            Err(errno) => Err(SendError::socket(response.sent(), errno.into())),
        }
    }
}

/// Whether the next slice must be read from disk. Looks at its pages once for each window.
#[cfg(feature = "tokio")]
pub(super) fn is_cold(response: &mut Response) -> bool {
    let Some(window) = response.unseen_window() else { return false };
    let resident = window.is_resident();
    if resident {
        response.note_resident(window.end());
    }
    !resident
}

/// Blocking code may wait.
#[cfg(not(feature = "tokio"))]
pub(super) const fn is_cold(_response: &mut Response) -> bool {
    false
}
