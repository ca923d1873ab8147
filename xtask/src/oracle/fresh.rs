//! A disk that Kafka writes now, with another seed than the repository's.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::conformance::{self, Alluvium};
use crate::golden;
use crate::kafka::Kafka;
use crate::tally::Tally;

/// Makes the disk, checks everything that `conformance` knows, and returns its folder.
///
/// # Errors
///
/// When Kafka fails.
pub(super) fn check(
    kafka: &Kafka,
    alluvium: &Alluvium,
    seed: u64,
    work: &Path,
    tally: &mut Tally,
) -> Result<PathBuf> {
    println!("oracle: a fresh disk with seed {seed}");
    golden::make_disk(kafka, seed, work)?;
    let disk = work.join("disk");
    conformance::check(alluvium, &disk, tally)?;
    Ok(disk)
}
