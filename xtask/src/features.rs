//! `features`: each feature of each crate builds alone, record-format also without `std`.

use anyhow::Result;

use crate::workspace;

/// Checks every crate bare, then with each of its features.
///
/// # Errors
///
/// When a combination does not build, or `std` is linked where it must not be.
pub(crate) fn run() -> Result<()> {
    for package in workspace::packages()? {
        if package.name == "xtask" {
            continue;
        }
        let features = package.features.keys().filter(|name| *name != "default").cloned();
        for feature in std::iter::once(String::new()).chain(features) {
            let mut check = workspace::cargo();
            check.args(["check", "--quiet", "--package", &package.name, "--no-default-features"]);
            workspace::run(check.args(["--features", &feature]))?;
        }
    }
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
