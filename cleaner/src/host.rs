//! What a cleaning needs of the one who asks for it.

use std::io::ErrorKind;
use std::sync::Arc;

use alluvium_segment::replace::{FileStep, Replacement};
use alluvium_segment::{FileKind, Segment, SegmentError, SegmentFileName};

use crate::clean::Progress;
use crate::error::CleanError;

/// What a cleaning needs of the one who asks for it: leave to go on, and somebody who puts the
/// new segments where the old ones were.
pub trait CleanHost {
    /// Told of what was read and written since the last call, about every 256 KiB, and before
    /// anything is replaced. May wait, to hold the cleaning to a rate.
    ///
    /// # Errors
    ///
    /// [`CleanError::Stopped`] to end the cleaning: what is written so far of the present group
    /// is removed.
    fn progress(&mut self, progress: Progress) -> Result<(), CleanError>;

    /// Puts new segments in the place of old ones. When it returns, the log reads the new ones.
    ///
    /// # Errors
    ///
    /// Whatever went wrong. The cleaning ends with it.
    fn replace(&mut self, replacement: Replacement) -> Result<(), CleanError>;
}

/// The host of tools: nobody has the log open. Never stops, and removes old files at once,
/// together with the producer snapshots of segments that do not survive.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it holds nothing, and callers name it")]
pub struct Offline;

impl CleanHost for Offline {
    fn progress(&mut self, _progress: Progress) -> Result<(), CleanError> {
        Ok(())
    }

    fn replace(&mut self, mut replacement: Replacement) -> Result<(), CleanError> {
        put_in_place(&mut replacement)?;
        remove_old(replacement.old_segments(), replacement.new_segments())
            .map_err(CleanError::segment)
    }
}

/// As [`Offline`], but the old files stay under the suffix `.deleted`, for readers that have them
/// open: somebody else, or the next start, removes them.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it holds nothing, and callers name it")]
pub struct LeaveOld;

impl CleanHost for LeaveOld {
    fn progress(&mut self, _progress: Progress) -> Result<(), CleanError> {
        Ok(())
    }

    fn replace(&mut self, mut replacement: Replacement) -> Result<(), CleanError> {
        put_in_place(&mut replacement)
    }
}

/// Swaps the new segments in; the old files stay under the suffix `.deleted`.
fn put_in_place(replacement: &mut Replacement) -> Result<(), CleanError> {
    replacement.to_swap().map_err(CleanError::segment)?;
    replacement.retire().map_err(CleanError::segment)
}

/// Removes the files of `old`, and the snapshots of those whose base no new segment has.
fn remove_old(old: &[Arc<Segment>], new: &[Arc<Segment>]) -> Result<(), SegmentError> {
    for segment in old {
        segment.delete_files()?;
        let base = segment.base_offset();
        if new.iter().any(|new| new.base_offset() == base) {
            continue;
        }
        let snapshot = SegmentFileName::new(base, FileKind::Snapshot);
        match FileStep::Remove(snapshot).run(segment.dir()) {
            Ok(()) | Err(SegmentError::Gone { .. }) => {}
            Err(SegmentError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
