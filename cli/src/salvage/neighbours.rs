//! What stands before and behind a batch: whether its offsets and its epoch can be right.

use alluvium_record_format::{LeaderEpoch, Offset};

use crate::error::CliError;
use crate::log_file::LogFile;
use crate::partition::FileInfo;
use crate::walk::{Head, Step, Walk};

/// What a segment lies between.
pub(super) struct Near {
    base: Offset,
    /// The first entry of the next segment.
    pub(super) next: Option<Head>,
}

impl Near {
    pub(super) fn new(base: Offset, next: Option<&FileInfo>) -> Result<Self, CliError> {
        let Some(file) = next else { return Ok(Self { base, next: None }) };
        let file = LogFile::open(&file.path)?;
        Ok(Self { base, next: next_head(&mut Walk::new(&file, 0))? })
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
        if base < self.base || last < base || last.relative_to(self.base).is_none() {
            return Some(format!("offsets {base} to {last} lie outside of the segment"));
        }
        let next = next.map(|next| next.base_offset).filter(|next| (end..base).contains(next))?;
        Some(format!("offsets {base} to {last} lie between {end} and {next}"))
    }
}

/// The head of the next entry that is one.
pub(super) fn next_head(walk: &mut Walk<'_>) -> Result<Option<Head>, CliError> {
    loop {
        match walk.step()? {
            Step::Entry(head) => return Ok(Some(head)),
            Step::End => return Ok(None),
            Step::Damage { .. } | Step::Tail { .. } => {}
        }
    }
}

/// The leader epoch of a batch, `None` where it has none.
pub(super) fn epoch_of(head: &Head) -> Option<LeaderEpoch> {
    head.header.as_ref()?.leader_epoch()
}
