//! Walks a damaged log from one sound entry to the next.

use alluvium_record_format::{Corruption, Offset};

use crate::error::CliError;
use crate::log_file::LogFile;
use crate::resync::{self, Rest};
use crate::walk::{Head, Step, Walk};

/// A part of a log.
pub(super) enum Piece {
    /// An entry that has the checksum it states.
    Sound(Head),
    /// What cannot be kept.
    Lost(Lost),
}

/// Bytes that cannot be kept.
pub(super) struct Lost {
    pub(super) bytes: (u64, u64),
    /// The offsets that they state.
    pub(super) offsets: Option<(Offset, Offset)>,
    pub(super) reason: String,
}

/// A walk that takes no length on trust: in an entry with a wrong checksum others may lie.
pub(super) struct Scan<'f> {
    file: &'f LogFile,
    walk: Walk<'f>,
    /// Below this byte no sound batch begins that the walk has not come to.
    searched: u64,
}

impl<'f> Scan<'f> {
    pub(super) fn new(file: &'f LogFile) -> Self {
        Self { file, walk: Walk::new(file, 0), searched: 0 }
    }

    /// The walk itself, to look at the entry that was given out last.
    pub(super) const fn walk(&mut self) -> &mut Walk<'f> {
        &mut self.walk
    }

    /// The next part, none at the end.
    pub(super) fn step(&mut self) -> Result<Option<Piece>, CliError> {
        let lost = match self.walk.step()? {
            Step::Entry(head) => match self.damage(&head)? {
                None => return Ok(Some(Piece::Sound(head))),
                Some(corruption) => {
                    let end = self.end_of(&head)?;
                    self.walk.go_on_at(end);
                    Lost {
                        bytes: (head.position, end),
                        offsets: Some((head.base_offset, head.last_offset)),
                        reason: corruption.kind().to_string(),
                    }
                }
            },
            Step::Damage { at, corruption, .. } => Lost {
                bytes: (at, self.walk.position().max(at)),
                offsets: None,
                reason: corruption.kind().to_string(),
            },
            Step::Tail { at, left, .. } => {
                Lost { bytes: (at, at + left), offsets: None, reason: "no whole batch".to_owned() }
            }
            Step::End => return Ok(None),
        };
        Ok(Some(Piece::Lost(lost)))
    }

    fn damage(&mut self, head: &Head) -> Result<Option<Corruption>, CliError> {
        Ok(self.walk.entry(head)?.and_then(|entry| entry.verify_crc()).err())
    }

    /// Where an entry with a wrong checksum ends: where it says, or before, at a sound batch, if
    /// its length is what is wrong. Each byte is searched once.
    fn end_of(&mut self, head: &Head) -> Result<u64, CliError> {
        let (from, end) = (head.position + 1, head.position + head.size);
        if self.searched < from && !self.is_followed(head)? {
            self.searched = match resync::next_batch(self.file, from, self.file.len())? {
                Rest::Batch(at) => at,
                Rest::Zeros | Rest::Noise => self.file.len(),
            };
        }
        Ok(if (from..end).contains(&self.searched) { self.searched } else { end })
    }

    /// Whether the length of an entry is right: what follows goes on from its offsets. Then records
    /// that hold batches are not taken for such.
    fn is_followed(&self, head: &Head) -> Result<bool, CliError> {
        let end = head.position + head.size;
        if end == self.file.len() {
            return Ok(true);
        }
        let mut walk = Walk::new(self.file, end);
        let Step::Entry(next) = walk.step()? else { return Ok(false) };
        let goes_on = head.last_offset.checked_add(1) == Some(next.base_offset);
        Ok(goes_on && walk.entry(&next)?.is_ok_and(|entry| entry.verify_crc().is_ok()))
    }
}
