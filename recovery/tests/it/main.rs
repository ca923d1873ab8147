//! Tests of `alluvium-recovery` through its public API.

mod batches;
mod checkpoint_files;
mod directory;
mod golden_files;
mod leader_epochs;
mod producer_checks;
mod producer_snapshots;
mod prop_files;
mod small_files;
