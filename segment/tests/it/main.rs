//! One binary for all integration tests of the crate.

mod append;
mod support;
