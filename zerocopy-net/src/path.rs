//! Which way the bytes of a socket go.

use std::fmt;

use rustix::io::Errno;

/// Which way the bytes of files go to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendPath {
    /// From page cache to socket, by `sendfile`.
    ZeroCopy,
    /// Through a buffer: `pread`, then a write.
    Copy(CopyReason),
}

/// Why bytes go through a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CopyReason {
    /// The caller wanted it so.
    Asked,
    /// The stream is wrapped, as by TLS: what is sent is not what the file holds.
    Wrapped,
    /// The operating system refused `sendfile` for this socket and file, with this error number.
    Refused(i32),
}

impl CopyReason {
    /// The reason in one word, as in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Wrapped => "wrapped",
            Self::Refused(_) => "refused",
        }
    }
}

impl fmt::Display for CopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("copying was asked for"),
            Self::Wrapped => f.write_str("the stream is wrapped, as by TLS"),
            Self::Refused(number) => {
                let source = std::io::Error::from_raw_os_error(*number);
                write!(f, "sendfile is refused: {source}")
            }
        }
    }
}

/// The reason to copy, if `errno` means that `sendfile` does not work here but copying may.
pub(crate) fn refusal(errno: Errno) -> Option<CopyReason> {
    let refused = matches!(
        errno,
        Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::SPIPE | Errno::PERM | Errno::ACCESS
    );
    refused.then(|| CopyReason::Refused(errno.raw_os_error()))
}
