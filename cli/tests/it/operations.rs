//! `docs/operations.md` against the code: the doctor's pitfalls, and the names of all metrics.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn page() -> String {
    fs::read_to_string(workspace().join("docs/operations.md")).unwrap()
}

/// The part of the page below a heading of the second level.
fn part(heading: &str) -> String {
    let page = page();
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap().to_owned()
}

#[test]
fn every_pitfall_of_the_doctor_has_an_entry_and_every_entry_a_pitfall() {
    let app = alluvium::command();
    let doctor = app.find_subcommand("doctor").unwrap();
    let ignore = doctor.get_arguments().find(|arg| arg.get_id() == "ignore").unwrap();
    let known: Vec<String> =
        ignore.get_possible_values().iter().map(|id| id.get_name().to_owned()).collect();
    let part = part("Pitfalls");
    let entries: Vec<&str> = part.split("\n### ").skip(1).collect();
    let headings: Vec<&str> = entries.iter().map(|entry| entry.lines().next().unwrap()).collect();
    assert_eq!(headings, known, "in the doctor's order");
    for entry in entries {
        for word in ["Look:", "Remedy:"] {
            assert!(entry.contains(word), "{word} is missing in {entry}");
        }
    }
}

/// Names that the crates give their metrics: constants in modules called `metrics`.
fn emitted() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["log-manager", "cleaner", "zerocopy-net"] {
        for file in sources(&workspace().join(folder).join("src")) {
            if file.file_name().unwrap() != "metrics.rs" {
                continue;
            }
            for line in fs::read_to_string(file).unwrap().lines() {
                let Some((_, rest)) = line.split_once(": &str = \"") else { continue };
                names.insert(rest.split('"').next().unwrap().to_owned());
            }
        }
    }
    names
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { dirs.push(path) } else { found.push(path) }
        }
    }
    found
}

/// The values of a key in the rules.
fn values(rules: &str, key: &str) -> Vec<String> {
    let lines = rules.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines.filter_map(|line| Some(line.strip_prefix(key)?.trim().to_owned())).collect()
}

#[test]
fn every_metric_has_an_alert_and_every_alert_a_metric_that_is_emitted() {
    let emitted = emitted();
    assert!(emitted.contains("log_offline_dirs"), "{emitted:?}");
    let rules = part("Alerts");
    let used: BTreeSet<String> = values(&rules, "expr:")
        .iter()
        .flat_map(|expr| expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with("log_") || word.starts_with("net_"))
        .map(str::to_owned)
        .collect();
    let missing: Vec<_> = emitted.difference(&used).collect();
    assert!(missing.is_empty(), "no alert in docs/operations.md for {missing:?}");
    let unknown: Vec<_> = used.difference(&emitted).collect();
    assert!(unknown.is_empty(), "docs/operations.md alerts on {unknown:?}, which nobody emits");
}

#[test]
fn every_rule_has_all_its_parts_and_a_name_of_its_own() {
    let rules = part("Alerts");
    let alerts = values(&rules, "alert:");
    let names: BTreeSet<_> = alerts.iter().collect();
    assert_eq!(names.len(), alerts.len());
    for key in ["expr:", "for:", "labels:", "annotations:"] {
        assert_eq!(values(&rules, key).len(), alerts.len(), "{key}");
    }
    for expr in values(&rules, "expr:") {
        let count = |bracket| expr.matches(bracket).count();
        assert_eq!(count('('), count(')'), "{expr}");
        assert_eq!(count('['), count(']'), "{expr}");
        // How sides match stands behind an operator that compares or joins, in front of a vector.
        for (before, after) in expr.match_indices(" on()").map(|(at, word)| {
            (&expr[..at], expr[at + word.len()..].trim_start_matches(" group_left()").trim_start())
        }) {
            assert!([">", "<", "==", "and"].iter().any(|it| before.ends_with(it)), "{expr}");
            assert!(after.starts_with('('), "{expr}");
        }
    }
}
