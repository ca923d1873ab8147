//! Compaction of lists of segments, as a user of the crate sees it.

mod broker;
mod choosing;
mod crash;
mod faults;
mod field_reports;
mod map;
mod misplaced;
mod model;
mod moving;
mod page_cache;
mod prop_model;
mod support;
mod tombstones;
mod transactions;
mod under_load;
mod watching;
