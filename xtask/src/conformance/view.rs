//! `dump --format jsonl` against what a consumer saw, in both isolation levels.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::binary::Alluvium;
use crate::tally::{Tally, same_text};
use crate::workspace::{entries, name};

/// Compares every view of `views` with the partition of that name in `disk`.
pub(super) fn check(
    alluvium: &Alluvium,
    disk: &Path,
    views: &Path,
    tally: &mut Tally,
) -> Result<()> {
    for view in entries(views)? {
        for isolation in ["read_uncommitted", "read_committed"] {
            let file = name(&view);
            let Some(partition) = file.strip_suffix(&format!(".{isolation}.jsonl")) else {
                continue;
            };
            let result = compare(alluvium, disk, partition, isolation, &view);
            tally.check(&format!("{} view of {partition}, {isolation}", name(disk)), result);
        }
    }
    Ok(())
}

fn compare(
    alluvium: &Alluvium,
    disk: &Path,
    partition: &str,
    isolation: &str,
    theirs: &Path,
) -> Result<()> {
    let theirs = fs::read(theirs).with_context(|| format!("cannot read {}", theirs.display()))?;
    let args = ["dump", "--format", "jsonl", "--isolation", isolation, partition];
    same_text(&alluvium.stdout(disk, &args)?, &theirs)
}
