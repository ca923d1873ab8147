//! Whether what stands in the repository is what a fresh run gives.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{SETS, SETTINGS, pack, packed};
use crate::tally::{Tally, same_bytes};
use crate::workspace::{self, entries, name};

/// Topics of the disk that come out the same: one producer, no clock, no coordinator, no cleaner.
const STEADY: [&str; 8] = [
    "by-time",
    "codec-gzip",
    "codec-lz4",
    "codec-snappy",
    "codec-zstd",
    "plain",
    "recompressed",
    "trimmed",
];

/// Compares every set with what `work` holds of it.
///
/// # Errors
///
/// When one differs, or cannot be unpacked.
pub(super) fn compare(work: &Path) -> Result<()> {
    let mut tally = Tally::default();
    for set in SETS {
        let stands = workspace::scratch().join("golden-unpacked").join(set);
        pack::unpack(&packed(set), &stands)?;
        let fresh = work.join(set);
        if set == "disk" {
            for topic in STEADY {
                for kind in ["read_uncommitted", "read_committed", "offsets-for-times"] {
                    let file = PathBuf::from(format!("view/{topic}-0.{kind}.jsonl"));
                    tally.check(&file.display().to_string(), same(&stands, &fresh, &file));
                }
            }
            tally.skip("all else of disk", "ids, times and background work differ each time");
            continue;
        }
        let files = |root: &Path| -> Result<BTreeSet<PathBuf>> {
            let mut found = BTreeSet::new();
            list(root, Path::new(""), &mut found)?;
            Ok(found)
        };
        for file in files(&stands)?.union(&files(&fresh)?) {
            tally.check(&format!("{set}/{}", file.display()), same(&stands, &fresh, file));
        }
    }
    let table = Path::new(SETTINGS);
    let read = |path: &Path| fs::read(path).with_context(|| format!("no {}", path.display()));
    let stands = read(&workspace::root().join(table))?;
    let fresh = read(&work.join("settings.tsv"))?;
    tally.check(SETTINGS, same_bytes(&stands, &fresh).context("Kafka says otherwise"));
    tally.finish()
}

/// Every file below `root`, by its path from there.
fn list(root: &Path, at: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    for path in entries(&root.join(at))? {
        let below = at.join(name(&path));
        if path.is_dir() {
            list(root, &below, found)?;
        } else {
            found.insert(below);
        }
    }
    Ok(())
}

fn same(stands: &Path, fresh: &Path, file: &Path) -> Result<()> {
    let read = |root: &Path| {
        let path = root.join(file);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (stands, fresh) = (read(stands)?, read(fresh)?);
    ensure!(!fresh.is_empty() || stands.is_empty(), "a fresh run leaves it empty");
    same_bytes(&stands, &fresh).context("what stands in the repository is another")
}
