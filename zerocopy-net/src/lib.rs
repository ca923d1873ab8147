#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod buffers;
#[cfg(feature = "tokio")]
mod cold;
mod error;
mod file_slice;
#[cfg(feature = "tls")]
pub mod kernel_tls;
mod metrics;
mod path;
mod read_ahead;
mod response;
mod sender;
mod warning;

pub use error::SendError;
pub use file_slice::FileSlice;
pub use metrics::{
    BYTES_COPIED, BYTES_INLINE, BYTES_ZERO_COPY, COLD_READS, FALLBACKS, TRUNCATED, describe_metrics,
};
pub use path::{CopyReason, SendPath};
pub use read_ahead::ReadAhead;
pub use response::Response;
#[cfg(feature = "tokio")]
pub use sender::TokioSocket;
pub use sender::{Progress, SocketSender};
