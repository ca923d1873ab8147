//! The snapshots of one log, and how state is taken from them and put into them.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{FileKind, PartitionDir, SegmentFileName, Suffix};

use crate::durable::{remove, rename, write_file};
use crate::snapshot::{encode_snapshot, read_snapshot};
use crate::{FileAction, FileError, ProducerEntry, ProducerState};

/// Where the snapshots of a log are kept.
///
/// A directory in use: [`SnapshotDir`]. The loader's plan keeps them in memory.
pub trait SnapshotStore {
    /// The offsets of all snapshots.
    fn offsets(&self) -> &BTreeSet<Offset>;

    /// Reads a snapshot.
    ///
    /// # Errors
    ///
    /// [`FileError`]; a corrupt one is to be removed and the one before to be taken.
    fn read(&self, offset: Offset) -> Result<Vec<ProducerEntry>, FileError>;

    /// Writes a snapshot, over one of the same offset; `sync` makes its bytes durable.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`].
    fn write(&mut self, offset: Offset, bytes: &[u8], sync: bool) -> Result<(), FileError>;

    /// Removes a snapshot; `why` is for the log.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`].
    fn remove(&mut self, offset: Offset, why: &'static str) -> Result<(), FileError>;

    /// The offset of the newest snapshot.
    fn newest(&self) -> Option<Offset> {
        self.offsets().last().copied()
    }
}

/// The snapshot files of a partition directory. Follows the directory when it is renamed.
#[derive(Clone, Debug)]
pub struct SnapshotDir {
    dir: Arc<PartitionDir>,
    offsets: BTreeSet<Offset>,
}

impl SnapshotDir {
    /// Lists the snapshots of a partition directory. Names that are not 20 digits are left alone.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`].
    pub fn open(dir: &Arc<PartitionDir>) -> Result<Self, FileError> {
        let path = dir.path();
        let failed = |e| FileError::io(&path, FileAction::List, e);
        let mut offsets = BTreeSet::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_str().and_then(SegmentFileName::parse);
            offsets.extend(name.filter(is_snapshot).map(|name| name.offset));
        }
        Ok(Self::with_offsets(dir, offsets))
    }

    /// The snapshots of a directory that was listed already.
    #[must_use]
    pub fn with_offsets(dir: &Arc<PartitionDir>, offsets: BTreeSet<Offset>) -> Self {
        Self { dir: Arc::clone(dir), offsets }
    }

    /// Takes those of these snapshots that are there out of the list, as a list of its own. Their
    /// files stay.
    #[must_use]
    pub fn take(&mut self, offsets: impl IntoIterator<Item = Offset>) -> Self {
        let taken = offsets.into_iter().filter(|offset| self.offsets.remove(offset)).collect();
        Self::with_offsets(&self.dir, taken)
    }

