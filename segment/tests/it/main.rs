//! One binary for all integration tests of the crate.

mod ahead;
mod append;
mod cost;
mod damage;
mod faults;
mod golden;
mod heap;
mod hints;
mod lock;
mod many;
mod pool_syncing;
mod prop_model;
mod reads;
mod recovery;
mod replace;
mod residency;
mod roll;
mod support;
mod syncing;
mod times;
mod truncate;
mod walk;
