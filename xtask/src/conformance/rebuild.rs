//! Indexes rebuilt from their log, against the files that Kafka left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use alluvium_record_format::{Entries, Entry, Offset, Position};
use alluvium_recovery::{CheckpointKind, OffsetCheckpoint, TopicPartition};
use alluvium_segment::Io;
use alluvium_sparse_index::{BatchInfo, BuiltIndexes, IndexBuilder};
use anyhow::{Context, Result};

use super::topics::Topics;
use crate::tally::{Tally, same_bytes};
use crate::workspace::{entries, name};

/// Compares both indexes of every segment in `disk`.
///
/// A segment that went on growing after a restart of the broker has indexes that no rebuild
/// gives: the broker counts the interval from zero again, and the clean stop before has added a
/// time entry. Unless recovery rebuilt it: that is so from the recovery point on, of which
/// `unclean` has the checkpoint.
pub(super) fn check(
    disk: &Path,
    unclean: Option<&Path>,
    topics: &Topics,
    tally: &mut Tally,
) -> Result<()> {
    let recovered_from = match unclean {
        Some(unclean) => {
            OffsetCheckpoint::read(&Io::new(), CheckpointKind::RecoveryPoint, unclean)?
        }
        None => OffsetCheckpoint::default(),
    };
    for partition in entries(disk)?.into_iter().filter(|path| path.is_dir()) {
        let text = name(&partition);
        let interval = topics.get(&text, "index.interval.bytes").unwrap_or("4096");
        let interval = interval.parse().context("index.interval.bytes is no number")?;
        let recovered_from = partition_key(&text).and_then(|key| recovered_from.offset(&key));
        for log in entries(&partition)? {
            if log.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let what = format!("{}/{text}/{}", name(disk), name(&log));
            match rebuild(&log, interval) {
                Ok(built) => {
                    let may_differ = built.grew_after_restart && !built.ends_above(recovered_from);
                    compare_both(&log, &what, &built.indexes, may_differ, tally);
                }
                Err(error) => tally.check(&format!("indexes rebuilt from {what}"), Err(error)),
            }
        }
    }
    Ok(())
}

fn compare_both(log: &Path, what: &str, built: &BuiltIndexes, may_differ: bool, tally: &mut Tally) {
    for (kind, ours) in [("index", &built.offset_index), ("timeindex", &built.time_index)] {
        let what = format!("{kind} rebuilt from {what}");
        match compare(log, kind, ours) {
            Err(_) if may_differ => tally.skip(&what, "it grew after a restart, unrecovered"),
            result => tally.check(&what, result),
        }
    }
}

fn partition_key(text: &str) -> Option<TopicPartition> {
    let (topic, number) = text.rsplit_once('-')?;
    Some(TopicPartition::new(topic, number.parse().ok()?))
}

/// What came of one log.
struct Rebuilt {
    indexes: BuiltIndexes,
    next_offset: Offset,
    grew_after_restart: bool,
}

impl Rebuilt {
    /// Whether recovery from `point` on looked at the segment.
    fn ends_above(&self, point: Option<Offset>) -> bool {
        point.is_some_and(|point| self.next_offset > point)
    }
}

fn rebuild(log: &Path, interval_bytes: u32) -> Result<Rebuilt> {
    let bytes = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let base = name(log).trim_end_matches(".log").parse().context("a log is named by an offset")?;
    let mut next_offset = Offset::new(base);
    let mut builder = IndexBuilder::new(next_offset, interval_bytes);
    let mut epochs = BTreeSet::new();
    for entry in Entries::new(&bytes, Position::new(0)) {
        if let Entry::Batch(batch) = entry? {
            builder.push(BatchInfo::from_header(batch.header(), batch.position()))?;
            next_offset = batch.header().next_offset();
            // A broker that starts again leads in a new epoch.
            epochs.insert(batch.header().leader_epoch());
        }
    }
    let grew_after_restart = epochs.len() > 1;
    Ok(Rebuilt { indexes: builder.finish()?, next_offset, grew_after_restart })
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
