//! Tests of `alluvium-recovery` through its public API.

mod checkpoint_files;
mod golden_files;
mod prop_files;
mod small_files;
