//! The offset index of a segment as a file. Format: `docs/format/offset-index.md`.

use core::convert::Infallible;
use core::sync::atomic::{AtomicU64, Ordering};
use std::ops::Range;
use std::path::Path;

use alluvium_record_format::{CorruptKind, Corruption, Offset, Position};

use crate::block_keys::{BlockKeys, count_in_block};
use crate::builder::check_offset;
use crate::entry::OFFSET_ENTRY_LEN;
use crate::index_file::IndexFile;
use crate::map::View;
use crate::offset_index::{position_of, signed};
use crate::shared_methods::shared_methods;
use crate::slot_reader::SlotReader;
use crate::{IndexError, MapPermit, OffsetEntry, OffsetNeighbours, Refusal};

/// The offset index of one segment: for every few kilobytes of log, where a batch begins.
///
/// All methods take `&self`: any number of threads look things up while one appends. A look-up
/// takes no lock and makes no system call; methods that change the file keep each other out.
///
/// An entry is a hint. The file holds no checksum, and a crash can leave anything in it: look
/// at the batch header at [`OffsetEntry::position`] before you believe it, and where it does
/// not fit call [`reset`](Self::reset) and append the entries of the log again.
///
/// No descriptor stays open. The file is found again by its path where a call needs it, so say
/// when it is renamed: [`set_path`](Self::set_path).
#[derive(Debug)]
pub struct OffsetIndexFile {
    base: Offset,
    file: IndexFile,
    block_keys: BlockKeys,
}

impl OffsetIndexFile {
    /// Creates the file, full length and empty: `max_bytes` (`segment.index.bytes`, Kafka's
    /// default is 10 MiB) rounded down to whole entries. Takes no blocks on disk until the
    /// first append.
    ///
    /// # Errors
    ///
    /// `Io` where the file exists; `Refused` with `Length` where no entry fits.
    pub fn create(
        path: &Path,
        base: Offset,
        max_bytes: u32,
        permit: &MapPermit,
    ) -> Result<Self, IndexError> {
        let file = IndexFile::create(path, OFFSET_ENTRY_LEN, max_bytes, permit)?;
        Ok(Self::over(base, file))
    }

    /// Opens the file of an active segment, with all entries that are in it and as long as it
    /// is. Call [`resize`](Self::resize) to make room for more, up to `max_bytes`.
    ///
    /// Kafka takes every slot of the file for an entry. Here the zeros that a crash leaves
    /// behind the last entry do not count, nor does a torn entry at the end.
    ///
    /// # Errors
    ///
    /// `Io`, also where there is no file; `Corrupt` for a file of 2 GiB or more.
    pub fn open(
        path: &Path,
        base: Offset,
        max_bytes: u32,
        permit: &MapPermit,
    ) -> Result<Self, IndexError> {
        Ok(Self::opened(base, IndexFile::open(path, OFFSET_ENTRY_LEN, max_bytes, permit)?))
    }

