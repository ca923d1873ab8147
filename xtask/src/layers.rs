//! `layers`: dependencies between our crates point down, and manifests say what they must.

use anyhow::{Result, bail};

use crate::workspace::{self, Package};

/// Each of our crates, low to high, with the crates of ours that it may use: all of the stack
/// below it. `zerocopy-net` stands beside `recovery`, so that nothing of the stack may use it.
const MAY_USE: [(&str, &[&str]); 10] = [
    (RECORD_FORMAT, &[]),
    (SPARSE_INDEX, &[RECORD_FORMAT]),
    (SEGMENT, &[RECORD_FORMAT, SPARSE_INDEX]),
    (ZEROCOPY_NET, &[RECORD_FORMAT, SPARSE_INDEX, SEGMENT]),
    (RECOVERY, &[RECORD_FORMAT, SPARSE_INDEX, SEGMENT]),
    (LOG_MANAGER, &[RECORD_FORMAT, SPARSE_INDEX, SEGMENT, RECOVERY]),
    (CLEANER, &[RECORD_FORMAT, SPARSE_INDEX, SEGMENT, RECOVERY, LOG_MANAGER]),
    (PROGRAM, LIBRARIES),
    ("alluvium-broker", LIBRARIES),
    ("xtask", ALL),
];

const RECORD_FORMAT: &str = "alluvium-record-format";
const SPARSE_INDEX: &str = "alluvium-sparse-index";
const SEGMENT: &str = "alluvium-segment";
const ZEROCOPY_NET: &str = "alluvium-zerocopy-net";
const RECOVERY: &str = "alluvium-recovery";
const LOG_MANAGER: &str = "alluvium-log-manager";
const CLEANER: &str = "alluvium-cleaner";

/// The program; its library is there for its own tests.
const PROGRAM: &str = "alluvium";

/// What the program may use.
const LIBRARIES: &[&str] =
    &[RECORD_FORMAT, SPARSE_INDEX, SEGMENT, ZEROCOPY_NET, RECOVERY, LOG_MANAGER, CLEANER];

/// What the tasks may use.
const ALL: &[&str] =
    &[RECORD_FORMAT, SPARSE_INDEX, SEGMENT, ZEROCOPY_NET, RECOVERY, LOG_MANAGER, CLEANER, PROGRAM];

/// The most external, non-optional dependencies of a library crate.
const MAX_EXTERNAL: usize = 10;

/// Checks every crate of the workspace and prints each finding.
///
/// # Errors
///
/// When there is a finding.
pub(crate) fn run() -> Result<()> {
    let packages = workspace::packages()?;
    let mut findings = Vec::new();
    for package in &packages {
        check_arrows(package, &mut findings);
        if package.is_published() {
            check_manifest(package, &mut findings);
        }
    }
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings in the manifests; the layers stand in ARCHITECTURE.md", findings.len());
    }
    println!("layers: {} crates, every arrow points down", packages.len());
    Ok(())
}

fn check_arrows(package: &Package, findings: &mut Vec<String>) {
    let name = &package.name;
    let Some((_, may_use)) = MAY_USE.iter().find(|(of, _)| of == name) else {
        findings.push(format!("{name}: has no layer; give it one in xtask/src/layers.rs"));
        return;
    };
    for dependency in package.dependencies.iter().filter(|dependency| dependency.path.is_some()) {
        if !may_use.contains(&dependency.name.as_str()) {
            findings.push(format!("{name}: must not depend on {}", dependency.name));
        }
    }
}

fn check_manifest(package: &Package, findings: &mut Vec<String>) {
    let name = &package.name;
    let text = std::fs::read_to_string(&package.manifest_path).unwrap_or_default();
    let mut demand = |met: bool, what: &str| {
        if !met {
            findings.push(format!("{name}: {what}"));
        }
    };
    demand(
        package.description.as_ref().is_some_and(|text| text.ends_with('.')),
        "description: one sentence",
    );
    demand(package.readme.as_deref() == Some("README.md"), "readme = \"README.md\"");
    demand(package.license.is_some(), "license.workspace = true");
    demand(package.rust_version.is_some(), "rust-version.workspace = true");
    demand((1..=5).contains(&package.keywords.len()), "keywords: one to five");
    demand((1..=5).contains(&package.categories.len()), "categories: one to five");
    demand(text.lines().any(|line| line.starts_with("include = ")), "include = [...]");
    demand(text.contains("[lints]\nworkspace = true"), "[lints] workspace = true");
    demand(text.contains("[package.metadata.docs.rs]"), "[package.metadata.docs.rs] all-features");
    demand(package.dir().join("README.md").is_file(), "has no README.md");
    demand(package.dir().join("CHANGELOG.md").is_file(), "has no CHANGELOG.md");
    let external = package.dependencies.iter().filter(|dependency| {
        dependency.path.is_none() && !dependency.optional && dependency.kind.is_none()
    });
    let count = external.count();
    let is_library = package.name != PROGRAM;
    demand(
        !is_library || count <= MAX_EXTERNAL,
        &format!("{count} external dependencies, at most {MAX_EXTERNAL}"),
    );
}
