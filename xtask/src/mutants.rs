//! `mutants`: `cargo-mutants` over the crates that parse and recover, a shard at a time.
//!
//! A mutant is a change to one function that some test should notice. All of them take hours; shard
//! `K/N` is the K-th of N slices. What survives for a reason stands in `docs/mutants.md`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::tools::Tool;
use crate::{flags, workspace};

/// The crates whose tests are put to this test.
const CRATES: [&str; 4] =
    ["alluvium-sparse-index", "alluvium-record-format", "alluvium-segment", "alluvium-recovery"];

/// Seconds after which a test run of a mutant counts as endless.
const TIMEOUT: &str = "120";

/// Runs one shard of each crate, or of the one that is named, and prints the counts.
///
/// # Errors
///
/// When the tool is not there, or when the tests fail without a mutant.
pub(crate) fn run(flags: &flags::Mutants) -> Result<()> {
    if let Some(reason) = Tool::Mutants.missing() {
        bail!("{reason}");
    }
    let shard = flags.shard.as_deref().unwrap_or("0/1");
    let chosen: Vec<&str> = match &flags.package {
        Some(name) => vec![name],
        None => CRATES.to_vec(),
    };
    for package in chosen {
        let out = workspace::scratch().join("mutants").join(package);
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let mut mutants = workspace::cargo();
        mutants.args(["mutants", "--package", package, "--test-package", package, "--jobs", "1"]);
        mutants.args(["--shard", shard, "--timeout", TIMEOUT, "--no-shuffle", "--colors", "never"]);
        // Documentation tests are one program each: hours.
        mutants.args(["--cargo-test-arg=--lib", "--cargo-test-arg=--tests"]);
        mutants.args(["--all-features", "--output"]).arg(&out);
        // 2: some mutants survived. 3: some ran out of time.
        let status = mutants.status().context("cannot start cargo mutants")?;
        ensure!(
            matches!(status.code(), Some(0 | 2 | 3)),
            "`{}` failed",
            workspace::shown(&mutants)
        );
        report(package, shard, &out.join("mutants.out"))?;
    }
    Ok(())
}

/// Prints how many mutants of a crate met which end, and the names of those that survived.
fn report(package: &str, shard: &str, out: &Path) -> Result<()> {
    let mut counts = Vec::new();
    let mut survivors = String::new();
    for end in ["caught", "missed", "unviable", "timeout"] {
        let path = out.join(format!("{end}.txt"));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        counts.push(format!("{} {end}", text.lines().count()));
        if end == "missed" {
            survivors = text;
        }
    }
    println!("{package} {shard}: {}", counts.join(", "));
    for survivor in survivors.lines() {
        println!("  survived: {survivor}");
    }
    Ok(())
}
