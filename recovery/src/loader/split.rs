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
    pub(super) fn split(
        &mut self,
        base: Offset,
        overflow: Offset,
        damage: Damage,
    ) -> Result<bool, LoadError> {
        let reason = Reason::OffsetOverflow(overflow);
        let log = SegmentFileName::new(base, FileKind::Log);
        let file = self.directory.open_log(log).map_err(|e| self.failed(e))?;
        let parts = Parts::of(&file).map_err(|e| self.failed(e))?;
        if let Some(found) = parts.damage {
            if damage == Damage::Keep {
                let warning = Warning::DamageKept { base_offset: base, damage: found };
                self.report.warnings.push(warning);
                return Ok(false);
            }
            self.remove_behind(base, Reason::AfterCut(overflow))?;
            let (from_bytes, to_bytes) = (file.len().into(), parts.end.into());
            let change = Change::Cut { file: log, from_bytes, to_bytes };
            self.directory.change(change, Reason::Damage(found)).map_err(|e| self.failed(e))?;
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
    /// The byte after the last whole batch.
    end: u32,
    damage: Option<Corruption>,
}

impl Parts {
    /// Cuts where an offset does not fit into the part any more. A part is named after the first
    /// batch in it.
    fn of(file: &LogFile) -> Result<Self, FileError> {
        let mut this = Self { list: Vec::new(), end: 0, damage: None };
        let mut last_offset = None;
        let mut walk = Walk::headers(file, 0);
        loop {
            let batch = match walk.step()? {
                Step::Batch(batch) | Step::Bad(batch, _) => batch,
                Step::Damage(damage) => {
                    this.damage = Some(damage);
                    return Ok(this);
                }
                Step::End => return Ok(this),
            };
            let (first, last) = (batch.base_offset(), batch.last_offset());
            if Some(first) <= last_offset || last < first {
                let kind = CorruptKind::out_of_range(first.get());
                this.damage = Some(kind.at(batch.position));
                return Ok(this);
            }
            last_offset = Some(last);
            let fits = |part: &&mut (Offset, u32, u32)| last.relative_to(part.0).is_some();
            match this.list.last_mut().filter(fits) {
                Some((_, _, len)) => *len = len.saturating_add(batch.size_bytes),
                None => this.list.push((first, batch.position.get(), batch.size_bytes)),
            }
            this.end = batch.end().get();
        }
    }
}
