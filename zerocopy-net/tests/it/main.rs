//! One binary for all integration tests of the crate.

mod bare;
#[cfg(feature = "tls")]
mod calls;
#[cfg(feature = "tokio")]
mod cancel;
#[cfg(feature = "tokio")]
mod cold;
mod fallback;
mod fetches;
#[cfg(feature = "tls")]
mod kernel_tls;
mod prop_responses;
mod read_ahead;
mod recorder;
#[cfg(feature = "tokio")]
mod runtime;
mod short_files;
#[cfg(feature = "tls")]
mod strace;
mod support;
#[cfg(feature = "tls")]
mod tls;
