//! From an offset to the batch that holds it: the index gives a hint, the header decides.

use std::fs::File;
use std::path::PathBuf;

use alluvium_record_format::{BatchHeader, CorruptClass, Offset, Position};
use alluvium_sparse_index::{OffsetEntry, OffsetNeighbours};

use super::Segment;
use crate::error::SegmentError;
use crate::exact::is_exact;
use crate::headers::{BatchAt, HeaderScan, SCRATCH_BYTES, Step};
use crate::names::FileKind;
use crate::walk::to_usize;

/// What a search through the index came to.
enum Located {
    /// The batch, or `None` past the last one.
    Found(Option<BatchAt>),
    /// The byte that an entry names is not the batch that the entry says.
    Misfit,
}

/// Where a batch lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) position: Position,
    pub(super) size_bytes: u32,
    pub(super) base_offset: Offset,
}

impl Place {
    /// Where the batch lies whose entry is `near.next`, given that this is exact and holds
    /// `target`.
    fn of_exact(near: &OffsetNeighbours, target: Offset) -> Option<Self> {
        let (floor, next, after) = (near.floor?, near.next?, near.after?);
        let holds = floor.offset < target && target <= next.offset;
        holds.then_some(Self {
            position: next.position,
            size_bytes: after.position.get().checked_sub(next.position.get())?,
            base_offset: floor.offset.checked_add(1)?,
        })
    }

    const fn of(batch: &BatchAt) -> Self {
        Self {
            position: batch.position,
            size_bytes: batch.size_bytes,
            base_offset: batch.base_offset,
        }
    }
}

impl Segment {
    /// Where the first batch lies whose last offset is not below `target`. Without a look at the
    /// log where an earlier one has shown that the index says all.
    pub(super) fn place_of(
        &self,
        file: &File,
        target: Offset,
    ) -> Result<Option<Place>, SegmentError> {
        let generation = self.generation();
        if let Some(hints) = self.offset_hints()?.as_ref() {
            let near = hints.lookup_near(before(target));
            if hints.is_exact(near.slot, generation)
                && let Some(place) = Place::of_exact(&near, target)
                && self.is_still(generation)
            {
                return Ok(Some(place));
            }
        }
        let found = self.locate(file, target)?;
        Ok(found.as_ref().map(Place::of))
    }

    /// Changes with truncations and new indexes: see [`Published`](crate::published::Published).
    pub(super) fn generation(&self) -> u32 {
        self.published.generation()
    }

    /// Whether nothing was taken back since this generation was seen, nor is something now.
    pub(super) fn is_still(&self, generation: u32) -> bool {
        self.published.is_still(generation)
    }

    /// The first batch whose last offset is not below `target`.
    pub(crate) fn locate(
        &self,
        file: &File,
        target: Offset,
    ) -> Result<Option<BatchAt>, SegmentError> {
        let mut may_rebuild = true;
        loop {
            let generation = self.generation();
            let hints = self.offset_hints()?;
            let near = hints.as_ref().map(|hints| hints.lookup_near(before(target)));
            drop(hints);
            let pair = near.as_ref().map_or((None, None), |near| pair_at(near, target));
            if let Located::Found(found) = self.locate_between(file, target, pair)? {
                if let (Some(near), Some(batch)) = (&near, &found) {
                    self.learn(near, target, batch, generation)?;
                }
                return Ok(found);
            }
            // A truncation that came between makes good entries look wrong.
            if !self.is_still(generation) || !may_rebuild || !self.drop_bad_index()? {
                return self.batch_from(file, 0, |batch| batch.last_offset >= target);
            }
            may_rebuild = false;
        }
    }

    /// Remembers what `batch`, found in `generation`, says of the entry that was used.
    fn learn(
        &self,
        near: &OffsetNeighbours,
        target: Offset,
        batch: &BatchAt,
        generation: u32,
    ) -> Result<(), SegmentError> {
        if !is_exact(near, target, batch) || !self.is_still(generation) {
            return Ok(());
        }
        if let Some(hints) = self.offset_hints()?.as_ref() {
            hints.learn_exact(near.slot, generation);
        }
        Ok(())
    }

