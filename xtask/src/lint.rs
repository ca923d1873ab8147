//! `lint`: clippy over everything, warnings are errors.

use anyhow::Result;

use crate::workspace;

/// Runs clippy.
///
/// # Errors
///
/// On any warning.
pub(crate) fn run() -> Result<()> {
    let mut clippy = workspace::cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--all-features", "--quiet"]);
    workspace::run(clippy.args(["--", "-D", "warnings"]))
}
