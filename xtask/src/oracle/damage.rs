//! Copies of partitions, each damaged in one way that a disk knows.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::kafka::copy_tree;
use crate::workspace::{entries, name};

/// One way to damage a log: where, as a share of its bytes, and how.
type Damage = (&'static str, fn(&mut Vec<u8>));

const DAMAGES: [Damage; 6] = [
    ("flip-early", |log| flip(log, 5, 1)),
    ("flip-middle", |log| flip(log, 2, 1)),
    ("flip-late", |log| flip(log, 10, 9)),
    ("cut", |log| log.truncate(log.len() - log.len() / 7)),
    ("zero-tail", |log| log.resize(log.len() + 4_096, 0)),
    ("noise-tail", |log| log.extend((0..999_u16).map(|at| at.wrapping_mul(193).to_be_bytes()[1]))),
];

/// Writes `to/PARTITION.DAMAGE-0/` for the partitions whose files are few.
///
/// # Errors
///
/// When a file cannot be read or written.
pub(super) fn make(disk: &Path, to: &Path) -> Result<()> {
    for partition in entries(disk)?.into_iter().filter(|path| path.is_dir()) {
        for (damage, apply) in DAMAGES {
            let copy = to.join(format!("{}.{damage}-0", name(&partition)));
            copy_tree(&partition, &copy)?;
            for log in
                entries(&copy)?.iter().filter(|path| path.extension().is_some_and(|e| e == "log"))
            {
                let mut bytes =
                    fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
                if !bytes.is_empty() {
                    apply(&mut bytes);
                    fs::write(log, bytes)
                        .with_context(|| format!("cannot write {}", log.display()))?;
                }
            }
        }
    }
    Ok(())
}

/// Flips the lowest bit of the byte `share / of` of the way in.
fn flip(log: &mut [u8], of: usize, share: usize) {
    let at = log.len() / of * share;
    if let Some(byte) = log.get_mut(at) {
        *byte ^= 1;
    }
}
