//! One binary for all integration tests of the crate.

mod bare;
#[cfg(feature = "tokio")]
mod cancel;
#[cfg(feature = "tokio")]
mod cold;
mod fallback;
mod recorder;
#[cfg(feature = "tokio")]
mod runtime;
mod short_files;
mod support;
