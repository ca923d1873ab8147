//! The aborted transactions of a range of offsets.

use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_segment::Segment;
use alluvium_sparse_index::AbortedTxn;

use crate::error::CleanError;
use crate::options::CleanOptions;

/// The aborted transactions that touch `from..to`: those that the options name, or what the
/// transaction indexes say from the segment with `from` on. A marker may lie in a later segment
/// than what it aborts.
///
/// Source: `LocalLog.collectAbortedTransactions` in Kafka.
pub(crate) fn collect_aborted(
    segments: &[Arc<Segment>],
    options: &CleanOptions,
    from: Offset,
    to: Offset,
) -> Result<Vec<AbortedTxn>, CleanError> {
    let touches = |txn: &&AbortedTxn| txn.last_offset >= from && txn.first_offset < to;
    if let Some(aborted) = &options.aborted {
        return Ok(aborted.iter().filter(touches).copied().collect());
    }
    let start = segments.partition_point(|segment| segment.base_offset() <= from);
    let mut found = Vec::new();
    for segment in &segments[start.saturating_sub(1)..] {
        let part = segment.collect_aborted(from, to).map_err(CleanError::segment)?;
        found.extend(part.txns);
        if part.is_complete {
            break;
        }
    }
    Ok(found)
}
