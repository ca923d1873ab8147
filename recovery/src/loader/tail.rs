//! The end of a segment, found without reading all of it.

use alluvium_record_format::{Corruption, Offset};
use alluvium_segment::{FileKind, SegmentFileName};
use alluvium_sparse_index::{OffsetEntry, OffsetIndex, TransactionIndex};

use super::directory::Directory;
use crate::FileError;
use crate::scan::{LogFile, Step, Walk};

/// How a segment ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// The offset after all whole batches, the base offset of an empty segment.
    pub(super) next_offset: Offset,
    /// What stands behind the last whole batch, if anything does, or the first one that falls
    /// back to offsets before it.
    pub(super) damage: Option<Corruption>,
    /// Whether the end of the offset index fits the log.
    pub(super) index_fits: bool,
}

impl Directory {
    /// Finds the end of a segment by the last entry of its index, which is a hint: where the
    /// batch there is not the one that the entry is about, the walk starts at the first byte.
    pub(super) fn tail(&mut self, log: SegmentFileName) -> Result<Tail, FileError> {
        let index = SegmentFileName { kind: FileKind::OffsetIndex, ..log };
        let file = self.open_log(log)?;
        let entry = match self.last_entry(index)? {
            IndexEnd::Entry(entry) => entry,
            IndexEnd::Empty => return walk(&file, 0, log.offset, true),
            IndexEnd::Damaged => return walk(&file, 0, log.offset, false),
        };
        if is_batch_of(&file, entry, log.offset)? {
            walk(&file, entry.position.get(), log.offset, true)
        } else {
            walk(&file, 0, log.offset, false)
        }
    }

    fn last_entry(&self, index: SegmentFileName) -> Result<IndexEnd, FileError> {
        let (len, bytes) = self.read_end(index, ENTRY_LEN)?;
        let Some(entry) = OffsetIndex::new(index.offset, &bytes).last_entry() else {
            return Ok(if len == 0 { IndexEnd::Empty } else { IndexEnd::Damaged });
        };
        // An index that was not trimmed ends in zeros; no batch at byte 0 ever has an entry.
        let is_whole = len.checked_rem(ENTRY_LEN) == Some(0);
        let is_padding = entry.position.get() == 0;
        Ok(if is_whole && !is_padding { IndexEnd::Entry(entry) } else { IndexEnd::Damaged })
    }

    /// Whether an offset index ends with an entry.
    pub(super) fn is_offset_index_whole(&self, index: SegmentFileName) -> Result<bool, FileError> {
        Ok(matches!(self.last_entry(index)?, IndexEnd::Entry(_)))
    }

    /// Whether a time index is cut inside an entry.
    pub(super) fn is_time_index_cut(&mut self, base: Offset) -> Result<bool, FileError> {
        let len = self.len(SegmentFileName::new(base, FileKind::TimeIndex))?;
        Ok(len.checked_rem(TIME_ENTRY_LEN) != Some(0))
    }

    /// Whether the transaction index of a segment can be used.
    pub(super) fn is_txn_index_sound(&mut self, base: Offset) -> Result<bool, FileError> {
        let name = SegmentFileName::new(base, FileKind::TransactionIndex);
        if !self.has(base, FileKind::TransactionIndex) {
            return Ok(true);
        }
        // It has 34 bytes for each marker of 78: memory is taken for no more than the log's.
        let max = self.len(SegmentFileName::new(base, FileKind::Log))?;
        if self.len(name)? > max {
            return Ok(false);
        }
        let bytes = self.read(name, max)?;
        let index = TransactionIndex::new(base, &bytes);
        Ok(index.spare_bytes() == 0 && index.sanity_check().is_ok())
    }
}

/// The end of an offset index.
enum IndexEnd {
    Empty,
    Entry(OffsetEntry),
    Damaged,
}

const ENTRY_LEN: u64 = 8;
const TIME_ENTRY_LEN: u64 = 12;

/// Whether a batch stands where the entry says, at or before the one that the entry is about:
/// older brokers stored the last offset of an append with the position of its first batch.
fn is_batch_of(file: &LogFile, entry: OffsetEntry, base: Offset) -> Result<bool, FileError> {
    if entry.position.get() >= file.len() {
        return Ok(false);
    }
    match Walk::headers(file, entry.position.get()).step()? {
        Step::Batch(batch) | Step::Bad(batch, _) => {
            Ok((base..=entry.offset).contains(&batch.base_offset()))
        }
        Step::Damage(_) | Step::End => Ok(false),
    }
}

fn walk(file: &LogFile, from: u32, base: Offset, index_fits: bool) -> Result<Tail, FileError> {
    let mut walk = Walk::headers(file, from);
    let mut tail = Tail { next_offset: base, damage: None, index_fits };
    loop {
        let damage = match walk.step()? {
            Step::Batch(batch) | Step::Bad(batch, _) => match batch.misplaced(base) {
                None => {
                    let fall = batch.falls_back(tail.next_offset);
                    tail.damage = tail.damage.or(fall);
                    tail.next_offset = tail.next_offset.max(batch.next_offset());
                    continue;
                }
                damage => damage,
            },
            Step::Damage(damage) => Some(damage),
            Step::End => None,
        };
        tail.damage = tail.damage.or(damage);
        return Ok(tail);
    }
}
