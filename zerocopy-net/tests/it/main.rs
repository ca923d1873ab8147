//! One binary for all integration tests of the crate.

mod bare;
#[cfg(feature = "tokio")]
mod runtime;
mod short_files;
mod support;
