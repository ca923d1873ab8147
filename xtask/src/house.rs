//! `house`: rules of the house that no lint knows.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace;

/// The most lines of a Rust file.
const MAX_LINES: usize = 500;

/// Checks every file that git knows and prints each finding.
///
/// # Errors
///
/// When there is a finding.
pub(crate) fn run() -> Result<()> {
    let files = workspace::files()?;
    let mut findings = Vec::new();
    for path in &files {
        let Ok(text) = fs::read_to_string(workspace::root().join(path)) else { continue };
        check(path, &text, &mut findings);
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

fn check(path: &Path, text: &str, findings: &mut Vec<String>) {
    let shown = path.display();
    let name = path.file_name().unwrap_or_default();
    if path.extension().is_none_or(|extension| extension != "rs") {
        return;
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        findings
            .push(format!("{shown}: {lines} lines, at most {MAX_LINES}: find its parts a file"));
    }
    if ["mod.rs", "util.rs", "utils.rs", "common.rs", "helpers.rs"].iter().any(|bad| name == *bad) {
        findings.push(format!("{shown}: name the file after what is in it"));
    }
    if !text.starts_with("//!") && !text.starts_with("#![doc = include_str!") {
        findings.push(format!("{shown}: opens without `//!`"));
    }
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with(concat!("#[", "ignore")) {
            findings.push(format!("{shown}:{}: an ignored test tests nothing", index + 1));
        }
    }
}
