//! `conformance`: what we say of a disk that Kafka wrote, against what Kafka said of it.
//!
//! A folder may hold any of `clean/`, `dump/`, `view/`, `unclean/`, `recovered/`,
//! `view-recovered/`, or be a folder of logs of the old formats with the text of Kafka's dump
//! tool beside each (`NAME.dump.txt` beside `NAME/`).

mod binary;
mod dump;
mod legacy;
mod times;
mod verify;
mod view;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::binary::Alluvium;
use crate::tally::Tally;

/// Checks every folder.
///
/// # Errors
///
/// When a check fails, or a folder holds nothing to check.
pub(crate) fn run(dirs: &[PathBuf]) -> Result<()> {
    let alluvium = Alluvium::build()?;
    let mut tally = Tally::default();
    for dir in dirs {
        let dir = dir.canonicalize().with_context(|| format!("cannot open {}", dir.display()))?;
        check(&alluvium, &dir, &mut tally)?;
    }
    tally.finish()
}

fn check(alluvium: &Alluvium, dir: &Path, tally: &mut Tally) -> Result<()> {
    let has = |name: &str| dir.join(name).is_dir();
    let before = tally.passed();
    if has("clean") {
        if has("dump") {
            dump::check(alluvium, dir, tally)?;
        }
        if has("view") {
            view::check(alluvium, &dir.join("clean"), &dir.join("view"), tally)?;
            times::check(alluvium, &dir.join("clean"), &dir.join("view"), tally)?;
        }
        verify::check(alluvium, &dir.join("clean"), tally);
    }
    if has("unclean") {
        tally.skip("recovery of unclean/", "the program has no `recover` yet");
    }
    legacy::check(alluvium, dir, tally)?;
    if tally.passed() == before && !has("clean") {
        bail!("{} holds nothing that can be checked", dir.display());
    }
    Ok(())
}

/// The entries of a folder, in order of name.
fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let read = std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut paths = Vec::new();
    for entry in read {
        paths.push(entry.with_context(|| format!("cannot list {}", dir.display()))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// The last part of a path as text.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
