//! `semver`: what the libraries show to their users, beside what an older commit showed.
//!
//! Both sides come from rustdoc's own description of the public items (JSON, which the compiler of
//! the workspace writes if told that it may). Names, signatures, bounds, implemented traits and
//! `#[non_exhaustive]` are compared; what a function does is not.

mod surface;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use self::surface::Surface;
use crate::{flags, workspace};

/// Compares and prints each difference.
///
/// # Errors
///
/// When a crate breaks its users under a version that promises not to.
pub(crate) fn run(flags: &flags::Semver) -> Result<()> {
    let packages: Vec<String> = workspace::packages()?
        .into_iter()
        .filter(|package| package.is_published() && package.name != "alluvium")
        .map(|package| package.name)
        .filter(|name| flags.package.as_ref().is_none_or(|only| only == name))
        .collect();
    let home = workspace::scratch().join("semver");
    let (tree, target) = (home.join("tree"), home.join("target"));
    // In one place, one after the other: what others wrote is compiled once.
    unpack(&flags.baseline, &home, &tree)?;
    let old = describe(&tree, &target, &packages)?;
    copy_here(&tree)?;
    let new = describe(&tree, &target, &packages)?;
    let mut broken = 0;
    for (name, new) in &new {
        match old.get(name) {
            Some(old) => broken += usize::from(!compare(name, old, new)),
            None => println!("{name}: not there in {}", flags.baseline),
        }
    }
    if broken > 0 {
        bail!("{broken} crates break their users: raise the version, and say so in the CHANGELOG");
    }
    Ok(())
}

/// Puts the sources of a commit into a folder.
fn unpack(commit: &str, home: &Path, tree: &Path) -> Result<()> {
    workspace::empty_dir(tree)?;
    let archive = home.join("tree.tar");
    let mut git = workspace::command("git");
    git.args(["archive", "--format", "tar", "--output"]).arg(&archive).arg(commit);
    workspace::run(&mut git)?;
    let mut tar = workspace::command("tar");
    // As new as they look: cargo would take what it has built of other sources for theirs.
    tar.args(["--extract", "--touch", "--file"]).arg(&archive).arg("--directory").arg(tree);
    workspace::run(&mut tar)
}

/// Puts the sources as they are now into a folder.
fn copy_here(tree: &Path) -> Result<()> {
    workspace::empty_dir(tree)?;
    for path in workspace::files()? {
        let (from, to) = (workspace::root().join(&path), tree.join(&path));
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

/// What the libraries of the workspace at `root` show.
fn describe(root: &Path, target: &Path, packages: &[String]) -> Result<BTreeMap<String, Surface>> {
    let mut doc = workspace::cargo();
    doc.current_dir(root).env("CARGO_TARGET_DIR", target);
    doc.env("RUSTC_BOOTSTRAP", "1").env("RUSTDOCFLAGS", "-Zunstable-options --output-format json");
    doc.args(["doc", "--quiet", "--no-deps", "--all-features", "--lib"]);
    workspace::run(doc.args(packages.iter().flat_map(|name| ["--package", name])))?;
    let mut found = BTreeMap::new();
    for name in packages {
        let path = target.join("doc").join(format!("{}.json", name.replace('-', "_")));
        let json = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let surface = Surface::read(&json).with_context(|| path.display().to_string())?;
        found.insert(name.clone(), surface);
    }
    Ok(found)
}

/// What users of the old must change for the new.
fn breaks(old: &Surface, new: &Surface) -> Vec<String> {
    let mut breaks = Vec::new();
    for (item, shape) in &old.items {
        match new.items.get(item) {
            None => breaks.push(format!("gone: {item}")),
            Some(now) if now != shape => breaks.push(format!("changed: {item}")),
            Some(_) => {}
        }
    }
    for (item, shape) in &new.items {
        if shape.breaks_when_added && !old.items.contains_key(item) && old.holds(owner(item)) {
            breaks.push(format!("added, and users must follow: {item}"));
        }
    }
    breaks
}

/// The path of the enum or trait that this is a member of.
fn owner(item: &str) -> &str {
    item.rsplit_once("::").map_or(item, |(owner, _)| owner)
}

/// Prints how a crate differs; returns whether its version allows that.
fn compare(name: &str, old: &Surface, new: &Surface) -> bool {
    let breaks = breaks(old, new);
    let added = new.items.keys().filter(|item| !old.items.contains_key(*item)).count();
    let allowed = breaks.is_empty() || may_break(&old.version, &new.version);
    println!(
        "{name} {} -> {}: {} items, {} added, {} breaking{}",
        old.version,
        new.version,
        new.items.len(),
        added,
        breaks.len(),
        if allowed { "" } else { ", which this version does not allow" },
    );
    for line in breaks {
        println!("  {line}");
    }
    allowed
}

/// Whether the step from one version to the next allows a break: the first number that is not 0
/// rises.
fn may_break(old: &str, new: &str) -> bool {
    let significant = |version: &str| -> Vec<u64> {
        let numbers: Vec<u64> =
            version.split('.').map_while(|number| number.parse().ok()).collect();
        let leading = numbers.iter().take_while(|number| **number == 0).count();
        numbers.into_iter().take(leading + 1).collect()
    };
    significant(old) != significant(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_variant_breaks_users_of_an_enum_that_was_there_alone() {
        let old = Surface::of([("a::Old (enum)", false), ("a::Old::One (variant)", true)]);
        let mut now = vec![("a::Old (enum)", false), ("a::Old::One (variant)", true)];
        now.extend([("a::New (enum)", false), ("a::New::One (variant)", true)]);
        assert_eq!(breaks(&old, &Surface::of(now.clone())), [""; 0]);
        now.push(("a::Old::Two (variant)", true));
        let text = "added, and users must follow: a::Old::Two (variant)";
        assert_eq!(breaks(&old, &Surface::of(now.clone())), [text]);
        now.remove(1);
        assert_eq!(breaks(&old, &Surface::of(now))[0], "gone: a::Old::One (variant)");
    }

    #[test]
    fn only_the_first_number_that_is_not_0_allows_a_break() {
        assert!(may_break("0.1.4", "0.2.0"));
        assert!(may_break("1.9.0", "2.0.0"));
        assert!(!may_break("0.1.4", "0.1.5"));
        assert!(!may_break("1.1.0", "1.2.0"));
    }
}
