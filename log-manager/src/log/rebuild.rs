//! Producer state from snapshots and the log.

use std::ops::Range;
use std::sync::Arc;

use alluvium_record_format::{Entry, Offset, Timestamp};
use alluvium_recovery::{
    AppendOrigin, AppendRequest, Prepared, ProducerBatch, ProducerState, SnapshotDir, SnapshotStore,
};
use alluvium_segment::{FileKind, Segment};

use super::{LogError, SegmentList};

/// Brings producer state to the end of a range of the log.
///
/// Source: `UnifiedLog.rebuildProducerState` in Kafka.
pub(super) struct Rebuild<'a> {
    pub(super) segments: &'a [Arc<Segment>],
    /// From the log start to where the state is to be.
    pub(super) range: Range<Offset>,
    /// Whether the log was closed properly: without snapshots, there were no producers then.
    pub(super) clean: bool,
    pub(super) now: Timestamp,
}

impl Rebuild<'_> {
    pub(super) fn run(
        self,
        state: &mut ProducerState,
        snapshots: &mut SnapshotDir,
    ) -> Result<(), LogError> {
        let end = self.range.end;
        let bases = self.segments.iter().rev().take(2).map(|segment| segment.base_offset());
        let mut snapshot_at: Vec<Offset> = bases.chain([end]).collect();
        snapshot_at.sort_unstable();
        if self.clean && snapshots.newest().is_none() {
            for offset in snapshot_at {
                state.set_map_end_offset(offset);
                state.take_snapshot(snapshots, true)?;
            }
            return Ok(());
        }
        let nothing_known = state.producers().len() == 0
            && state.first_unstable().is_none()
            && state.map_end_offset() >= end;
        state.truncate_and_reload(snapshots, self.range.start, end, self.now)?;
        if end > state.map_end_offset() && !nothing_known {
            let list = SegmentList::new(self.segments.to_vec());
            for segment in list.values(state.map_end_offset(), end) {
                let base = segment.base_offset();
                let from = base.max(state.map_end_offset()).max(self.range.start);
                state.set_map_end_offset(from);
                if snapshot_at.contains(&base) {
                    state.take_snapshot(snapshots, false)?;
                }
                replay(segment, from..end, state)?;
            }
        }
        state.set_map_end_offset(end);
        state.take_snapshot(snapshots, true)?;
        Ok(())
    }
}

/// Feeds the batches of one segment to the state, as a follower's append does.
fn replay(
    segment: &Segment,
    range: Range<Offset>,
    state: &mut ProducerState,
) -> Result<(), LogError> {
    let Some(first) = segment.batch_of(range.start)? else { return Ok(()) };
    let request = AppendRequest::new(AppendOrigin::Replication);
    let mut walker = segment.walk(first.position)?;
    let path = segment.path(FileKind::Log);
    while let Some(entry) = walker.next_entry()? {
        let Entry::Batch(batch) = entry else { continue };
        if batch.header().base_offset() >= range.end {
            break;
        }
        let read = ProducerBatch::read(&batch)
            .map_err(|source| LogError::Unreadable { path: path.clone(), source })?;
        let Some(read) = read else { continue };
        // What is in the log was accepted once.
        if let Ok(Prepared::Append(prepared)) = state.prepare(&request, [read]) {
            for completed in state.apply(prepared) {
                state.complete(&completed);
            }
        }
    }
    Ok(())
}
