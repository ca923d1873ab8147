//! Compaction of lists of segments, as a user of the crate sees it.

mod crash;
mod field_reports;
mod map;
mod prop_model;
mod support;
mod tombstones;
mod transactions;
