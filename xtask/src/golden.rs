//! `golden`: remakes the repository's own fixtures with a real Kafka.

mod check;
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

/// The sets that `conformance` takes: the name of each file without its `.tar.zst`.
const DISKS: [&str; 2] = ["disk", "legacy"];

/// All sets.
const SETS: [&str; 4] = ["disk", "legacy", "traces", "compaction"];

/// What Kafka takes and refuses: a table that is asked about anew.
const SETTINGS: &str = "log-manager/tests/golden/4.4.0/settings.tsv";

/// Makes everything anew, and puts it in the place of what stands in the repository; with
/// `check`, compares the two instead, as far as two makings are alike.
///
/// # Errors
///
/// When Kafka is not to be had, or something goes wrong in it; when what stands differs.
pub(crate) fn run(check: bool) -> Result<()> {
    let kafka = Kafka::ready()?;
    let work = workspace::scratch().join("golden");
    workspace::empty_dir(&work)?;
    driven(&kafka, "harness.Traces", &work.join("traces"))?;
    driven(&kafka, "harness.Cleanings", &work.join("compaction"))?;
    legacy::make(&kafka, &work.join("legacy"))?;
    disk::make(&kafka, SEED, &work)?;
    println!("golden: harness.Settings");
    let (settings, answers) = (workspace::root().join(SETTINGS), work.join("settings.tsv"));
    workspace::run(kafka.java("harness.Settings").arg(&settings).arg(&answers))?;
    if check {
        return check::compare(&work);
    }
    fs::copy(&answers, &settings)
        .with_context(|| format!("cannot write {}", settings.display()))?;
    for set in SETS {
        let file = packed(set);
        pack::pack(&work.join(set), &file)?;
        let bytes = fs::metadata(&file).with_context(|| format!("no {}", file.display()))?.len();
        println!("golden: {} is {} KiB", file.display(), bytes / 1024);
    }
    Ok(())
}

/// A set that one of our programs makes with Kafka's classes, without a broker.
fn driven(kafka: &Kafka, main: &str, out: &Path) -> Result<()> {
    println!("golden: {main}");
    workspace::run(kafka.java(main).arg(SEED.to_string()).arg(out))
}

/// Unpacks the disks and returns their folders, in the form that `conformance` takes.
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
    DISKS.into_iter().map(unpack).collect()
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
