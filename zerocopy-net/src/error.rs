//! Why a response could not be sent.

use std::io;

/// Why a response could not be sent. The connection must be closed: a part of the response may
/// have been sent, so that nothing else can follow on it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// A file is shorter than the slice of it that was promised.
    #[error("the file ends at byte {position}, {missing} bytes before the end of its slice")]
    #[non_exhaustive]
    Truncated {
        /// Where the file ends, at or before this byte.
        position: u64,
        /// Bytes of the slice that are not there.
        missing: u64,
    },
    /// A file could not be read.
    #[error("cannot read the file at byte {position}")]
    #[non_exhaustive]
    File {
        /// The first byte of the failed read.
        position: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// The other side is gone, or the socket failed, or its time ran out.
    #[error("cannot send after byte {sent} of the response")]
    #[non_exhaustive]
    Socket {
        /// Bytes of the response that the socket took before.
        sent: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// The response failed before. Nothing was tried.
    #[error("the response has failed before")]
    Broken,
}

impl SendError {
    pub(crate) const fn file(position: u64, source: io::Error) -> Self {
        Self::File { position, source }
    }

    pub(crate) const fn socket(sent: u64, source: io::Error) -> Self {
        Self::Socket { sent, source }
    }
}
