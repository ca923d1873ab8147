//! The batches of one chunk of a file, found without knowing where the first one begins.

use std::sync::atomic::{AtomicBool, Ordering};

use alluvium_record_format::Offset;

use super::candidates::next_candidate;
use super::window::to_usize;
use super::{FoundBatch, LogFile, Step, Walk};
use crate::FileError;

/// Finds batches that begin in `range`, in rising order of position.
///
/// Each is a whole batch with a right checksum at its position; whether the log has a batch
/// there is for the stitcher to say. Some may be missing, as the search gives up when false
/// candidates have cost as much as the chunk itself. `stop` ends it early.
pub(super) fn find_batches(
    file: &LogFile,
    range: (u32, u32),
    segment_base: Offset,
    stop: &AtomicBool,
) -> Result<Vec<FoundBatch>, FileError> {
    let (start, end) = range;
    let mut found = Vec::new();
    let mut walk = Walk::content(file, start);
    let mut budget = to_usize(end.saturating_sub(start));
    let mut from = start;
    while let Some(candidate) = next_candidate(walk.window(), (from, end), segment_base)? {
        let before = found.len();
        walk.jump(candidate);
        let wasted = follow(&mut walk, end, stop, &mut found)?;
        budget = budget.saturating_sub(wasted);
        let reached = found.last().filter(|_| found.len() > before).map(|batch| batch.end().get());
        if reached >= Some(end) || budget == 0 || stop.load(Ordering::Relaxed) {
            break;
        }
        // Nothing there: the next byte may be one. After batches: the byte behind them.
        from = reached.unwrap_or(candidate.saturating_add(1));
    }
    Ok(found)
}

/// Walks on to the end of the chunk or to the first bytes that are no batch. Returns how many
/// bytes were read in vain.
fn follow(
    walk: &mut Walk<'_>,
    end: u32,
    stop: &AtomicBool,
    found: &mut Vec<FoundBatch>,
) -> Result<usize, FileError> {
    while walk.position() < end && !stop.load(Ordering::Relaxed) {
        match walk.step()? {
            Step::Batch(batch) => found.push(batch),
            Step::Bad(batch, _) => return Ok(to_usize(batch.size_bytes)),
            Step::Damage(_) | Step::End => break,
        }
    }
    Ok(0)
}
