//! `TCP_CORK`: no packet leaves half full while more of a response follows.

use std::os::fd::BorrowedFd;

use rustix::net::sockopt::set_tcp_cork;

/// Whether the socket is corked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cork {
    Out,
    In,
    /// The socket knows no cork, as one of the Unix domain: nothing is lost.
    Unknown,
}

impl Cork {
    pub(crate) const fn new() -> Self {
        Self::Out
    }

    /// Puts it in. A failure is no loss but of speed; a broken socket fails at the next write.
    pub(crate) fn push(&mut self, socket: BorrowedFd<'_>) {
        if *self == Self::Out {
            *self = set_tcp_cork(socket, true).map_or(Self::Unknown, |()| Self::In);
        }
    }

    /// Pulls it out: what waits is sent.
    pub(crate) fn pull(&mut self, socket: BorrowedFd<'_>) {
        if *self == Self::In {
            *self = set_tcp_cork(socket, false).map_or(Self::Unknown, |()| Self::Out);
        }
    }
}
