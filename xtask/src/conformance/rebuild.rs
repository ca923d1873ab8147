//! Indexes rebuilt from their log, against the files that Kafka left.

use std::fs;
use std::path::Path;

use alluvium_record_format::{Entries, Entry, Offset, Position};
use alluvium_sparse_index::{BatchInfo, BuiltIndexes, IndexBuilder};
use anyhow::{Context, Result};

use super::topics::Topics;
use crate::tally::{Tally, same_bytes};
use crate::workspace::{entries, name};

/// Compares both indexes of every segment in `disk`.
pub(super) fn check(disk: &Path, topics: &Topics, tally: &mut Tally) -> Result<()> {
    for partition in entries(disk)?.into_iter().filter(|path| path.is_dir()) {
        let interval = topics.get(&name(&partition), "index.interval.bytes").unwrap_or("4096");
        let interval = interval.parse().context("index.interval.bytes is no number")?;
        for log in entries(&partition)? {
            if log.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let what = format!("{}/{}/{}", name(disk), name(&partition), name(&log));
            match rebuild(&log, interval) {
                Ok(built) => {
                    let pairs = [("index", built.offset_index), ("timeindex", built.time_index)];
                    for (kind, ours) in pairs {
                        tally.check(
                            &format!("{kind} rebuilt from {what}"),
                            compare(&log, kind, &ours),
                        );
                    }
                }
                Err(error) => tally.check(&format!("indexes rebuilt from {what}"), Err(error)),
            }
        }
    }
    Ok(())
}

fn rebuild(log: &Path, interval_bytes: u32) -> Result<BuiltIndexes> {
    let bytes = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let base = name(log).trim_end_matches(".log").parse().context("a log is named by an offset")?;
    let mut builder = IndexBuilder::new(Offset::new(base), interval_bytes);
    for entry in Entries::new(&bytes, Position::new(0)) {
        if let Entry::Batch(batch) = entry? {
            builder.push(BatchInfo::from_header(batch.header(), batch.position()))?;
        }
    }
    Ok(builder.finish()?)
}

fn compare(log: &Path, kind: &str, ours: &[u8]) -> Result<()> {
    let path = log.with_extension(kind);
    let mut theirs = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let entry = if kind == "index" { OFFSET_ENTRY } else { TIME_ENTRY };
    let mut ours = ours;
    if let Some(used) = before_padding(&theirs, entry) {
        // The file was never trimmed, so its segment was never closed: the last entry of the
        // time index, which closing adds, may be missing.
        theirs.truncate(used);
        if kind == "timeindex" && ours.len() == used + entry {
            ours = &ours[..used];
        }
    }
    same_bytes(ours, &theirs)
}

const OFFSET_ENTRY: usize = 8;
const TIME_ENTRY: usize = 12;

/// Where the zeros begin that fill a file up, if they do: no entry of an index is all zeros but
/// those.
fn before_padding(bytes: &[u8], entry: usize) -> Option<usize> {
    let used = bytes.chunks_exact(entry).position(|entry| entry.iter().all(|&byte| byte == 0))?;
    let used = used * entry;
    bytes[used..].iter().all(|&byte| byte == 0).then_some(used)
}
