//! Producer state from snapshots and the log behind them.

use std::sync::Arc;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{FileKind, Segment};

use crate::scan::{LogFile, Step, Walk};
use crate::{
    AppendOrigin, AppendRequest, CompletedTxn, FileError, FoundBatch, Prepared, ProducerError,
    ProducerState, SnapshotStore, Warning,
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
/// Damage in a log file ends the replay of that file, a batch that cannot be is passed over. Both
/// are logged.
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
        let found = segments.binary_search_by_key(&base, |segment| segment.base_offset());
        let Some(segment) = found.ok().and_then(|at| segments.get(at)) else { return Ok(None) };
        let path = segment.path(FileKind::Log);
        LogFile::open(segment.dir().io(), &path, 0, segment.size_bytes()).map(Some)
    };
    rebuild(state, snapshots, &bases, replay, &mut open, &mut drop)
}

/// Opens the log of a segment; `None` where there is none.
pub(crate) type OpenLog<'a, S> =
    dyn FnMut(&mut S, Offset) -> Result<Option<LogFile>, FileError> + 'a;

/// As [`rebuild_producer_state`], for segments that are not open. `warn` is told of damage.
pub(crate) fn rebuild<S: SnapshotStore>(
    state: &mut ProducerState,
    snapshots: &mut S,
    bases: &[Offset],
    replay: &Replay,
    open: &mut OpenLog<'_, S>,
    warn: &mut dyn FnMut(Warning),
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
                replay_file(state, (*base, &file), (start, end_offset), warn)?;
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
/// `warn` is told of the first batch that is passed over, and of damage that ends the replay.
fn replay_file(
    state: &mut ProducerState,
    (base_offset, file): (Offset, &LogFile),
    (start, end): (Offset, Offset),
    warn: &mut dyn FnMut(Warning),
) -> Result<(), FileError> {
    let mut is_told = false;
    let mut walk = Walk::headers(file, 0);
    loop {
        let (batch, damage) = match walk.step()? {
            Step::Batch(batch) => (batch, None),
            Step::Bad(batch, damage) => (batch, Some(damage)),
            Step::Damage(damage) => {
                tracing::warn!(%base_offset, %damage, "producers behind damage are not known");
                warn(Warning::DamageKept { base_offset, damage });
                break;
            }
            Step::End => break,
        };
        if batch.last_offset() >= end {
            break;
        }
        if batch.last_offset() < start {
            continue;
        }
        let taken = take_replayed(state, &batch, &mut |_, _| {});
        let warning = match (damage, taken) {
            (Some(damage), _) => Warning::DamageKept { base_offset, damage },
            (None, Err(error)) => Warning::ProducerBatch { offset: batch.base_offset(), error },
            (None, Ok(())) => continue,
        };
        tracing::warn!(?warning, "passed over a batch in producer state");
        if !is_told {
            is_told = true;
            warn(warning);
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
