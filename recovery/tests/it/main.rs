//! Tests of `alluvium-recovery` through its public API.

mod checkpoint_files;
mod golden_files;
mod leader_epochs;
mod prop_files;
mod small_files;