    /// Renames a snapshot for a later deletion, as its segment is; returns the new name.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`].
    pub fn mark_deleted(&mut self, offset: Offset) -> Result<Option<SegmentFileName>, FileError> {
        if !self.offsets.remove(&offset) {
            return Ok(None);
        }
        let deleted = snapshot_name(offset).with_suffix(Suffix::Deleted);
        let to = self.dir.file_path(deleted);
        let renamed = rename(self.dir.io(), &self.path(offset), &to);
        self.dir.names_changed();
        match renamed {
            Ok(()) => Ok(Some(deleted)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Where the snapshot of an offset is.
    #[must_use]
    pub fn path(&self, offset: Offset) -> PathBuf {
        self.dir.file_path(snapshot_name(offset))
    }
}

impl SnapshotStore for SnapshotDir {
    fn offsets(&self) -> &BTreeSet<Offset> {
        &self.offsets
    }

    fn read(&self, offset: Offset) -> Result<Vec<ProducerEntry>, FileError> {
        read_snapshot(self.dir.io(), &self.path(offset))
    }

    fn write(&mut self, offset: Offset, bytes: &[u8], sync: bool) -> Result<(), FileError> {
        let written = write_file(self.dir.io(), &self.path(offset), bytes, sync);
        self.dir.names_changed();
        written?;
        self.offsets.insert(offset);
        Ok(())
    }

    fn remove(&mut self, offset: Offset, why: &'static str) -> Result<(), FileError> {
        let removed = remove(self.dir.io(), &self.path(offset));
        self.dir.names_changed();
        removed?;
        self.offsets.remove(&offset);
        tracing::info!(offset = offset.get(), why, "Deleted producer state snapshot");
        Ok(())
    }
}

impl ProducerState {
    /// Writes a snapshot if the state has moved on since the newest one; returns its offset.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]: the state counts as not written.
    pub fn take_snapshot(
        &mut self,
        snapshots: &mut impl SnapshotStore,
        sync: bool,
    ) -> Result<Option<Offset>, FileError> {
        if !self.is_snapshot_due() {
            return Ok(None);
        }
        let offset = self.map_end_offset();
        // Kafka's order is that of a hash map. Ours is the same for the same log.
        let mut producers: Vec<_> = self.producers().collect();
        producers.sort_unstable_by_key(|entry| entry.producer_id);
        snapshots.write(offset, &encode_snapshot(producers), sync)?;
        self.set_snapshot_offset(offset);
        tracing::debug!(
            offset = offset.get(),
            producers = self.producers().len(),
            "Wrote producer snapshot"
        );
        Ok(Some(offset))
    }

    /// Brings the state back to what it was at or before `log_end`: drops the snapshots outside
    /// `(log_start, log_end]`, then loads the newest sound one, unless the state is there already.
    ///
    /// Afterwards the log from [`map_end_offset`](Self::map_end_offset) to `log_end` is to be
    /// replayed.
    ///
    /// Source: `ProducerStateManager.truncateAndReload` in Kafka.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`].
    pub fn truncate_and_reload(
        &mut self,
        snapshots: &mut impl SnapshotStore,
        log_start: Offset,
        log_end: Offset,
        now: Timestamp,
    ) -> Result<(), FileError> {
        let offsets = snapshots.offsets();
        let above = (Bound::Excluded(log_end.max(log_start)), Bound::Unbounded);
        let outside = offsets.range(..=log_start).chain(offsets.range(above));
        #[cfg(alluvium_mutant)]
        let outside = outside.filter(|_| !alluvium_segment::mutant::is("trusted-snapshot"));
        let gone: Vec<_> = outside.copied().collect();
        for offset in gone {
            snapshots.remove(offset, "outside the log")?;
        }
        if self.map_end_offset() == log_end {
            self.on_log_start(log_start, snapshots.newest());
            return Ok(());
        }
        while let Some(offset) = snapshots.newest() {
            match snapshots.read(offset) {
                Ok(entries) => {
                    tracing::info!(offset = offset.get(), "Loading producer state from snapshot");
                    self.load_from_snapshot(offset, entries, now);
                    return Ok(());
                }
                Err(error @ FileError::Corrupt { .. }) => {
                    tracing::warn!(%error, "Failed to load producer snapshot");
                    snapshots.remove(offset, "corrupt")?;
                }
                Err(error) => return Err(error),
            }
        }
        self.reset(log_start);
        self.set_snapshot_offset(log_start);
        Ok(())
    }

    /// Removes the snapshots that belong to no segment, except the newest of them where it is not
    /// below the last segment: the one that a clean stop leaves at the log end.
    ///
    /// Source: `ProducerStateManager.removeStraySnapshots` in Kafka.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`].
    pub fn remove_stray_snapshots(
        snapshots: &mut impl SnapshotStore,
        segment_bases: &BTreeSet<Offset>,
    ) -> Result<(), FileError> {
        let mut strays: Vec<_> = snapshots.offsets().difference(segment_bases).copied().collect();
        if strays.last() >= segment_bases.last() {
            strays.pop();
        }
        for offset in strays {
            snapshots.remove(offset, "no segment begins there")?;
        }
        Ok(())
    }

    fn load_from_snapshot(&mut self, offset: Offset, entries: Vec<ProducerEntry>, now: Timestamp) {
        let expired = self.load(offset, entries, now);
        if expired > 0 {
            tracing::info!(
                offset = offset.get(),
                expired,
                expiration_ms = self.config().producer_id_expiration_ms,
                "left out producers whose last record is older than producer.id.expiration.ms"
            );
        }
    }
}

/// The name of the snapshot of an offset.
pub(crate) const fn snapshot_name(offset: Offset) -> SegmentFileName {
    SegmentFileName::new(offset, FileKind::Snapshot)
}

/// Whether a file is a snapshot in use.
pub(crate) fn is_snapshot(name: &SegmentFileName) -> bool {
    name.kind == FileKind::Snapshot && name.suffix == Suffix::None
}
