//! The time index of a segment as a file. Format: `docs/format/time-index.md`.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};
use std::path::Path;

use alluvium_record_format::{Corruption, Offset, Timestamp};

use crate::builder::check_time;
use crate::entry::{TIME_ENTRY_LEN, timestamp_of};
use crate::index_file::IndexFile;
use crate::shared_methods::shared_methods;
use crate::time_index::check_ends;
use crate::{IndexError, MapPermit, Refusal, TimeEntry};

/// The time index of one segment: how far timestamps had risen by which offset.
///
/// All methods take `&self`: any number of threads look things up while one appends. A look-up
/// takes no lock and makes no system call; methods that change the file keep each other out.
///
/// An entry is a hint, as in [`OffsetIndexFile`](crate::OffsetIndexFile).
///
/// No descriptor stays open. The file is found again by its path where a call needs it, so say
/// when it is renamed: [`set_path`](Self::set_path).
#[derive(Debug)]
pub struct TimeIndexFile {
    base: Offset,
    file: IndexFile,
}

impl TimeIndexFile {
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
        let file = IndexFile::create(path, TIME_ENTRY_LEN, max_bytes, permit)?;
        Ok(Self { base, file })
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
        Ok(Self::over(base, IndexFile::open(path, TIME_ENTRY_LEN, max_bytes, permit)?))
    }

    /// Opens the file of a sealed segment for reading. A small one, up to 4 KiB, is read into
    /// memory; a larger one is mapped.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_sealed(path: &Path, base: Offset, permit: &MapPermit) -> Result<Self, IndexError> {
        Ok(Self::over(base, IndexFile::open_sealed(path, TIME_ENTRY_LEN, permit)?))
    }

    /// Appends an entry if its timestamp is above the last one, and returns whether it did. The
    /// first entry needs a timestamp of 0 or more. The last slot is kept for
    /// [`append_final`](Self::append_final).
    ///
    /// # Errors
    ///
    /// `Refused` with `Full`, `OutOfOrder` for an offset below the last one,
    /// `TimestampOutOfOrder`, `OffsetOverflow` or `Sealed`; `DiskFull`, `Io`, `Changed`. The
    /// index is as before.
    pub fn maybe_append(&self, entry: TimeEntry) -> Result<bool, IndexError> {
        self.append_below(entry, self.max_entries().saturating_sub(1))
    }

    /// Appends the entry with which a segment ends, as [`maybe_append`](Self::maybe_append)
    /// does, but into the last slot too.
    ///
    /// # Errors
    ///
    /// As [`maybe_append`](Self::maybe_append); `Full` only where an entry would be added.
    pub fn append_final(&self, entry: TimeEntry) -> Result<bool, IndexError> {
        self.append_below(entry, usize::MAX)
    }

    /// Drops the entries with an offset of `offset` or above. The length of the file stays.
    ///
    /// # Errors
    ///
    /// `Refused` with `Sealed`.
    pub fn truncate_to(&self, offset: Offset) -> Result<(), IndexError> {
        let _writer = self.file.writer()?;
        let (entries, _) = self.file.view().words32().as_chunks();
        let kept = entries.partition_point(|words| self.unpack(load(words)).offset < offset);
        self.file.take_back(kept);
        Ok(())
    }

    /// Returns the entry with the largest timestamp that is not above `target`.
    ///
    /// Every record with a later timestamp lies behind the entry's offset. `None` below the
    /// first entry: search from the start of the segment. O(log n), and a few probes beside one
    /// another where time passes evenly; no lock, no allocation, no I/O beyond page faults.
    ///
    /// Source: `TimeIndex.lookup` in Kafka; `docs/format/time-index.md#lookup`.
    #[must_use]
    pub fn lookup(&self, target: Timestamp) -> Option<TimeEntry> {
        let target = target.get();
        self.read(|entries| {
            let above = count_not_above(entries, target);
            entries.get(above.checked_sub(1)?).map(load)
        })
    }

    /// The entry in slot `index`, from 0.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<TimeEntry> {
        self.read(|entries| entries.get(index).map(load))
    }

    /// The last entry: the largest timestamp of the segment, as far as the index knows. `None`
    /// where Kafka answers timestamp -1 at the base offset.
    #[must_use]
    pub fn last_entry(&self) -> Option<TimeEntry> {
        self.read(|entries| entries.last().map(load))
    }

    /// Iterates over the entries, with those that are appended meanwhile.
    pub fn iter(&self) -> impl Iterator<Item = TimeEntry> {
        (0..).map_while(|index| self.entry(index))
    }

    /// Whether there is no room for another entry but the final one. A log rolls then.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= self.max_entries().saturating_sub(1)
    }

    fn over(base: Offset, file: IndexFile) -> Self {
        let entries = count_entries(file.slots().words32());
        file.publish(entries);
        Self { base, file }
    }

    fn append_below(&self, entry: TimeEntry, max_entries: usize) -> Result<bool, IndexError> {
        let mut writer = self.file.writer()?;
        let full = Refusal::Full { entries: self.len() };
        if self.len() >= max_entries {
            return Err(writer.refused(full));
        }
        let slot = self.file.reserve_slot(&mut writer)?;
        let Some(words) = self.check(entry).map_err(|refusal| writer.refused(refusal))? else {
            return Ok(false);
        };
        self.file.push32(slot.ok_or_else(|| writer.refused(full))?, words);
        Ok(true)
    }

    /// The words to store, if the entry adds anything.
    fn check(&self, entry: TimeEntry) -> Result<Option<[u32; 3]>, Refusal> {
        let adds = check_time(self.last_entry(), entry)?;
        adds.then(|| entry.pack(self.base)).transpose()
    }

    /// Reads an entry through `find`, again where entries were taken back meanwhile.
    fn read(&self, find: impl Fn(&[Stored]) -> Option<[u32; 3]>) -> Option<TimeEntry> {
        loop {
            let view = self.file.view();
            let (entries, _) = view.words32().as_chunks();
            let found = find(entries);
            if view.is_unchanged() {
                return found.map(|words| self.unpack(words));
            }
        }
    }

    fn check_last(&self) -> Result<(), Corruption> {
        let (Some(first), Some(last)) = (self.entry(0), self.last_entry()) else { return Ok(()) };
        check_ends(self.base, first, last, self.len().saturating_mul(TIME_ENTRY_LEN))
    }

    fn unpack(&self, words: [u32; 3]) -> TimeEntry {
        TimeEntry::unpack(self.base, words)
    }
}

