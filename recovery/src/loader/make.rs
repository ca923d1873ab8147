//! Makes the changes of a load on disk.

use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_segment::replace::{Replacement, split_overflowed};
use alluvium_segment::{PartitionDir, Segment, SegmentConfig, SegmentError, Suffix};

use super::{Change, Step};
use crate::durable::{remove, rename, replace_unsynced, set_len, sync_directory};
use crate::{FileError, LeaderEpochCache, encode_epochs, replace_file};

/// A step, with what is needed to make it.
#[derive(Clone, Debug)]
pub(super) struct PlannedStep {
    pub(super) step: Step,
    /// The content of a file that is written.
    pub(super) content: Arc<[u8]>,
    /// Whether that content is made durable at once.
    pub(super) sync: bool,
}

impl PlannedStep {
    /// Makes the change, unless it is a split. Each is atomic, except a cut, which loses nothing
    /// of what stays.
    pub(super) fn make(&self, dir: &Arc<PartitionDir>) -> Result<(), FileError> {
        let io = dir.io();
        let path = |file| dir.file_path(file);
        dir.names_changed();
        match &self.step.change {
            Change::Remove(file) => remove(io, &path(*file)),
            Change::Restore(file) => {
                rename(io, &path(*file), &path(file.with_suffix(Suffix::None)))
            }
            Change::MarkDeleted(file) => {
                rename(io, &path(*file), &path(file.with_suffix(Suffix::Deleted)))
            }
            Change::Cut { file, to_bytes, .. } => set_len(io, &path(*file), *to_bytes),
            Change::Write { file, .. } => {
                replace_unsynced(io, &path(*file), &self.content, self.sync)
            }
            Change::ClearEpochs => {
                let path = dir.path().join(LeaderEpochCache::FILE_NAME);
                replace_file(io, &path, encode_epochs(&[]).as_bytes())
            }
            Change::SyncNames => sync_directory(io, &dir.path()),
            Change::Split { .. } => Ok(()),
        }
    }
}

/// Splits a segment through `.cleaned` and `.swap`, so that a crash leaves the old or the new.
pub(super) fn split(
    dir: &Arc<PartitionDir>,
    base: Offset,
    config: SegmentConfig,
) -> Result<(), SegmentError> {
    let old = Segment::open(dir, base, config)?;
    let new = split_overflowed(&old, config)?;
    let mut replacement = Replacement::new(dir, new, vec![old])?;
    replacement.to_swap()?;
    replacement.retire()
}
