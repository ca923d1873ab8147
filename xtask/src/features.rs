//! `features`: each feature of each crate builds alone, record-format also without `std`.

use anyhow::{Result, bail};

use crate::tools::Tool;
use crate::workspace;

/// Checks every crate bare, with its default features, and with each of its features. All of them
/// together are what `lint` builds.
///
/// # Errors
///
/// When a combination does not build, when `std` is linked where it must not be, and without
/// `cargo hack`.
pub(crate) fn run() -> Result<()> {
    if let Some(reason) = Tool::Hack.missing() {
        bail!("{reason}");
    }
    let mut hack = workspace::cargo();
    hack.args(["hack", "check", "--workspace", "--exclude", "xtask", "--each-feature"]);
    workspace::run(hack.args(["--exclude-all-features", "--quiet"]))?;
    without_std()
}

/// Builds a crate that brings its own panic handler on top of record-format: if anything below
/// linked `std`, the compiler would find two of them.
fn without_std() -> Result<()> {
    let mut build = workspace::cargo();
    build.args(["build", "--quiet", "--manifest-path", "xtask/no-std/Cargo.toml"]);
    build.arg("--target-dir").arg(workspace::scratch().join("no-std"));
    workspace::run(&mut build)
}