    /// Searches from the entry at or below `target`, knowing the entry above it.
    fn locate_between(
        &self,
        file: &File,
        target: Offset,
        (floor, next): (Option<OffsetEntry>, Option<OffsetEntry>),
    ) -> Result<Located, SegmentError> {
        // Read after the index: an entry is shown after the size that covers it.
        let size = self.size_bytes();
        let from = floor.map_or(0, |entry| entry.position.get());
        let until = next.map_or(size, |entry| entry.position.get());
        if from >= size || until > size || (next.is_some() && until <= from) {
            let empty = floor.is_none() && next.is_none();
            return Ok(if empty { Located::Found(None) } else { Located::Misfit });
        }
        let gap = to_usize(until - from);
        let exact = floor.is_some_and(|entry| entry.offset == target);
        if let Some(entry) = next
            && !exact
            && gap > SCRATCH_BYTES - BatchHeader::LEN
            && (floor.is_some() || self.is_past_middle(target, entry.offset))
        {
            // Batches above the interval have an entry each: the answer is most often there.
            match self.header_at(file, until)? {
                Some(batch) if self.fits(entry, &batch)? => {
                    if batch.base_offset <= target && target <= batch.last_offset {
                        return Ok(Located::Found(Some(batch)));
                    }
                }
                _ => return Ok(Located::Misfit),
            }
        }
        let first_bytes = if exact { 0 } else { gap + BatchHeader::LEN };
        self.scan_from_entry(file, target, floor, first_bytes)
    }

    /// Whether `target` lies nearer to the end of the segment's first two batches, which is
    /// `second`, than to the start. The first batch never has an entry.
    fn is_past_middle(&self, target: Offset, second: Offset) -> bool {
        let from_start = |offset: Offset| offset.get().saturating_sub(self.base.get());
        from_start(target) > from_start(second) / 2
    }

    /// Steps from `floor` to the first batch whose last offset is not below `target`.
    fn scan_from_entry(
        &self,
        file: &File,
        target: Offset,
        floor: Option<OffsetEntry>,
        first_bytes: usize,
    ) -> Result<Located, SegmentError> {
        let from = floor.map_or(0, |entry| entry.position.get());
        let path = || self.path(FileKind::Log);
        let range = (from, self.size_bytes());
        let mut scan = HeaderScan::new(self.dir.io(), file, &path, range, first_bytes);
        if let Some(entry) = floor {
            match scan.step()? {
                Step::Batch(batch) if !self.fits(entry, &batch)? => return Ok(Located::Misfit),
                Step::Batch(batch) if batch.last_offset >= target => {
                    return Ok(Located::Found(Some(batch)));
                }
                Step::Batch(_) => {}
                Step::End | Step::Damage(_) => return Ok(Located::Misfit),
            }
        }
        loop {
            match scan.step_to(|header| header.last_offset() >= target)? {
                Step::Batch(batch) if batch.last_offset < target => {}
                Step::Batch(batch) => return Ok(Located::Found(Some(batch))),
                Step::Damage(damage) if damage.class() != CorruptClass::Incomplete => {
                    return Err(SegmentError::corrupt(path(), damage));
                }
                Step::End | Step::Damage(_) => return Ok(Located::Found(None)),
            }
        }
    }

    /// The first batch at or after byte `from` that `wanted` takes. An incomplete batch ends the
    /// search like the end of the file.
    pub(crate) fn batch_from(
        &self,
        file: &File,
        from: u32,
        wanted: impl Fn(&BatchAt) -> bool,
    ) -> Result<Option<BatchAt>, SegmentError> {
        let path = || self.path(FileKind::Log);
        let range = (from, self.size_bytes());
        let mut scan = HeaderScan::new(self.dir.io(), file, &path, range, SCRATCH_BYTES);
        loop {
            match scan.step()? {
                Step::Batch(batch) if wanted(&batch) => return Ok(Some(batch)),
                Step::Batch(_) => {}
                Step::Damage(damage) if damage.class() != CorruptClass::Incomplete => {
                    return Err(SegmentError::corrupt(path(), damage));
                }
                Step::End | Step::Damage(_) => return Ok(None),
            }
        }
    }

    /// The batch at byte `at`, `None` if there is none.
    fn header_at(&self, file: &File, at: u32) -> Result<Option<BatchAt>, SegmentError> {
        let path = || -> PathBuf { self.path(FileKind::Log) };
        let range = (at, self.size_bytes());
        match HeaderScan::new(self.dir.io(), file, &path, range, 0).step()? {
            Step::Batch(batch) => Ok(Some(batch)),
            Step::End | Step::Damage(_) => Ok(None),
        }
    }
}

/// The entry at or below `target` and the one above it, of those around the offset before.
fn pair_at(near: &OffsetNeighbours, target: Offset) -> (Option<OffsetEntry>, Option<OffsetEntry>) {
    match near.next {
        Some(next) if next.offset == target => (near.next, near.after),
        _ => (near.floor, near.next),
    }
}

const fn before(target: Offset) -> Offset {
    Offset::new(target.get().saturating_sub(1))
}
