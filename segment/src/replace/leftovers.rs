//! What a crash in the middle of a replacement left, and how to go on from there.

use alluvium_record_format::Offset;

use crate::error::{IoOp, SegmentError};
use crate::names::{FileKind, SegmentFileName, Suffix};
use crate::partition_dir::PartitionDir;

/// One change of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileStep {
    /// The file is removed.
    Remove(SegmentFileName),
    /// The file loses its suffix, and takes the place of what has that name.
    Restore(SegmentFileName),
}

impl FileStep {
    /// Makes the change.
    ///
    /// # Errors
    ///
    /// `ReadOnly`; `Gone` if the file is not there; `Io`.
    pub fn run(self, dir: &PartitionDir) -> Result<(), SegmentError> {
        dir.lock()?;
        let changed = match self {
            Self::Remove(name) => {
                let path = dir.file_path(name);
                dir.io().remove(&path).map_err(|e| SegmentError::file(IoOp::Remove, &path, e))
            }
            Self::Restore(name) => {
                let from = dir.file_path(name);
                let to = dir.file_path(name.with_suffix(Suffix::None));
                let renamed = dir.io().rename(&from, &to);
                renamed.map_err(|e| SegmentError::file(IoOp::Rename, &from, e))
            }
        };
        dir.names_changed();
        changed
    }
}

/// Decides what to do with the files of a directory before its segments are opened. Changes
/// nothing; the steps are to be run in order.
///
/// `names` are the regular files that are named like files of a segment. `swap_end` is asked for
/// the next offset of a segment whose log has the suffix `.swap`; it is not asked for one that
/// goes.
///
/// Source: `LogLoader.removeTempFilesAndCollectSwapFiles` and `LogLoader.load` in Kafka;
/// `docs/format/segment.md#swap`.
///
/// # Errors
///
/// What `swap_end` returns.
pub fn plan_leftovers<E>(
    names: &[SegmentFileName],
    mut swap_end: impl FnMut(Offset) -> Result<Offset, E>,
) -> Result<Vec<FileStep>, E> {
    let with = |suffix: Suffix| names.iter().copied().filter(move |name| name.suffix == suffix);
    let first_cleaned = with(Suffix::Cleaned).map(|name| name.offset).min();
    let is_unfinished =
        |name: &SegmentFileName| first_cleaned.is_some_and(|cleaned| name.offset >= cleaned);
    let mut steps: Vec<_> = with(Suffix::Deleted).map(FileStep::Remove).collect();
    steps.extend(with(Suffix::Swap).filter(is_unfinished).map(FileStep::Remove));
    steps.extend(with(Suffix::Cleaned).map(FileStep::Remove));

    let swaps = || with(Suffix::Swap).filter(|name| !is_unfinished(name));
    let mut range: Option<(Offset, Offset)> = None;
    for log in swaps().filter(|name| name.kind == FileKind::Log) {
        let end = swap_end(log.offset)?;
        range = Some(match range {
            Some((first, last)) => (first.min(log.offset), last.max(end)),
            None => (log.offset, end),
        });
    }
    if let Some((first, end)) = range {
        // Kafka removes snapshots of producer state too; they are of use wherever they lie.
        let covered = |name: &SegmentFileName| {
            name.kind != FileKind::Snapshot && name.offset >= first && name.offset < end
        };
        steps.extend(with(Suffix::None).filter(covered).map(FileStep::Remove));
    }
    steps.extend(swaps().map(FileStep::Restore));
    Ok(steps)
}
