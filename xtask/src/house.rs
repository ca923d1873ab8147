//! `house`: rules of the house that no lint knows.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace;

/// The most lines of a Rust file.
const MAX_LINES: usize = 500;

/// Columns of a line. Code has them from rustfmt, which leaves comments alone.
const MAX_COLUMNS: usize = 100;

/// Names that say nothing of what is in the file.
const EMPTY_NAMES: [&str; 5] = ["mod.rs", "util.rs", "utils.rs", "common.rs", "helpers.rs"];

/// The files outside of tests that may hold unsafe code; ARCHITECTURE.md says what for.
const UNSAFE_FILES: [&str; 3] =
    ["segment/src/dir_lock.rs", "segment/src/sys.rs", "sparse-index/src/map.rs"];

/// Where only one machine looks. Written in two parts, so that this file keeps its own rule.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

/// Checks every file that git knows and prints each finding.
///
/// # Errors
///
/// When there is a finding.
pub(crate) fn run() -> Result<()> {
    let files = workspace::files()?;
    let index = fs::read_to_string(workspace::root().join("docs/README.md")).unwrap_or_default();
    let mut findings = Vec::new();
    for path in &files {
        check_index(path, &index, &mut findings);
        let Ok(text) = fs::read_to_string(workspace::root().join(path)) else { continue };
        check_paths(path, &text, &mut findings);
        if path.extension().is_some_and(|extension| extension == "rs") {
            check_rust(path, &text, &mut findings);
        }
    }
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings; the rules stand in CONTRIBUTING.md", findings.len());
    }
    println!("house: {} files keep the rules", files.len());
    Ok(())
}

/// Every page on a format stands in the index of the documentation.
fn check_index(path: &Path, index: &str, findings: &mut Vec<String>) {
    let page = path.strip_prefix("docs").ok().filter(|page| page.starts_with("format"));
    if page.is_some_and(|page| !index.contains(&format!("({})", page.display()))) {
        findings.push(format!("{}: has no line in docs/README.md", path.display()));
    }
}

fn check_paths(path: &Path, text: &str, findings: &mut Vec<String>) {
    for (index, line) in text.lines().enumerate() {
        if MACHINE_PATHS.iter().any(|machine| line.contains(machine)) {
            findings.push(format!("{}:{}: a path of one machine", path.display(), index + 1));
        }
    }
}

fn check_rust(path: &Path, text: &str, findings: &mut Vec<String>) {
    let shown = path.display();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        findings.push(format!("{shown}: {lines} lines, at most {MAX_LINES}: a file per role"));
    }
    let name = workspace::name(path);
    if EMPTY_NAMES.contains(&&*name) {
        findings.push(format!("{shown}: name the file after what is in it"));
    }
    if !text.starts_with("//!") && !text.starts_with("#![doc = include_str!") {
        findings.push(format!("{shown}: opens without `//!`"));
    }
    check_unsafe(path, text, findings);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with(concat!("#[", "ignore")) {
            findings.push(format!("{shown}:{}: an ignored test tests nothing", index + 1));
        }
        let is_comment = line.trim_start().starts_with("//") && !line.contains("https://");
        if is_comment && line.chars().count() > MAX_COLUMNS {
            findings
                .push(format!("{shown}:{}: a comment of over {MAX_COLUMNS} columns", index + 1));
        }
    }
}

/// Unsafe code outside of tests stands in a few files that somebody has read with care.
fn check_unsafe(path: &Path, text: &str, findings: &mut Vec<String>) {
    let in_crate = path.components().any(|part| part.as_os_str() == "src");
    if !in_crate || UNSAFE_FILES.iter().any(|allowed| path == Path::new(allowed)) {
        return;
    }
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if [concat!("unsafe", " {"), concat!("unsafe", " fn"), concat!("unsafe", " impl")]
            .iter()
            .any(|word| code.contains(word))
        {
            findings.push(format!("{}:{}: unsafe code", path.display(), index + 1));
        }
    }
}
