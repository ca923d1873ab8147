//! Segments whose offsets do not fit, as old cleaners have left them.

use alluvium_record_format::{CorruptKind, Corruption, Offset};
use alluvium_segment::{FileKind, SegmentFileName};

use super::recover::Damage;
use super::{Change, LoadError, Loader, Reason, Warning, make};
use crate::FileError;
use crate::scan::{LogFile, Step, Walk};

impl Loader<'_> {
    /// Splits a segment at the first offset that does not fit, and again where one does not fit
    /// into the rest. Returns false where damage keeps it whole.
    ///
    /// Where damage may be cut, the checksums of what does not fit are looked at: its offset may be
    /// the damage. What is left may need no split any more.
    pub(super) fn split(
        &mut self,
        base: Offset,
        overflow: Offset,
        damage: Damage,
    ) -> Result<bool, LoadError> {
        let reason = Reason::OffsetOverflow(overflow);
        let log = SegmentFileName::new(base, FileKind::Log);
        let file = self.directory.open_log(log).map_err(|e| self.failed(e))?;
        let bases = self.directory.bases();
        let range = (base, bases.into_iter().find(|next| *next > base));
        let parts = Parts::of(&file, range, damage).map_err(|e| self.failed(e))?;
        if let Some(found) = parts.damage {
            if damage == Damage::Keep {
                let warning = Warning::DamageKept { base_offset: base, damage: found };
                self.report.warnings.push(warning);
                return Ok(false);
            }
            self.remove_behind(base, Reason::AfterCut(overflow))?;
            let fits = parts.fit(base);
            let index = SegmentFileName::new(base, FileKind::OffsetIndex);
            if fits && self.directory.is_there(index) {
                // The next pass misses it, and makes all indexes new.
                let change = Change::Remove(index);
                self.directory.change(change, Reason::Damage(found)).map_err(|e| self.failed(e))?;
            }
            let (from_bytes, to_bytes) = (file.len().into(), parts.end.into());
            let change = Change::Cut { file: log, from_bytes, to_bytes };
            self.directory.change(change, Reason::Damage(found)).map_err(|e| self.failed(e))?;
            if fits {
                return Ok(true);
            }
        }
        drop(file);
        tracing::warn!(base_offset = base.get(), %overflow, "segment overflow: Split segment");
        if !self.directory.is_plan() {
            make::split(self.directory.dir(), base, self.config.segment)
                .map_err(|e| LoadError::segment(self.directory.path(), e))?;
        }
        self.directory.split(base, &parts.list, reason);
        Ok(true)
    }
}

/// What a segment becomes: base offset, first byte and length of each part.
struct Parts {
    list: Vec<(Offset, u32, u32)>,
    last_offset: Option<Offset>,
    /// The byte after the last whole batch.
    end: u32,
    damage: Option<Corruption>,
}

impl Parts {
    /// Whether all of it fits into a segment with this base offset.
    fn fit(&self, base: Offset) -> bool {
        self.last_offset.is_none_or(|last| last.relative_to(base).is_some())
    }

    /// Cuts where an offset does not fit into the part any more. A part is named after the first
    /// batch in it. `range` is the base offset of the segment and that of the next one.
    fn of(
        file: &LogFile,
        range: (Offset, Option<Offset>),
        damage: Damage,
    ) -> Result<Self, FileError> {
        let mut this = Self { list: Vec::new(), last_offset: None, end: 0, damage: None };
        let mut walk = match damage {
            Damage::Cut => Walk::content(file, 0),
            Damage::Keep => Walk::headers(file, 0),
        };
        loop {
            // Of a batch that is damaged elsewhere, the offset fits into the part: it stays.
            let part = this.list.last().map_or(range.0, |part| part.0);
            let batch = match walk.step()? {
                Step::Bad(batch, found)
                    if damage == Damage::Cut && batch.last_offset().relative_to(part).is_none() =>
                {
                    this.damage = Some(found);
                    return Ok(this);
                }
                Step::Batch(batch) | Step::Bad(batch, _) => batch,
                Step::Damage(damage) => {
                    this.damage = Some(damage);
                    return Ok(this);
                }
                Step::End => return Ok(this),
            };
            let (first, last) = (batch.base_offset(), batch.last_offset());
            // A part must not take the name of another segment.
            let is_within = range.0 <= first && range.1.is_none_or(|next| last < next);
            if Some(first) <= this.last_offset || last < first || !is_within {
                let kind = CorruptKind::out_of_range(first.get());
                this.damage = Some(kind.at(batch.position));
                return Ok(this);
            }
            this.last_offset = Some(last);
            let fits = |part: &&mut (Offset, u32, u32)| last.relative_to(part.0).is_some();
            match this.list.last_mut().filter(fits) {
                Some((_, _, len)) => *len = len.saturating_add(batch.size_bytes),
                None => this.list.push((first, batch.position.get(), batch.size_bytes)),
            }
            this.end = batch.end().get();
        }
    }
}
