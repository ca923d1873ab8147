//! The producer snapshots of a log that is being loaded.
//!
//! Recovery drops the snapshots behind a segment before it reads the segment, and writes the one at
//! its end again, mostly with the same bytes. So a drop only hides the file until the end of the
//! load: a load that finds everything in order changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use alluvium_record_format::Offset;

use super::directory::Directory;
use super::{Change, Reason};
use crate::producers::snapshot_name;
use crate::snapshot::{MAX_SNAPSHOT_BYTES, decode};
use crate::{FileError, ProducerEntry, SnapshotStore};

/// The snapshots in view, and those that are to go.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    pub(super) in_view: BTreeSet<Offset>,
    hidden: BTreeMap<Offset, &'static str>,
}

impl Directory {
    /// Removes the snapshots that have been dropped for good.
    pub(super) fn remove_hidden_snapshots(&mut self) -> Result<(), FileError> {
        for (offset, why) in std::mem::take(&mut self.snapshots.hidden) {
            self.change(Change::Remove(snapshot_name(offset)), Reason::Snapshot(why))?;
            tracing::info!(offset = offset.get(), why, "Deleted producer state snapshot");
        }
        Ok(())
    }
}

impl SnapshotStore for Directory {
    fn offsets(&self) -> &BTreeSet<Offset> {
        &self.snapshots.in_view
    }

    fn read(&self, offset: Offset) -> Result<Vec<ProducerEntry>, FileError> {
        let name = snapshot_name(offset);
        let bytes = Self::read(self, name, MAX_SNAPSHOT_BYTES)?;
        decode(&bytes).map_err(|e| FileError::corrupt(&self.dir().file_path(name), e))
    }

    fn write(&mut self, offset: Offset, bytes: &[u8], _sync: bool) -> Result<(), FileError> {
        let name = snapshot_name(offset);
        let was_hidden = self.snapshots.hidden.remove(&offset).is_some();
        if was_hidden && is_same(&Self::read(self, name, MAX_SNAPSHOT_BYTES)?, bytes) {
            self.snapshots.in_view.insert(offset);
            return Ok(());
        }
        Self::write(self, name, bytes.to_vec(), Reason::ProducerState)
    }

    fn remove(&mut self, offset: Offset, why: &'static str) -> Result<(), FileError> {
        self.snapshots.in_view.remove(&offset);
        self.snapshots.hidden.insert(offset, why);
        Ok(())
    }
}

/// Whether two snapshots hold the same producers: their order means nothing.
fn is_same(there: &[u8], new: &[u8]) -> bool {
    let sorted = |bytes: &[u8]| {
        let mut entries = decode(bytes).ok()?;
        entries.sort_by_key(|entry| entry.producer_id);
        Some(entries)
    };
    there.len() == new.len() && sorted(there).is_some_and(|there| Some(there) == sorted(new))
}
