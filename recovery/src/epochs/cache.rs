//! The epochs of one log in memory: `docs/format/leader-epochs.md#rules`.

use std::path::Path;

use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_segment::Io;

use super::file::{self, EpochEntry};
use crate::{FileError, replace_file};

/// Which leader epoch begins at which offset of a log, both columns strictly rising.
///
/// Does no I/O: a change only makes the cache dirty. The owner takes
/// [`pending_write`](Self::pending_write) where a sync may wait, outside the log's lock, and must
/// have written it before the recovery point passes a new epoch's first offset. A file that lags
/// otherwise is harmless, as loading mends it.
///
/// Source: `LeaderEpochFileCache` in Kafka.
///
/// # Examples
///
/// ```
/// # use alluvium_recovery::LeaderEpochCache;
/// # use alluvium_record_format::{LeaderEpoch, Offset};
/// let mut epochs = LeaderEpochCache::default();
/// epochs.assign(LeaderEpoch::new(0), Offset::new(0));
/// epochs.assign(LeaderEpoch::new(2), Offset::new(500));
///
/// let end = epochs.end_offset_for(LeaderEpoch::new(1), Offset::new(900));
/// assert_eq!(end, Some((LeaderEpoch::new(0), Offset::new(500))));
/// ```
#[derive(Clone, Debug, Default)]
pub struct LeaderEpochCache {
    entries: Vec<EpochEntry>,
    generation: u64,
    written: u64,
}

/// The content that the epoch file should get, taken out of the log's lock.
#[derive(Clone, Debug)]
pub struct PendingEpochs {
    text: String,
    generation: u64,
}

impl PendingEpochs {
    /// Replaces the file of a partition directory, durably: see [`replace_file`].
    ///
    /// Of two writes in flight the later would undo the other: let one thread at a time write.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]; the cache stays dirty.
    pub fn write(&self, io: &Io, partition_dir: &Path) -> Result<(), FileError> {
        replace_file(io, &partition_dir.join(file::FILE_NAME), self.text.as_bytes())
    }
}

impl LeaderEpochCache {
    /// The name of the file in a partition directory.
    pub const FILE_NAME: &'static str = file::FILE_NAME;

    /// A cache of what a file holds; dirty when its entries did not rise and had to be mended.
    #[must_use]
    pub fn new(entries: &[EpochEntry]) -> Self {
        let mut cache = Self::default();
        for entry in entries {
            cache.assign(entry.epoch, entry.start_offset);
        }
        if cache.entries == entries {
            cache.written = cache.generation;
        }
        cache
    }

    /// Notes that `epoch` begins at `start_offset`; returns whether that was news.
    ///
    /// The latest epoch at or above its start is not. Entries that contradict the new one go: an
    /// epoch below the latest is accepted and wipes those above it. Negative numbers are ignored.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        let known = self
            .latest()
            .is_some_and(|latest| latest.epoch == epoch && latest.start_offset <= start_offset);
        if known || epoch.get() < 0 || start_offset.get() < 0 {
            return false;
        }
        let contradicts =
            |entry: &EpochEntry| entry.epoch >= epoch || entry.start_offset >= start_offset;
        while self.latest().is_some_and(|latest| contradicts(&latest)) {
            self.entries.pop();
        }
        self.entries.push(EpochEntry::new(epoch, start_offset));
        self.touch();
        true
    }

    /// Drops the epochs that begin at `end_offset` or above, also when no record goes.
    pub fn truncate_from_end(&mut self, end_offset: Offset) -> bool {
        let keep = self.entries.partition_point(|entry| entry.start_offset < end_offset);
        if end_offset.get() < 0 || keep == self.entries.len() {
            return false;
        }
        self.entries.truncate(keep);
        self.touch();
        true
    }

    /// Drops the epochs that end at `start_offset` or below; the one in force there begins there.
    pub fn truncate_from_start(&mut self, start_offset: Offset) -> bool {
        let gone = self.entries.partition_point(|entry| entry.start_offset <= start_offset);
        let Some(last) = gone.checked_sub(1) else { return false };
        self.entries.drain(..last);
        match self.entries.first_mut() {
            Some(first) if last > 0 || first.start_offset != start_offset => {
                first.start_offset = start_offset;
            }
            _ => return false,
        }
        self.touch();
        true
    }

    /// Drops all epochs.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.touch();
    }

    /// What the file should hold, if it may hold something else.
    #[must_use]
    pub fn pending_write(&self) -> Option<PendingEpochs> {
        let text = || file::encode_epochs(&self.entries);
        let generation = self.generation;
        self.is_dirty().then(|| PendingEpochs { text: text(), generation })
    }

    /// Notes that [`PendingEpochs::write`] has succeeded.
    pub fn mark_written(&mut self, pending: &PendingEpochs) {
        self.written = self.written.max(pending.generation);
    }

    /// Writes the file where it may hold something else; two syncs.
    ///
    /// # Errors
    ///
    /// As [`PendingEpochs::write`].
    pub fn flush(&mut self, io: &Io, partition_dir: &Path) -> Result<(), FileError> {
        if let Some(pending) = self.pending_write() {
            pending.write(io, partition_dir)?;
            self.mark_written(&pending);
        }
        Ok(())
    }

    /// Whether the file may hold something else.
    #[must_use]
    pub const fn is_dirty(&self) -> bool {
        self.generation != self.written
    }

    /// All epochs, both columns rising.
    #[must_use]
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The last epoch.
    #[must_use]
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// The first epoch.
    #[must_use]
    pub fn earliest(&self) -> Option<EpochEntry> {
        self.entries.first().copied()
    }

    /// The entry of exactly this epoch.
    #[must_use]
    pub fn entry(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        let index = self.entries.binary_search_by_key(&epoch, |entry| entry.epoch).ok()?;
        self.entries.get(index).copied()
    }

    /// The last epoch below `epoch`.
    #[must_use]
    pub fn previous(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        let end = self.entries.partition_point(|entry| entry.epoch < epoch);
        self.entries.get(end.checked_sub(1)?).copied()
    }

    /// The first epoch above `epoch`.
    #[must_use]
    pub fn next(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        let start = self.entries.partition_point(|entry| entry.epoch <= epoch);
        self.entries.get(start).copied()
    }

    /// The epoch under which the record at `offset` was written; `None` below the first.
    #[must_use]
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        let end = self.entries.partition_point(|entry| entry.start_offset <= offset);
        Some(self.entries.get(end.checked_sub(1)?)?.epoch)
    }

    /// Where the last epoch that is not above `requested` ends: where a follower of that epoch
    /// parts from this log. `None` where that is not known.
    ///
    /// Of the latest epoch it is the log end; below the first epoch, the start of the first
    /// under the requested number.
    #[must_use]
    pub fn end_offset_for(
        &self,
        requested: LeaderEpoch,
        log_end_offset: Offset,
    ) -> Option<(LeaderEpoch, Offset)> {
        if requested.get() < 0 {
            return None;
        }
        if self.latest()?.epoch == requested {
            return Some((requested, log_end_offset));
        }
        let end = self.next(requested)?.start_offset;
        let floor = self.entry(requested).or_else(|| self.previous(requested));
        Some((floor.map_or(requested, |entry| entry.epoch), end))
    }

    const fn touch(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}