    /// Opens the file of a sealed segment for reading. A small one, up to 4 KiB, is read into
    /// memory; a larger one is mapped.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_sealed(path: &Path, base: Offset, permit: &MapPermit) -> Result<Self, IndexError> {
        Ok(Self::opened(base, IndexFile::open_sealed(path, OFFSET_ENTRY_LEN, permit)?))
    }

    /// Reads the last entry of a file without opening the index: one small read, and about
    /// twenty where the file ends in zeros. `None` for an index without entries. Makes a start
    /// over many segments cheap, each of which needs this entry alone.
    ///
    /// # Errors
    ///
    /// `Io`, also where there is no file; `Corrupt` for a file of 2 GiB or more.
    pub fn peek_last_entry(path: &Path, base: Offset) -> Result<Option<OffsetEntry>, IndexError> {
        let file = SlotReader::open(path, OFFSET_ENTRY_LEN)?;
        let word = |slot| file.read(slot).map(|bytes| u64::from_be_bytes(bytes).cast_signed());
        let entries = count_entries_by(file.slots(), word)?;
        let Some(last) = entries.checked_sub(1) else { return Ok(None) };
        Ok(Some(OffsetEntry::unpack(base, word(last)?.cast_unsigned())))
    }

    /// Appends an entry. Reserves blocks on disk first where it must, so that a full disk is an
    /// error, and the entry is there as a whole or not at all.
    ///
    /// # Errors
    ///
    /// `Refused` with `Full`, `OutOfOrder`, `OffsetOverflow`, `PositionOverflow` or `Sealed`;
    /// `DiskFull`, `Io`, `Changed`. The index is as before.
    pub fn append(&self, entry: OffsetEntry) -> Result<(), IndexError> {
        let mut writer = self.file.writer()?;
        let full = Refusal::Full { entries: self.len() };
        let at = self.file.reserve_slot(&mut writer)?.ok_or_else(|| writer.refused(full))?;
        let packed = self.check(entry).map_err(|refusal| writer.refused(refusal))?;
        self.file.push64(at, packed);
        Ok(())
    }

    /// Drops the entries with an offset of `offset` or above. The length of the file stays.
    ///
    /// # Errors
    ///
    /// `Refused` with `Sealed`.
    pub fn truncate_to(&self, offset: Offset) -> Result<(), IndexError> {
        let _writer = self.file.writer()?;
        let first_dropped = sort_key(self.base, offset, 0);
        let words = self.file.view().words64();
        self.file.take_back(words.partition_point(|word| load(word) < first_dropped));
        Ok(())
    }

    /// Returns the entry with the largest offset that is not above `target`.
    ///
    /// The record itself lies at or after the entry's [`Position`], so scan the `.log` file
    /// from there. Below the first entry, the answer is the segment's base offset at byte 0.
    /// O(log n), no lock, no I/O beyond page faults. Looks among the newest 1024 entries first.
    /// The first look-up before them in a large index allocates a 64th of its size.
    ///
    /// Source: `OffsetIndex.lookup` in Kafka; `docs/format/offset-index.md#lookup`.
    #[must_use]
    pub fn lookup(&self, target: Offset) -> OffsetEntry {
        let target = sort_key(self.base, target, u32::MAX);
        let found = self.read(|view| {
            let index = self.count_not_above(view, target).checked_sub(1)?;
            view.words64().get(index).map(load)
        });
        found.map_or(OffsetEntry::new(self.base, Position::new(0)), |word| self.unpack(word))
    }

    /// Returns the entry that [`lookup`](Self::lookup) finds, if there is one, and the entry
    /// after it: the batch that holds `target` begins between the two, or at the second. Costs
    /// what a look-up costs.
    #[must_use]
    pub fn lookup_pair(&self, target: Offset) -> (Option<OffsetEntry>, Option<OffsetEntry>) {
        let near = self.lookup_near(target);
        (near.floor, near.next)
    }

    /// As [`lookup_pair`](Self::lookup_pair), with the slot and one entry more: all four are of
    /// one state of the index.
    #[must_use]
    pub fn lookup_near(&self, target: Offset) -> OffsetNeighbours {
        let target = sort_key(self.base, target, u32::MAX);
        self.read(|view| {
            let words = view.words64();
            let entry = |slot| words.get(slot).map(load).map(|word| self.unpack(word));
            OffsetNeighbours::at(self.count_not_above(view, target), entry)
        })
    }

    /// Returns the offset of the first entry that begins `size_bytes` or more after
    /// `position`; see [`OffsetIndex::upper_bound_offset`](crate::OffsetIndex::upper_bound_offset).
    #[must_use]
    pub fn upper_bound_offset(&self, position: Position, size_bytes: u32) -> Option<Offset> {
        let target = signed(Position::new(position.get().wrapping_add(size_bytes)));
        let position = |word: &AtomicU64| signed(self.unpack(load(word)).position);
        let found = self.read(|view| {
            let words = view.words64();
            let is_below = |word: &AtomicU64| position(word) < target;
            let range = likely_range(words, is_below);
            let part = words.get(range.clone()).unwrap_or_default();
            let above = range.start.saturating_add(part.partition_point(is_below));
            let is_first = above == 0 && words.first().map(position) == Some(target);
            words.get(if is_first { 1 } else { above }).map(load)
        });
        found.map(|word| self.unpack(word).offset)
    }

    /// The entry in slot `index`, from 0.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<OffsetEntry> {
        self.read(|view| view.words64().get(index).map(load)).map(|word| self.unpack(word))
    }

    /// The last entry.
    #[must_use]
    pub fn last_entry(&self) -> Option<OffsetEntry> {
        self.read(|view| view.words64().last().map(load)).map(|word| self.unpack(word))
    }

    /// The offset of the last entry, or the base offset of an empty index.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.last_entry().map_or(self.base, |entry| entry.offset)
    }

    /// Iterates over the entries, with those that are appended meanwhile.
    pub fn iter(&self) -> impl Iterator<Item = OffsetEntry> {
        (0..).map_while(|index| self.entry(index))
    }

    /// Whether there is no room for another entry. A log rolls then.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= self.max_entries()
    }

    fn opened(base: Offset, file: IndexFile) -> Self {
        let entries = count_entries(file.slots().words64());
        file.publish(entries);
        Self::over(base, file)
    }

    fn over(base: Offset, file: IndexFile) -> Self {
        let block_keys = BlockKeys::new(file.max_capacity());
        Self { base, file, block_keys }
    }

    /// Runs `find` over the entries, again where entries were taken back meanwhile.
    fn read<T>(&self, find: impl Fn(&View<'_>) -> T) -> T {
        loop {
            let view = self.file.view();
            let found = find(&view);
            if view.is_unchanged() {
                return found;
            }
        }
    }

    /// How many entries are not above `target`.
    fn count_not_above(&self, view: &View<'_>, target: i64) -> usize {
        let words = view.words64();
        let is_not_above = |word: &AtomicU64| load(word) <= target;
        let range = likely_range(words, is_not_above);
        if range.start > 0 || range.end < FEW {
            let part = words.get(range.clone()).unwrap_or_default();
            return range.start.saturating_add(part.partition_point(is_not_above));
        }
        let range = self.block_keys.find(view, target >> u32::BITS);
        let block = words.get(range.clone()).unwrap_or_default();
        range.start.saturating_add(count_in_block(block, is_not_above))
    }

    fn check(&self, entry: OffsetEntry) -> Result<u64, Refusal> {
        check_offset(self.last_entry().map(|last| last.offset), entry)?;
        entry.pack(self.base)
    }

    fn check_last(&self) -> Result<(), Corruption> {
        let last = self.last_offset();
        if last >= self.base {
            return Ok(());
        }
        let at = position_of(self.len().saturating_sub(1).saturating_mul(OFFSET_ENTRY_LEN));
        Err(CorruptKind::index_order(last.get(), self.base.get()).at(at))
    }

    const fn unpack(&self, word: i64) -> OffsetEntry {
        OffsetEntry::unpack(self.base, word.cast_unsigned())
    }
}

