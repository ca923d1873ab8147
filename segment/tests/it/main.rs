//! One binary for all integration tests of the crate.

mod append;
mod faults;
mod golden;
mod hints;
mod lock;
mod prop_model;
mod reads;
mod recovery;
mod replace;
mod roll;
mod support;
mod times;
mod truncate;
