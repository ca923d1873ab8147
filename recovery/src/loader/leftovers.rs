//! What an interrupted deletion, cleaning or split has left, and indexes without a log.

use alluvium_record_format::Offset;
use alluvium_segment::replace::{FileStep, plan_leftovers};
use alluvium_segment::{FileKind, SegmentFileName, Suffix};

use super::directory::Directory;
use super::{Change, Reason};
use crate::FileError;

impl Directory {
    /// Removes what is left of unfinished operations, and finishes those that only lack their
    /// last renames.
    pub(super) fn clear_leftovers(&mut self) -> Result<(), FileError> {
        let names = self.names();
        let steps = plan_leftovers(&names, |base| self.swap_end(base))?;
        let mut previous = None;
        for step in steps {
            let stage = Stage::of(step);
            // Names may reach the disk in another order than they were changed in: a .cleaned
            // proves the .swap files unfinished, and a restored log must not meet the segments
            // that it replaces.
            let is_next = previous.is_some_and(|previous| previous != stage);
            if is_next && matches!(stage, Stage::Cleaned | Stage::Restore) {
                self.change(Change::SyncNames, Reason::Order)?;
            }
            previous = Some(stage);
            match step {
                FileStep::Remove(name) => self.change(Change::Remove(name), stage.reason())?,
                FileStep::Restore(name) => self.change(Change::Restore(name), stage.reason())?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes indexes without their log.
    pub(super) fn remove_orphans(&mut self) -> Result<(), FileError> {
        for name in self.names() {
            let is_index = FileKind::SEGMENT.contains(&name.kind) && name.kind != FileKind::Log;
            if is_index && name.suffix == Suffix::None && !self.has(name.offset, FileKind::Log) {
                self.change(Change::Remove(name), Reason::Orphan)?;
            }
        }
        Ok(())
    }

    /// Makes an empty time index where there is none, and leaves it to the reader to search the
    /// log: as in Kafka, a missing time index is no reason to read a whole segment.
    pub(super) fn make_time_indexes(&mut self) -> Result<(), FileError> {
        for base in self.bases() {
            if !self.has(base, FileKind::TimeIndex) && self.has(base, FileKind::OffsetIndex) {
                let name = SegmentFileName::new(base, FileKind::TimeIndex);
                self.write(name, Vec::new(), Reason::IndexMissing, false)?;
            }
        }
        Ok(())
    }

    fn swap_end(&mut self, base: Offset) -> Result<Offset, FileError> {
        let log = SegmentFileName::new(base, FileKind::Log).with_suffix(Suffix::Swap);
        Ok(self.tail(log)?.next_offset)
    }
}

/// Steps of one kind, which may reach the disk in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// `.deleted` and invalid `.swap` files go.
    LeftOver,
    /// `.cleaned` files go.
    Cleaned,
    /// Files go that a `.swap` replaces.
    Replaced,
    /// `.swap` files get their names.
    Restore,
}

impl Stage {
    const fn of(step: FileStep) -> Self {
        match step {
            FileStep::Remove(SegmentFileName { suffix: Suffix::Cleaned, .. }) => Self::Cleaned,
            FileStep::Remove(SegmentFileName { suffix: Suffix::None, .. }) => Self::Replaced,
            FileStep::Restore(_) => Self::Restore,
            _ => Self::LeftOver,
        }
    }

    const fn reason(self) -> Reason {
        match self {
            Self::LeftOver | Self::Cleaned => Reason::LeftOver,
            Self::Replaced | Self::Restore => Reason::Swap,
        }
    }
}
