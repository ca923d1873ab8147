//! What each fuzz target does with its bytes. A file per layer; `fuzz_targets/` holds the mains.
#![forbid(unsafe_code)]

pub mod batches;
pub mod files;
pub mod indexes;
pub mod loading;
pub mod logs;
pub mod writing;
