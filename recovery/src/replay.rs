//! Producer state from snapshots and the log behind them.

use std::sync::Arc;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{FileKind, Segment};

use crate::scan::{LogFile, Step, Walk};
use crate::{
    AppendOrigin, AppendRequest, CompletedTxn, FileError, FoundBatch, Prepared, ProducerError,
    ProducerState, SnapshotStore,
};

/// The part of a log up to which producer state is rebuilt.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Replay {
    /// The first visible offset.
    pub log_start_offset: Offset,
    /// The state is to cover all offsets below.
    pub end_offset: Offset,
    /// Whether the log was stopped cleanly: a log without snapshots then has no producers, and is
    /// not read.
    pub is_clean: bool,
    /// The present time, by which producers expire.
    pub now: Timestamp,
}

impl Replay {
    /// A replay up to `end_offset` after a truncation or an unclean stop.
    #[must_use]
    pub const fn new(log_start_offset: Offset, end_offset: Offset, now: Timestamp) -> Self {
        Self { log_start_offset, end_offset, is_clean: false, now }
    }
}

/// Rebuilds producer state up to an offset: loads the newest snapshot below it, reads the log from
/// there on, and takes a snapshot at the end. Reads headers and markers alone.
///
/// `segments` are all segments of the log, rising. Needed after a truncation; a load does it too.
///
/// Source: `UnifiedLog.rebuildProducerState` in Kafka.
///
/// # Errors
///
/// [`FileError`] for a snapshot or log file that cannot be read or written.
pub fn rebuild_producer_state(
    state: &mut ProducerState,
    snapshots: &mut impl SnapshotStore,
    segments: &[Arc<Segment>],
    replay: &Replay,
) -> Result<(), FileError> {
    let bases: Vec<_> = segments.iter().map(|segment| segment.base_offset()).collect();
    let mut open = |_: &mut _, base: Offset| {
        let segment = segments.iter().find(|segment| segment.base_offset() == base);
        let Some(segment) = segment else { return Ok(None) };
        let path = segment.path(FileKind::Log);
        LogFile::open(segment.dir().io(), &path, 0, segment.size_bytes()).map(Some)
    };
    rebuild(state, snapshots, &bases, replay, &mut open)
}

/// Opens the log of a segment; `None` where there is none.
pub(crate) type OpenLog<'a, S> =
    dyn FnMut(&mut S, Offset) -> Result<Option<LogFile>, FileError> + 'a;

/// As [`rebuild_producer_state`], for segments that are not open.
pub(crate) fn rebuild<S: SnapshotStore>(
    state: &mut ProducerState,
    snapshots: &mut S,
    bases: &[Offset],
    replay: &Replay,
    open: &mut OpenLog<'_, S>,
) -> Result<(), FileError> {
    let Replay { log_start_offset, end_offset, is_clean, now } = *replay;
    tracing::info!(end_offset = end_offset.get(), "Loading producer state till offset");
    // The last two bases are where a truncation will most likely look for a snapshot.
    let last_two = bases.get(bases.len().saturating_sub(2)..).unwrap_or_default();
    if is_clean && snapshots.newest().is_none() {
        for offset in last_two.iter().copied().chain([end_offset]) {
            state.set_map_end_offset(offset);
            state.take_snapshot(snapshots, true)?;
        }
        return Ok(());
    }
    let was_empty = state.is_empty() && state.map_end_offset() >= end_offset;
    state.truncate_and_reload(snapshots, log_start_offset, end_offset, now)?;
    tracing::info!(
        from = state.map_end_offset().get(),
        end_offset = end_offset.get(),
        "Reloading from producer snapshot and rebuilding producer state"
    );
    // A state that was empty before a truncation is empty after it.
    if state.map_end_offset() < end_offset && !was_empty {
        for base in bases_between(bases, state.map_end_offset(), end_offset) {
            let start = state.map_end_offset().max(*base).max(log_start_offset);
            state.set_map_end_offset(start);
            if last_two.contains(base) {
                state.take_snapshot(snapshots, true)?;
            }
            if let Some(file) = open(snapshots, *base)? {
                replay_file(state, &file, start, end_offset)?;
            }
        }
    }
    state.set_map_end_offset(end_offset);
    state.take_snapshot(snapshots, true).map(drop)
}

/// The segments that hold offsets from `from` on and begin below `to`.
pub(crate) fn bases_between(bases: &[Offset], from: Offset, to: Offset) -> &[Offset] {
    let first = bases.partition_point(|base| *base <= from).saturating_sub(1);
    let end = bases.partition_point(|base| *base < to);
    bases.get(first..end).unwrap_or_default()
}

/// Takes the batches of one file that end at `start` or above, up to the one that holds `end`.
fn replay_file(
    state: &mut ProducerState,
    file: &LogFile,
    start: Offset,
    end: Offset,
) -> Result<(), FileError> {
    let mut walk = Walk::headers(file, 0);
    while let Step::Batch(batch) | Step::Bad(batch, _) = walk.step()? {
        if batch.last_offset() >= end {
            break;
        }
        if batch.last_offset() >= start {
            let taken = take_replayed(state, &batch, &mut |_, _| {});
            if let Err(error) = taken {
                tracing::warn!(%error, "passed over a batch in producer state");
            }
        }
    }
    Ok(())
}

/// Takes one batch of the log into the state. `ended` is shown each transaction that it ends,
/// right before it is completed.
pub(crate) fn take_replayed(
    state: &mut ProducerState,
    batch: &FoundBatch,
    ended: &mut dyn FnMut(&ProducerState, &CompletedTxn),
) -> Result<(), ProducerError> {
    const REPLICATION: AppendRequest = AppendRequest::new(AppendOrigin::Replication);
    let Ok(Some(batch)) = batch.producer() else { return Ok(()) };
    if state.take_plain(&batch) {
        return Ok(());
    }
    if let Prepared::Append(prepared) = state.prepare(&REPLICATION, [batch])? {
        for completed in state.apply(prepared) {
            ended(state, &completed);
            state.complete(&completed);
        }
    }
    Ok(())
}
