//! `docs`: builds the documentation, warnings are errors.

use anyhow::Result;

use crate::workspace;

/// Runs rustdoc over our own crates.
///
/// # Errors
///
/// On any warning, a broken link included.
pub(crate) fn run() -> Result<()> {
    let mut doc = workspace::cargo();
    doc.args(["doc", "--workspace", "--all-features", "--no-deps", "--quiet"]);
    workspace::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}