shared_methods!(TimeIndexFile);

/// An entry in the file: two words of timestamp, one of relative offset, all big-endian.
type Stored = [AtomicU32; 3];

fn load(words: &Stored) -> [u32; 3] {
    words.each_ref().map(|word| u32::from_be(word.load(Ordering::Relaxed)))
}

fn load_timestamp(words: &Stored) -> i64 {
    let [high, low, _] = load(words);
    timestamp_of(high, low)
}

/// How many entries are not above `target`.
///
/// Time mostly passes evenly, so the search begins where `target` lies between the first entry
/// and the last, and widens from there: in memory that it has just met, not all over the file.
fn count_not_above(entries: &[Stored], target: i64) -> usize {
    let is_above = |words: &Stored| load_timestamp(words) > target;
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return 0 };
    if is_above(first) {
        return 0;
    }
    if !is_above(last) {
        return entries.len();
    }
    let range = widen(entries.len(), guess(entries.len(), first, last, target), |slot| {
        entries.get(slot).is_none_or(is_above)
    });
    let part = entries.get(range.clone()).unwrap_or_default();
    range.start.saturating_add(part.partition_point(|words| !is_above(words)))
}

/// The slots among which the first that `is_above` is, or before which it ends: from `guess` on in
/// steps that grow.
fn widen(count: usize, guess: usize, is_above: impl Fn(usize) -> bool) -> Range<usize> {
    let (mut near, mut step) = (guess, FIRST_STEP);
    if is_above(near) {
        loop {
            let probe = near.saturating_sub(step);
            if probe == 0 || !is_above(probe) {
                return probe..near;
            }
            (near, step) = (probe, step.saturating_mul(4));
        }
    }
    loop {
        let probe = near.saturating_add(step);
        if probe >= count || is_above(probe) {
            return near..probe.min(count);
        }
        (near, step) = (probe, step.saturating_mul(4));
    }
}

/// The slot of `target` among `count`, if time passed evenly between the first and the last.
fn guess(count: usize, first: &Stored, last: &Stored, target: i64) -> usize {
    let first = load_timestamp(first);
    let distance = |to: i64| u128::from(to.abs_diff(first));
    let slots = u128::try_from(count).unwrap_or(0);
    let slot = distance(target).saturating_mul(slots).checked_div(distance(load_timestamp(last)));
    let slot = slot.and_then(|slot| usize::try_from(slot).ok()).unwrap_or(0);
    slot.min(count.saturating_sub(1))
}

/// Entries between the guess and the first probe beside it.
const FIRST_STEP: usize = 8;

/// The entries of a file that was just opened: its whole slots without the zeros at the end.
fn count_entries(slots: &[AtomicU32]) -> usize {
    let (slots, _) = slots.as_chunks::<3>();
    let is_padding = |words: &Stored| matches!(load(words), [_, _, 0]);
    match slots {
        // One slot of zeros is an entry: a segment with one record of timestamp 0 has it.
        [] | [_] => slots.len(),
        [.., last] if !is_padding(last) => slots.len(),
        // Offsets rise, so one equal to the base behind slot 0 is padding.
        [first, rest @ ..] => match rest.partition_point(|words| !is_padding(words)) {
            0 if load(first) == [0; 3] => 0,
            others => others.saturating_add(1),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(times: &[i64]) -> Vec<AtomicU32> {
        let words = |time: &i64| {
            let bits = time.cast_unsigned();
            let [high, low] = [bits >> 32, bits & u64::from(u32::MAX)];
            [high, low, 0].map(|word| AtomicU32::new(u32::try_from(word).unwrap().to_be()))
        };
        times.iter().flat_map(words).collect()
    }

    #[test]
    fn every_time_is_found_however_unevenly_times_lie() {
        let even: Vec<i64> = (0..500).map(|slot| 1_000 + slot * 10).collect();
        let late: Vec<i64> = (0..500).map(|slot| slot * slot * slot).collect();
        let early: Vec<i64> = (0..500)
            .map(|slot| i64::from((slot + 1_u32).ilog2()) * 1_000 + i64::from(slot))
            .collect();
        for times in [even, late, early, vec![5], vec![5, i64::MAX], vec![]] {
            let words = slots(&times);
            let (entries, _) = words.as_chunks::<3>();
            let around = times.iter().flat_map(|time| [time - 1, *time, time.saturating_add(1)]);
            for target in around.chain([i64::MIN, -1, 0, i64::MAX]) {
                let expected = times.partition_point(|time| *time <= target);
                assert_eq!(count_not_above(entries, target), expected, "{target} in {times:?}");
            }
        }
    }
}
