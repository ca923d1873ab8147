//! Which segments become one.

use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_segment::Segment;

use crate::error::CleanError;
use crate::options::CleanOptions;

/// The segments that may hold offsets of `from..to`.
///
/// Source: `LogSegments.values` in Kafka.
pub(crate) fn values(segments: &[Arc<Segment>], from: Offset, to: Offset) -> &[Arc<Segment>] {
    if from >= to {
        return &[];
    }
    let start = segments.partition_point(|segment| segment.base_offset() <= from);
    let end = segments.partition_point(|segment| segment.base_offset() < to);
    segments.get(start.saturating_sub(1)..end).unwrap_or_default()
}

/// Bytes of what is merged.
#[derive(Clone, Copy)]
struct Sizes {
    log: u64,
    offset_index: u64,
    time_index: u64,
}

/// Cuts `segments` into runs that each become one segment: as long as logs and indexes together
/// stay within their limits, and offsets within reach of the first base. Empty segments join any
/// run.
///
/// Source: `Cleaner.groupSegmentsBySize` in Kafka.
pub(crate) fn group<'a>(
    segments: &'a [Arc<Segment>],
    options: &CleanOptions,
) -> Result<Vec<&'a [Arc<Segment>]>, CleanError> {
    let mut groups = Vec::new();
    let mut rest = segments;
    while let Some(first) = rest.first() {
        let base = first.base_offset();
        let mut sizes = sizes(first)?;
        let mut len = 1;
        while let Some(next) = rest.get(len) {
            let more = sizes.plus(next)?;
            if !more.fit(options) || !reaches(base, rest, len, options) {
                break;
            }
            sizes = more;
            len += 1;
        }
        let (group, after) = rest.split_at(len);
        groups.push(group);
        rest = after;
    }
    Ok(groups)
}

/// Whether the last offset of the segment at `index` fits into a segment with this base.
fn reaches(base: Offset, segments: &[Arc<Segment>], index: usize, options: &CleanOptions) -> bool {
    if segments[index].size_bytes() == 0 {
        return true;
    }
    let next = segments.get(index + 1).map(|segment| segment.base_offset());
    let end = next.unwrap_or(options.first_uncleanable).get();
    end.saturating_sub(1).saturating_sub(base.get()) <= i64::from(i32::MAX)
}

fn sizes(segment: &Segment) -> Result<Sizes, CleanError> {
    let offsets = segment.offset_index().map_err(CleanError::segment)?.len();
    let times = segment.time_index().map_err(CleanError::segment)?.len();
    Ok(Sizes {
        log: segment.size_bytes().into(),
        offset_index: 8 * offsets as u64,
        time_index: 12 * times as u64,
    })
}

impl Sizes {
    fn plus(self, segment: &Segment) -> Result<Self, CleanError> {
        let more = sizes(segment)?;
        Ok(Self {
            log: self.log + more.log,
            offset_index: self.offset_index + more.offset_index,
            time_index: self.time_index + more.time_index,
        })
    }

    fn fit(self, options: &CleanOptions) -> bool {
        let max_index = options.segment.max_index_bytes.into();
        self.log <= options.segment_bytes.into()
            && self.offset_index <= max_index
            && self.time_index <= max_index
    }
}
