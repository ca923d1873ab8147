//! `mutants`: `cargo-mutants` over the crates that parse and recover, a shard at a time.
//!
//! A mutant is a change to one function that some test should notice. All of them take hours; shard
//! `K/N` is every N-th mutant from the K-th on, so that a small one has some of every file. What
//! survives for a reason stands in `docs/mutants.md`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::tools::Tool;
use crate::{flags, workspace};

/// The crates whose tests are put to this test.
const CRATES: [&str; 4] =
    ["alluvium-sparse-index", "alluvium-record-format", "alluvium-segment", "alluvium-recovery"];

/// Seconds after which a test run of a mutant counts as endless: ten times what the slowest crate
/// takes on a quiet machine.
const TIMEOUT: &str = "60";

/// Lets the test harness stop at the first test that fails: one is enough. It asks for a switch,
/// as the option is not stable.
const RUNNER: &str = "--cargo-arg=--config=target.'cfg(unix)'.runner=['env','RUSTC_BOOTSTRAP=1']";

/// Cases of a property that names no number of its own.
const CASES: &str = "32";

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
        mutants.args(["--sharding", "round-robin", "--shard", shard, "--timeout", TIMEOUT]);
        mutants.args(["--profile", "mutants", "--all-features", "--colors", "never", RUNNER]);
        // Documentation tests are one program each: hours.
        mutants.args(["--cargo-arg=--lib", "--cargo-arg=--test=it", "--cargo-test-arg=--"]);
        mutants.args(["--cargo-test-arg=-Zunstable-options", "--cargo-test-arg=--fail-fast"]);
        mutants.arg("--output").arg(&out);
        // The sources are a copy under another name each time; what they depend on stays built.
        mutants.env("CARGO_TARGET_DIR", workspace::scratch().join("mutants/target"));
        mutants.env("PROPTEST_CASES", CASES).env("PROPTEST_MAX_SHRINK_ITERS", "0");
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
