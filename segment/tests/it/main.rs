//! One binary for all integration tests of the crate.

mod append;
mod hints;
mod reads;
mod recovery;
mod support;
