//! Sends responses to one socket.

mod cork;
mod refusals;
#[cfg(feature = "tokio")]
mod runtime;
mod step;
mod wrapped;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use self::cork::Cork;
use self::refusals::Refusals;
use crate::error::SendError;
use crate::metrics::{self, Counters};
use crate::path::{CopyReason, SendPath};
use crate::response::Response;
use crate::warning;

#[cfg(feature = "tokio")]
pub use self::runtime::TokioSocket;

/// Bytes that one connection sends before others have their turn.
const TURN_BYTES: u64 = 1024 * 1024;

/// What one socket needs in order to send responses: which way its bytes go, and counters.
///
/// One for each socket. Small while idle: buffers are taken from a common stock while bytes are
/// copied. The socket itself stays with the caller, who may read from it meanwhile.
///
/// A response goes out as: bytes by one vectored `sendmsg`, marked `MSG_MORE` where a slice
/// follows; slices by `sendfile`; the socket corked while a response of several slices is on its
/// way. Where the stream is wrapped, slices are read into a buffer and written; also those of a
/// file of which `sendfile` is refused, and all further ones if that happens with three files in a
/// row.
///
/// A socket that the other side closed is an error, not a signal, only while `SIGPIPE` is
/// ignored: Rust programs ignore it from their start.
pub struct SocketSender {
    path: SendPath,
    refusals: Refusals,
    cork: Cork,
    turn_bytes: u64,
    counters: Counters,
}

/// How far a turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The response has been sent.
    Done,
    /// The turn's bytes have been sent and there is more: let others have their turn.
    Turn,
    /// The socket takes nothing now: wait until it is writable.
    Blocked,
}

impl SocketSender {
    /// For a new socket. Slices go out by `sendfile`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            path: SendPath::ZeroCopy,
            refusals: Refusals::new(),
            cork: Cork::new(),
            turn_bytes: TURN_BYTES,
            counters: Counters::new(),
        }
    }

    /// Copies all slices through a buffer, as if `sendfile` were refused.
    #[must_use]
    pub const fn copying(mut self) -> Self {
        self.path = SendPath::Copy(CopyReason::Asked);
        self
    }

    /// Sets how many bytes go out before other connections have their turn: 1 MiB by default, at
    /// least 1.
    #[must_use]
    pub const fn turn_bytes(mut self, turn_bytes: u64) -> Self {
        self.turn_bytes = if turn_bytes == 0 { 1 } else { turn_bytes };
        self
    }

    /// Which way slices go, but for those of a file of which `sendfile` was refused just now.
    #[must_use]
    pub const fn path(&self) -> SendPath {
        self.path
    }

    /// Sends the response to a blocking socket, all of it.
    ///
    /// # Errors
    ///
    /// `Truncated` or `File` if a file is short or cannot be read; `Socket` if the socket fails,
    /// its send timeout has run out, or it is non-blocking and full. After a timeout the response
    /// may be sent on; after anything else the connection must be closed.
    pub fn send(&mut self, socket: impl AsFd, response: &mut Response) -> Result<(), SendError> {
        match self.turn(socket.as_fd(), response, Limits::NONE)? {
            Turn::Done => Ok(()),
            Turn::Used | Turn::Blocked | Turn::Cold => {
                Err(SendError::socket(response.sent(), io::ErrorKind::TimedOut.into()))
            }
        }
    }

    /// Sends what a non-blocking socket takes, up to the bytes of one turn. For loops of one's own
    /// around `epoll` or `poll`.
    ///
    /// # Errors
    ///
    /// As [`Self::send`]; a full socket is none.
    pub fn send_turn(
        &mut self,
        socket: impl AsFd,
        response: &mut Response,
    ) -> Result<Progress, SendError> {
        let limits = Limits { budget: self.turn_bytes, never_wait: false };
        Ok(match self.turn(socket.as_fd(), response, limits)? {
            Turn::Done => Progress::Done,
            Turn::Used | Turn::Cold => Progress::Turn,
            Turn::Blocked => Progress::Blocked,
        })
    }

    /// Sends as much as the socket takes within the limits.
    fn turn(
        &mut self,
        socket: BorrowedFd<'_>,
        response: &mut Response,
        limits: Limits,
    ) -> Result<Turn, SendError> {
        response.check()?;
        let before = response.sent();
        let turn_bytes = whole_turn(limits.budget, response.remaining());
        loop {
            if response.is_done() {
                self.cork.pull(socket);
                return Ok(Turn::Done);
            }
            let budget = turn_bytes.saturating_sub(response.sent() - before);
            if budget == 0 {
                return Ok(Turn::Used);
            }
            let step = self.step(socket, response, Limits { budget, ..limits });
            match step.inspect_err(|error| note_failure(response, error))? {
                Step::Moved => {}
                Step::Full => return Ok(Turn::Blocked),
                Step::Cold => return Ok(Turn::Cold),
            }
        }
    }

    /// Turns to copying, and says so.
    fn lose_zero_copy(&mut self, reason: CopyReason) {
        if self.path == SendPath::ZeroCopy {
            self.path = SendPath::Copy(reason);
            metrics::fell_back(reason);
            warning::zero_copy_lost(reason);
        }
    }

    /// Copies what follows of a file of which `sendfile` was refused. After a few files in a row it
    /// is the socket that takes none, and everything is copied.
    fn note_refusal(&mut self, file: &Arc<File>, reason: CopyReason) {
        if self.refusals.note(file) {
            self.lose_zero_copy(reason);
        } else {
            metrics::fell_back(reason);
            warning::zero_copy_lost(reason);
        }
    }

    /// Whether the next slice goes through a buffer.
    fn copies(&self, response: &Response) -> bool {
        self.path != SendPath::ZeroCopy
            || response.next_file().is_some_and(|slice| self.refusals.stand_for(slice.file()))
    }

    fn count_bytes(&self, taken: u64, copied: u64) {
        if copied > 0 {
            self.counters.copied.increment(copied);
        }
        if taken > copied {
            self.counters.inline.increment(taken - copied);
        }
    }
}

/// The bytes of a turn: all that is left where that is little more, such as the header of a slice
/// that fills the turn. A turn more would cost a wake-up for a few bytes.
const fn whole_turn(budget: u64, remaining: u64) -> u64 {
    if remaining <= budget.saturating_add(budget / 8) { remaining } else { budget }
}

/// What a turn may do.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Bytes that it may send.
    budget: u64,
    /// Leave it to another thread to read pages that are not in memory.
    never_wait: bool,
}

impl Limits {
    const NONE: Self = Self { budget: u64::MAX, never_wait: false };
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing is left to send.
    Done,
    /// Its bytes are used up.
    Used,
    /// The socket is full.
    Blocked,
    /// What comes next must be read from disk.
    Cold,
}

/// What became of one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It moved bytes.
    Moved,
    /// The socket is full.
    Full,
    /// It was not made: what comes next must be read from disk.
    Cold,
}

/// Keeps a failed response from being sent on.
fn note_failure(response: &mut Response, error: &SendError) {
    response.mark_broken();
    if matches!(error, SendError::Truncated { .. }) {
        metrics::truncated();
    }
}

impl Default for SocketSender {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SocketSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SocketSender");
        debug.field("path", &self.path).field("cork", &self.cork);
        debug.field("turn_bytes", &self.turn_bytes).finish_non_exhaustive()
    }
}
