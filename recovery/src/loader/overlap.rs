//! Segments that reach into those behind them, as beside stray files that somebody put there.

use std::collections::BTreeMap;

use alluvium_record_format::Offset;
use alluvium_segment::{FileKind, SegmentFileName};

use super::engine::overflow;
use super::{Loader, Warning};
use crate::FileError;

impl Loader<'_> {
    /// Where a sealed segment reaches beyond the end of the last one, the log ends where it does:
    /// an append at a lower offset would be acknowledged, and hidden from readers that come along
    /// the old records of that offset. Where one reaches into the next and no further than the end,
    /// that is reported.
    ///
    /// What a recovery has walked is known. Of the others the end is read, from the last one on: as
    /// far as one that ends where the next begins, as all do in a log that was never compacted, or
    /// [`MOST_READ`].
    pub(super) fn pass_overlap(&mut self) -> Result<(), FileError> {
        let bases = self.directory.bases();
        let ([sealed @ .., last], Some((_, end))) = (bases.as_slice(), self.end) else {
            return Ok(());
        };
        let walked_to = self.walked_to();
        let nexts = bases.iter().skip(1);
        let mut left = MOST_READ;
        for (base_offset, next) in sealed.iter().copied().zip(nexts.copied()).rev() {
            let walked = walked_to.get(&base_offset).copied();
            let reaches = if let Some(reaches) = walked {
                reaches
            } else {
                let log = SegmentFileName::new(base_offset, FileKind::Log);
                self.directory.tail(log)?.next_offset
            };
            // One without a record says nothing about those before it; an offset that does not fit
            // is damage, which is seen to elsewhere.
            if reaches == base_offset || overflow(base_offset, reaches).is_some() {
                continue;
            }
            if reaches > next {
                self.warn_of_overlap(base_offset, reaches, next, end);
                let furthest = self.end.map_or(reaches, |(_, furthest)| furthest.max(reaches));
                self.end = Some((*last, furthest));
            } else if walked.is_none() {
                left = left.saturating_sub(1);
                if reaches == next || left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// By their bases, where the segments end that a recovery has seen all of.
    fn walked_to(&self) -> BTreeMap<Offset, Offset> {
        let whole = self.report.recovered.iter().filter(|segment| segment.damage.is_none());
        whole.map(|segment| (segment.base_offset, segment.next_offset)).collect()
    }

    fn warn_of_overlap(&mut self, base_offset: Offset, reaches: Offset, next: Offset, end: Offset) {
        tracing::warn!(
            base_offset = base_offset.get(),
            reaches = reaches.get(),
            next = next.get(),
            end = end.get(),
            "a segment reaches into the next one"
        );
        let warning = if reaches > end {
            Warning::Overlap { base_offset, reaches, end }
        } else {
            Warning::Covered { base_offset, reaches, next }
        };
        self.report.warnings.push(warning);
    }
}

/// So many segments are read at a start to find one that reaches into the next, where none ends
/// where the next begins: in a compacted log.
const MOST_READ: u32 = 8;
