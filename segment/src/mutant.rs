//! Builds that are wrong on purpose, for `cargo xtask crash --mutants`: it must find each of them.
//!
//! Compiled only under `--cfg alluvium_mutant`.

use std::env;
use std::sync::OnceLock;

/// Whether this process is to be wrong in the way of this name.
#[must_use]
pub fn is(name: &str) -> bool {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| env::var("ALLUVIUM_MUTANT").ok()).as_deref() == Some(name)
}
