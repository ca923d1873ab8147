//! What stands before and behind a batch: whether its offsets and its epoch can be right.

use alluvium_record_format::{LeaderEpoch, Offset};

use crate::error::CliError;
use crate::log_file::LogFile;
use crate::partition::FileInfo;
use crate::resync::{CRC_START, crc_of};
use crate::walk::{Head, Step, Walk};

/// What a segment lies between.
pub(super) struct Near {
    base: Offset,
    /// Where the next segment begins.
    next_base: Option<Offset>,
    /// The first entry of the next segment that has the checksum it states.
    pub(super) next: Option<Head>,
}

impl Near {
    /// For the segment at `base`, before another one.
    pub(super) fn new(base: Offset, next: Option<(Offset, &FileInfo)>) -> Result<Self, CliError> {
        let Some((next_base, file)) = next else {
            return Ok(Self { base, next_base: None, next: None });
        };
        let next = Ahead::new(&LogFile::open(&file.path)?)?.next;
        Ok(Self { base, next_base: Some(next_base), next })
    }

    /// Says why offsets cannot be right, where the log ends at `end` so far: they lie outside of the
    /// segment, or jump over the entry that follows. The base offset has no checksum.
    pub(super) fn misplaced(
        &self,
        head: &Head,
        end: Offset,
        next: Option<&Head>,
    ) -> Option<String> {
        let (base, last) = (head.base_offset, head.last_offset);
        let is_beyond = self.next_base.is_some_and(|next| last >= next);
        if base < self.base || last < base || is_beyond || last.relative_to(self.base).is_none() {
            return Some(format!("offsets {base} to {last} lie outside of the segment"));
        }
        let next = next.map(|next| next.base_offset).filter(|next| (end..base).contains(next))?;
        Some(format!("offsets {base} to {last} lie between {end} and {next}"))
    }
}

/// The entry behind the one that is looked at. One whose checksum is wrong tells nothing.
pub(super) struct Ahead<'f> {
    file: &'f LogFile,
    walk: Walk<'f>,
    next: Option<Head>,
}

impl<'f> Ahead<'f> {
    pub(super) fn new(file: &'f LogFile) -> Result<Self, CliError> {
        let mut ahead = Self { file, walk: Walk::new(file, 0), next: None };
        ahead.step()?;
        Ok(ahead)
    }

    /// The head of the first sound entry behind `head`. Heads come in order.
    pub(super) fn behind(&mut self, head: &Head) -> Result<Option<Head>, CliError> {
        while self.next.is_some_and(|next| next.position <= head.position) {
            self.step()?;
        }
        Ok(self.next)
    }

    fn step(&mut self) -> Result<(), CliError> {
        self.next = loop {
            match self.walk.step()? {
                Step::Entry(head) if self.is_sound(&head)? => break Some(head),
                Step::End => break None,
                Step::Entry(_) | Step::Damage { .. } | Step::Tail { .. } => {}
            }
        };
        Ok(())
    }

    fn is_sound(&mut self, head: &Head) -> Result<bool, CliError> {
        if let Some(header) = &head.header {
            let (start, end) = (head.position + CRC_START, head.position + head.size);
            return Ok(crc_of(self.file, start, end)? == header.crc());
        }
        let entry = self.walk.entry(head)?;
        Ok(entry.is_ok_and(|entry| entry.verify_crc().is_ok()))
    }
}

/// The leader epoch of a batch, `None` where it has none.
pub(super) fn epoch_of(head: &Head) -> Option<LeaderEpoch> {
    head.header.as_ref()?.leader_epoch()
}
