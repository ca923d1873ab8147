//! `verify` finds nothing wrong on a disk that Kafka closed cleanly.

use std::path::Path;

use anyhow::{Result, bail};

use super::binary::Alluvium;
use crate::tally::Tally;
use crate::workspace::name;

/// Runs `verify` over the whole log directory.
pub(super) fn check(alluvium: &Alluvium, disk: &Path, tally: &mut Tally) {
    tally.check(&format!("verify {}", name(disk)), verify(alluvium, disk));
}

fn verify(alluvium: &Alluvium, disk: &Path) -> Result<()> {
    let out = alluvium.output(disk, &["verify", "."])?;
    if out.status.success() {
        return Ok(());
    }
    let text = [out.stdout, out.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let head = text.lines().take(3).collect::<Vec<_>>().join(" | ");
    bail!("{}, {head}", out.status)
}
