//! `mutants`: `cargo-mutants` over the crates that parse and recover, a shard at a time.
//!
//! A mutant is a change to one function that some test should notice. All of them take hours; shard
//! `K/N` is every N-th mutant from the K-th on, so that a small one has some of every file. Each
//! meets the quick integration tests first, and all tests if it survives them. What survives for a
//! reason stands in `docs/mutants.md`.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

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
const CASES: &str = "16";

/// Parts of the names of those few tests that take most of a crate's time, and are seldom the
/// first to notice a mutant: the first pass leaves them out.
const SLOW: [(&str, &[&str]); 3] = [
    ("alluvium-record-format", &["limits::", "cuts::", "levels::", "pieces::"]),
    (
        "alluvium-segment",
        &["a_java_machine", "any_changed_byte", "any_bytes_as", "many::", "_crash"],
    ),
    ("alluvium-recovery", &["an_overflow", "an_interrupted_replacement"]),
];

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
        let mut quick = mutants(package);
        quick.args(["--sharding", "round-robin", "--shard", shard]);
        for name in SLOW.iter().filter(|(of, _)| *of == package).flat_map(|(_, names)| *names) {
            quick.args(["--cargo-test-arg=--skip", &format!("--cargo-test-arg={name}")]);
        }
        let mut ends = pass(quick, &out.join("quick"))?;
        if !ends.missed.is_empty() {
            // All tests, for the few that are left: a build with the unit tests takes twice as
            // long.
            let mut all = mutants(package);
            all.args(["--cargo-arg=--lib", "--baseline=skip"]);
            for name in &ends.missed {
                all.arg("--re").arg(format!("^{}$", escaped(name)));
            }
            // The patterns hold for all mutants but for fields that are left out of a struct.
            let asked = std::mem::take(&mut ends.missed);
            let mut last = pass(all, &out.join("all"))?;
            last.keep(&asked);
            ends.caught.extend(last.caught);
            ends.timeout.extend(last.timeout);
            ends.missed = last.missed;
        }
        println!("{package} {shard}: {ends}");
        for survivor in &ends.missed {
            println!("  survived: {survivor}");
        }
    }
    Ok(())
}

/// What both passes have in common.
fn mutants(package: &str) -> Command {
    let mut mutants = workspace::cargo();
    mutants.args(["mutants", "--package", package, "--test-package", package, "--jobs", "1"]);
    mutants.args(["--timeout", TIMEOUT, "--profile", "mutants", "--all-features"]);
    // Documentation tests are one program each: hours.
    mutants.args(["--colors", "never", RUNNER, "--cargo-arg=--test=it", "--cargo-test-arg=--"]);
    mutants.args(["--cargo-test-arg=-Zunstable-options", "--cargo-test-arg=--fail-fast"]);
    // The sources are a copy under another name each time; what they depend on stays built.
    mutants.env("CARGO_TARGET_DIR", workspace::scratch().join("mutants/target"));
    mutants.env("PROPTEST_CASES", CASES).env("PROPTEST_MAX_SHRINK_ITERS", "0");
    mutants
}

/// The names of the mutants that met each end.
struct Ends {
    caught: Vec<String>,
    timeout: Vec<String>,
    unviable: Vec<String>,
    missed: Vec<String>,
}

impl Ends {
    /// Forgets all others.
    fn keep(&mut self, names: &[String]) {
        let Self { caught, timeout, unviable, missed } = self;
        for end in [caught, timeout, unviable, missed] {
            end.retain(|name| names.contains(name));
        }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { caught, timeout, unviable, missed } = self;
        write!(f, "{} caught, {} endless, ", caught.len(), timeout.len())?;
        write!(f, "{} do not compile, {} survived", unviable.len(), missed.len())
    }
}

fn pass(mut mutants: Command, out: &Path) -> Result<Ends> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    mutants.arg("--output").arg(out);
    // 2: some mutants survived. 3: some ran out of time.
    let status = mutants.status().context("cannot start cargo mutants")?;
    ensure!(matches!(status.code(), Some(0 | 2 | 3)), "`{}` failed", workspace::shown(&mutants));
    let lines = |end: &str| -> Result<Vec<String>> {
        let path = out.join(format!("mutants.out/{end}.txt"));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    Ok(Ends {
        caught: lines("caught")?,
        timeout: lines("timeout")?,
        unviable: lines("unviable")?,
        missed: lines("missed")?,
    })
}

/// A pattern of this text and no other.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}
