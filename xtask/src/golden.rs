//! `golden`: remakes the repository's own fixtures with a real Kafka.

mod disk;
mod legacy;
pub(crate) mod pack;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) use self::disk::make as make_disk;
use crate::kafka::{self, Kafka};
use crate::workspace;

/// The seed of the disk in the repository.
const SEED: u64 = 1;

/// The sets: the name of each file without its `.tar.zst`.
const SETS: [&str; 2] = ["disk", "legacy"];

/// Makes everything anew.
///
/// # Errors
///
/// When Kafka is not to be had, or something goes wrong in it.
pub(crate) fn run() -> Result<()> {
    let kafka = Kafka::ready()?;
    let work = workspace::scratch().join("golden");
    workspace::empty_dir(&work)?;
    disk::make(&kafka, SEED, &work)?;
    legacy::make(&kafka, &work.join("legacy"))?;
    for set in SETS {
        let file = packed(set);
        pack::pack(&work.join(set), &file)?;
        let bytes = fs::metadata(&file).with_context(|| format!("no {}", file.display()))?.len();
        println!("golden: {} is {} KiB", file.display(), bytes / 1024);
    }
    Ok(())
}

/// Unpacks every set and returns the folders, in the form that `conformance` takes.
///
/// # Errors
///
/// When a set cannot be unpacked.
pub(crate) fn unpacked() -> Result<Vec<PathBuf>> {
    let dir = workspace::scratch().join("golden-unpacked");
    let unpack = |set: &str| {
        let to = dir.join(set);
        pack::unpack(&packed(set), &to)?;
        Ok(to)
    };
    SETS.into_iter().map(unpack).collect()
}

/// Unpacks the traces and returns their folders, in the form that `replay` takes.
///
/// # Errors
///
/// When they cannot be unpacked.
pub(crate) fn traces() -> Result<Vec<PathBuf>> {
    let dir = workspace::scratch().join("golden-unpacked").join("traces");
    pack::unpack(&packed("traces"), &dir)?;
    let mut traces = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
        traces.push(entry?.path());
    }
    traces.sort();
    Ok(traces)
}

/// Unpacks the logs that Kafka's cleaner cleaned, in the form that `replay-compaction` takes.
///
/// # Errors
///
/// When they cannot be unpacked.
pub(crate) fn compaction() -> Result<PathBuf> {
    let dir = workspace::scratch().join("golden-unpacked").join("compaction");
    pack::unpack(&packed("compaction"), &dir)?;
    Ok(dir)
}

fn packed(set: &str) -> PathBuf {
    let dir = workspace::root().join("xtask/golden").join(kafka::VERSION);
    dir.join(Path::new(set).with_extension("tar.zst"))
}
