//! The producer snapshots of a log that is being loaded.
//!
//! Recovery drops the snapshots behind a segment before it reads the segment, writes one at its
//! end, and drops that again where no segment begins. All of this happens in memory; what is left
//! at the end of the load is brought to the disk. A load that finds everything in order changes
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use alluvium_record_format::Offset;

use super::directory::Directory;
use super::{Change, Reason};
use crate::producers::snapshot_name;
use crate::snapshot::decode;
use crate::{FileError, ProducerEntry, SnapshotStore};

/// The snapshots of a directory, to be read alone: what is written or removed is forgotten with it.
///
/// A segment that counts as synced is only read for its indexes. The snapshots behind it stay as
/// they are: they may know producers whose batches the cleaner has removed.
pub(super) struct Scratch<'d> {
    pub(super) directory: &'d mut Directory,
    in_view: BTreeSet<Offset>,
}

impl<'d> Scratch<'d> {
    pub(super) fn new(directory: &'d mut Directory) -> Self {
        let in_view = directory.snapshots.in_view.clone();
        Self { directory, in_view }
    }
}

impl SnapshotStore for Scratch<'_> {
    fn offsets(&self) -> &BTreeSet<Offset> {
        &self.in_view
    }

    fn read(&self, offset: Offset) -> Result<Vec<ProducerEntry>, FileError> {
        SnapshotStore::read(self.directory, offset)
    }

    fn write(&mut self, _: Offset, _: &[u8], _: bool) -> Result<(), FileError> {
        Ok(())
    }

    fn remove(&mut self, offset: Offset, _: &'static str) -> Result<(), FileError> {
        self.in_view.remove(&offset);
        Ok(())
    }
}

/// The snapshots as they should be.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    pub(super) in_view: BTreeSet<Offset>,
    /// New or changed ones in view.
    written: BTreeMap<Offset, Vec<u8>>,
    /// Files that are not in view any more.
    dropped: BTreeMap<Offset, &'static str>,
}

impl Directory {
    /// Brings the snapshots on disk to what they should be.
    pub(super) fn settle_snapshots(&mut self) -> Result<(), FileError> {
        for (offset, bytes) in std::mem::take(&mut self.snapshots.written) {
            let name = snapshot_name(offset);
            if !self.has_same_producers(offset, &bytes)? {
                self.write(name, bytes, Reason::ProducerState, false)?;
            }
        }
        for (offset, why) in std::mem::take(&mut self.snapshots.dropped) {
            self.change(Change::Remove(snapshot_name(offset)), Reason::Snapshot(why))?;
            tracing::info!(offset = offset.get(), why, "Deleted producer state snapshot");
        }
        Ok(())
    }

    /// Whether the file of a snapshot holds these producers: their order means nothing.
    fn has_same_producers(&self, offset: Offset, bytes: &[u8]) -> Result<bool, FileError> {
        let there = match self.read_snapshot(snapshot_name(offset)) {
            // Larger than it says of itself.
            Err(FileError::Corrupt { .. }) => return Ok(false),
            there => there?,
        };
        let sorted = |bytes: &[u8]| {
            let mut entries = decode(bytes).ok()?;
            entries.sort_by_key(|entry| entry.producer_id);
            Some(entries)
        };
        let is_same_len = there.len() == bytes.len();
        Ok(is_same_len && sorted(&there).is_some_and(|there| Some(there) == sorted(bytes)))
    }
}

impl SnapshotStore for Directory {
    fn offsets(&self) -> &BTreeSet<Offset> {
        &self.snapshots.in_view
    }

    fn read(&self, offset: Offset) -> Result<Vec<ProducerEntry>, FileError> {
        let name = snapshot_name(offset);
        let corrupt = |e| FileError::corrupt(&self.dir().file_path(name), e);
        if let Some(bytes) = self.snapshots.written.get(&offset) {
            return decode(bytes).map_err(corrupt);
        }
        decode(&self.read_snapshot(name)?).map_err(corrupt)
    }

    fn write(&mut self, offset: Offset, bytes: &[u8], _sync: bool) -> Result<(), FileError> {
        self.snapshots.dropped.remove(&offset);
        self.snapshots.written.insert(offset, bytes.to_vec());
        self.snapshots.in_view.insert(offset);
        Ok(())
    }

    fn remove(&mut self, offset: Offset, why: &'static str) -> Result<(), FileError> {
        self.snapshots.in_view.remove(&offset);
        self.snapshots.written.remove(&offset);
        if self.is_there(snapshot_name(offset)) {
            self.snapshots.dropped.insert(offset, why);
        }
        Ok(())
    }
}
