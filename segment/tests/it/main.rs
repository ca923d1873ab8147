//! One binary for all integration tests of the crate.

mod append;
mod faults;
mod hints;
mod reads;
mod recovery;
mod roll;
mod support;
mod truncate;
