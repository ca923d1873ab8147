//! Which batches and records stay.

use alluvium_record_format::{Batch, BatchHeader, Corruption, LegacyEntry, Offset};

use crate::bits::Bits;
use crate::keys::{HASHED_AT_ONCE, Hashed, Key, Reader};
use crate::offset_map::OffsetMap;
use crate::options::CleanOptions;
use crate::verdicts::Verdicts;

/// What happens to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Goes without a look at its records.
    Delete,
    /// Goes if no record stays.
    DeleteEmpty,
    /// Stays, if need be without a record.
    RetainEmpty,
}

/// The records of a batch that stay.
#[derive(Debug, Default)]
pub(crate) struct Survivors {
    /// Of each record, in order; may be empty if none stays. A batch that inflates to two
    /// thousand million records takes 256 MiB here, which the next one gives back.
    pub(crate) keep: Bits,
    /// All of them.
    pub(crate) seen: u64,
    pub(crate) count: u64,
    pub(crate) has_tombstone: bool,
    /// Records that are not decided yet.
    waiting: Vec<Hashed>,
}

impl Survivors {
    pub(crate) fn all_stay(&self) -> bool {
        self.count == self.seen
    }
}

/// The rules of one cleaning.
///
/// Source: `Cleaner.cleanInto` and `Cleaner.shouldRetainRecord` in Kafka;
/// `docs/format/compaction.md#rules`.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) map: &'a OffsetMap,
    pub(crate) verdicts: &'a Verdicts,
    pub(crate) latest: Offset,
    pub(crate) options: &'a CleanOptions,
}

impl Rules<'_> {
    /// Whether the records of a batch go that nothing needs any more.
    pub(crate) fn drops_records(&self, header: &BatchHeader, is_idle: bool) -> bool {
        let is_due = || header.delete_horizon().is_some_and(|horizon| horizon <= self.options.now);
        is_idle && (!header.attributes().is_control() || is_due())
    }

    pub(crate) fn fate(&self, header: &BatchHeader, drops_records: bool) -> Fate {
        let is_control = header.attributes().is_control();
        let is_last = header.producer_id().is_some_and(|id| {
            let (epoch, last) = (header.producer_epoch(), header.last_offset());
            self.options.producers.is_last(id, epoch, last, is_control)
        });
        if is_last || self.is_at_high_watermark(header.last_offset()) {
            Fate::RetainEmpty
        } else if drops_records {
            Fate::Delete
        } else {
            Fate::DeleteEmpty
        }
    }

    /// Whether the log seems to end with a batch that ends here.
    pub(crate) fn is_at_high_watermark(&self, last_offset: Offset) -> bool {
        last_offset.checked_add(1).is_some_and(|next| Some(next) == self.options.high_watermark)
    }

    /// Picks the records of a batch that stay.
    pub(crate) fn pick(
        &self,
        reader: &mut Reader,
        batch: &Batch<'_>,
        drops_records: bool,
        survivors: &mut Survivors,
    ) -> Result<(), Corruption> {
        let header = batch.header();
        let is_control = header.attributes().is_control();
        let tombstones_stay =
            header.delete_horizon().is_none_or(|horizon| self.options.now < horizon);
        survivors.begin();
        reader.next_batch();
        if drops_records || is_control {
            return reader.keys(batch, self.options.max_record_bytes, |key| {
                survivors.push(!drops_records, key.is_tombstone);
                true
            });
        }
        if let Some(known) = self.verdicts.of(header, tombstones_stay) {
            survivors.seen = u64::try_from(header.record_count()).unwrap_or(0);
            (survivors.count, survivors.has_tombstone) = (known.count, known.has_tombstone);
            if known.count > 0 {
                let keep = &mut survivors.keep;
                self.verdicts.each(header, tombstones_stay, |stays| keep.push(stays));
            }
            return Ok(());
        }
        reader.keys(batch, self.options.max_record_bytes, |key| {
            self.wait(key, tombstones_stay, survivors);
            true
        })?;
        self.decide(tombstones_stay, survivors);
        Ok(())
    }

    /// As [`pick`](Self::pick), for an entry of magic 0 or 1.
    pub(crate) fn pick_legacy(
        &self,
        reader: &mut Reader,
        entry: &LegacyEntry<'_>,
        tombstones_stay: bool,
        survivors: &mut Survivors,
    ) -> Result<(), Corruption> {
        survivors.begin();
        reader.legacy_keys(entry, |key| {
            self.wait(key, tombstones_stay, survivors);
            true
        })?;
        self.decide(tombstones_stay, survivors);
        Ok(())
    }

    /// Puts a record off until there are enough to be looked up together.
    #[inline]
    fn wait(&self, key: Key<'_>, tombstones_stay: bool, survivors: &mut Survivors) {
        survivors.waiting.push(Hashed::of(self.map, key));
        if survivors.waiting.len() >= HASHED_AT_ONCE {
            self.decide(tombstones_stay, survivors);
        }
    }

    fn decide(&self, tombstones_stay: bool, survivors: &mut Survivors) {
        self.map.touch(survivors.waiting.iter().filter_map(|record| record.place));
        for index in 0..survivors.waiting.len() {
            let record = survivors.waiting[index];
            survivors.push(self.stays(record, tombstones_stay), record.is_tombstone);
        }
        survivors.waiting.clear();
    }

    #[inline]
    fn stays(&self, key: Hashed, tombstones_stay: bool) -> bool {
        if key.offset > self.latest {
            return true;
        }
        let Some(place) = key.place else { return false };
        let is_last = self.map.last_offset_at(place).is_none_or(|last| key.offset >= last);
        is_last && (!key.is_tombstone || tombstones_stay)
    }
}

impl Survivors {
    fn begin(&mut self) {
        self.keep.clear();
        self.seen = 0;
        self.count = 0;
        self.has_tombstone = false;
        self.waiting.clear();
    }

    #[inline]
    fn push(&mut self, stays: bool, is_tombstone: bool) {
        self.keep.push(stays);
        self.seen += 1;
        self.count += u64::from(stays);
        self.has_tombstone |= stays && is_tombstone;
    }
}