shared_methods!(OffsetIndexFile);

/// A stored entry as one number that sorts by offset, then by position.
fn load(word: &AtomicU64) -> i64 {
    u64::from_be(word.load(Ordering::Relaxed)).cast_signed()
}

/// The number that `offset` at byte `position` would sort by.
fn sort_key(base: Offset, offset: Offset, position: u32) -> i64 {
    let relative = offset.get().saturating_sub(base.get());
    let relative = relative.clamp(i32::MIN.into(), i32::MAX.into());
    relative << u32::BITS | i64::from(position)
}

/// Where the end of the words in front lies, for which `is_in_front` holds: among the newest or
/// before them. Most readers are near the end of the log, and its entries are in the cache.
fn likely_range(words: &[AtomicU64], is_in_front: impl Fn(&AtomicU64) -> bool) -> Range<usize> {
    let old = words.len().saturating_sub(NEWEST);
    let last_old = old.checked_sub(1).and_then(|last| words.get(last));
    if last_old.is_none_or(is_in_front) { old..words.len() } else { 0..old }
}

/// The entries of a file that was just opened: its whole slots without the zeros at the end.
fn count_entries(slots: &[AtomicU64]) -> usize {
    let word = |slot| Ok::<_, Infallible>(slots.get(slot).map_or(0, load));
    count_entries_by(slots.len(), word).unwrap_or_else(|never| match never {})
}

/// The same, with `word` to read a slot: O(1) for a trimmed file, O(log n) for one with zeros.
fn count_entries_by<E>(slots: usize, word: impl Fn(usize) -> Result<i64, E>) -> Result<usize, E> {
    // Offsets rise and are above the base from slot 1 on, so an offset equal to the base there
    // is padding. So are zeros in slot 0: the first batch never gets an entry.
    let is_padding = |word: i64| u32::try_from(word).is_ok();
    let Some(last) = slots.checked_sub(1) else { return Ok(0) };
    if !is_padding(word(last)?) {
        return Ok(slots);
    }
    if word(0)? == 0 {
        return Ok(0);
    }
    // Slot `entries - 1` holds an entry, slot `padding` does not.
    let (mut entries, mut padding) = (1, last.max(1));
    while entries < padding {
        let middle = entries.midpoint(padding);
        if is_padding(word(middle)?) {
            padding = middle;
        } else {
            entries = middle.saturating_add(1);
        }
    }
    Ok(entries)
}

/// How many entries at the end are searched first: those of 8 KiB, as in Kafka.
const NEWEST: usize = 1024;

/// Below this number of old entries a plain search is as good: 64 KiB stay in the cache.
const FEW: usize = 8192;
