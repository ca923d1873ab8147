//! Recovery of one segment: every batch is checked, the torn tail goes, the indexes are made new.

use std::ops::ControlFlow;

use alluvium_record_format::{CorruptKind, Corruption, Entry, Offset, Position, Timestamp};
use alluvium_sparse_index::{BatchInfo, BuiltIndexes, IndexBuilder, Refusal, TimeEntry};

use crate::active::has_blocks_ahead;
use crate::error::{IoOp, SegmentError};
use crate::names::FileKind;
use crate::segment::Segment;

/// What a scan of a whole segment found. Nothing was changed yet.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scan {
    /// Bytes of the file, a preallocated tail included.
    pub file_bytes: u64,
    /// Bytes of sound batches at its start: what recovery keeps.
    pub valid_bytes: u32,
    /// Batches in them.
    pub batch_count: u64,
    /// The offset after the last of them; the base offset without any.
    pub next_offset: Offset,
    /// The largest timestamp in them, and the last offset of the first batch that has it.
    pub max_timestamp: Option<TimeEntry>,
    /// Why the rest goes; `None` if there is none.
    pub stop: Option<ScanStop>,
    /// The indexes of the valid part, as recovery writes them.
    pub indexes: BuiltIndexes,
}

/// Why a scan stopped before the end of the file. The byte is [`Scan::valid_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanStop {
    /// The bytes are no sound batch, or the file ends inside one.
    Damaged(Corruption),
    /// The batch ends at an offset that does not fit: the segment must be split.
    OffsetOverflow(Offset),
    /// A batch before this one has reached its last offset already: what is appended behind it
    /// would give out offsets twice. Kafka looks at batches with an index entry alone, and empties
    /// the segment.
    OutOfOrder {
        /// The last offset of the batch.
        found: Offset,
        /// The last offset before it.
        last: Offset,
    },
    /// The visitor refused the batch.
    Refused,
}

impl Scan {
    /// Bytes that recovery takes away.
    #[must_use]
    pub fn truncated_bytes(&self) -> u64 {
        self.file_bytes.saturating_sub(u64::from(self.valid_bytes))
    }

    /// The same scan as if no batch were sound: applied, it empties the segment.
    #[must_use]
    pub fn emptied(self, base: Offset) -> Self {
        Self {
            valid_bytes: 0,
            batch_count: 0,
            next_offset: base,
            max_timestamp: None,
            indexes: BuiltIndexes::default(),
            ..self
        }
    }
}

impl Segment {
    /// Checks every batch from the start, CRC included, and shows each sound one to `visitor`;
    /// the first that is damaged or that the visitor refuses ends the scan. Changes nothing.
    ///
    /// Cost: reads the file once, in blocks of 256 KiB, and computes its CRC.
    ///
    /// Source: `LogSegment.recover` in Kafka; `docs/format/segment.md#walk`.
    ///
    /// # Errors
    ///
    /// `Gone`, `Io`. Damage is no error but the outcome: [`Scan::stop`].
    pub fn scan(
        &self,
        visitor: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
    ) -> Result<Scan, SegmentError> {
        let path = self.path(FileKind::Log);
        let stat = self.log_file()?.metadata();
        let file_bytes = stat.map_err(|e| SegmentError::file(IoOp::Stat, &path, e))?.len();
        let mut walker = self.walk(Position::new(0))?.verifying();
        let mut scanned = Scanned::new(self);
        let stop = loop {
            match walker.next_entry() {
                Ok(Some(entry)) => {
                    if let Err(stop) = scanned.take(&entry, visitor) {
                        break Some(stop);
                    }
                }
                Ok(None) => break walker.tail().map(ScanStop::Damaged),
                Err(SegmentError::Corrupt { source, .. }) => break Some(ScanStop::Damaged(source)),
                Err(error) => return Err(error),
            }
        };
        Ok(scanned.finish(file_bytes, stop))
    }

    /// Cuts the segment to what `scan` found sound and writes the indexes of that. The
    /// transaction index is the caller's: [`Segment::reset_aborted`].
    ///
    /// # Errors
    ///
    /// `ReadOnly`; `Busy` while the segment has a writer; `Io`.
    pub fn apply_scan(&self, scan: &Scan) -> Result<(), SegmentError> {
        self.dir().lock()?;
        self.while_sealed(|| {
            let file = self.log_for_write()?;
            let path = || self.path(FileKind::Log);
            let len = u64::from(scan.valid_bytes);
            let truncation = self.begin_truncation();
            self.publish_size(scan.valid_bytes);
            // A power cut may keep blocks behind the end also of a log that was sealed.
            if scan.file_bytes != len || file.metadata().is_ok_and(|it| has_blocks_ahead(&it)) {
                let cut = self.dir().io().set_len(&file, &path, len);
                cut.map_err(|source| SegmentError::file(IoOp::SetLen, &path(), source))?;
            }
            self.log().mark_unsynced();
            self.replace_indexes(&scan.indexes)?;
            self.set_largest(scan.max_timestamp);
            drop(truncation);
            Ok(())
        })
    }

    /// [`Segment::scan`] and [`Segment::apply_scan`] in one.
    ///
    /// # Errors
    ///
    /// As the two. A segment whose scan stopped at [`ScanStop::OffsetOverflow`] is left alone.
    pub fn recover(
        &self,
        visitor: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
    ) -> Result<Scan, SegmentError> {
        let scan = self.scan(visitor)?;
        if !matches!(scan.stop, Some(ScanStop::OffsetOverflow(_))) {
            self.apply_scan(&scan)?;
        }
        Ok(scan)
    }
}

/// The outcome of a scan, as it grows.
struct Scanned {
    base: Offset,
    end: Position,
    batch_count: u64,
    next_offset: Offset,
    max_timestamp: Option<TimeEntry>,
    builder: IndexBuilder,
}

impl Scanned {
    fn new(segment: &Segment) -> Self {
        let base = segment.base_offset();
        Self {
            base,
            end: Position::new(0),
            batch_count: 0,
            next_offset: base,
            max_timestamp: None,
            builder: IndexBuilder::new(base, segment.config().index_interval_bytes),
        }
    }

    /// Takes a sound batch, or says why it ends the scan.
    fn take(
        &mut self,
        entry: &Entry<'_>,
        visitor: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), ScanStop> {
        let info = entry_info(entry, self.end);
        let found = info.last_offset;
        if found < self.base {
            return Err(ScanStop::Damaged(CorruptKind::out_of_range(found.get()).at(self.end)));
        }
        if found.relative_to(self.base).is_none() {
            return Err(ScanStop::OffsetOverflow(found));
        }
        if found < self.next_offset {
            let last = Offset::new(self.next_offset.get().saturating_sub(1));
            return Err(ScanStop::OutOfOrder { found, last });
        }
        if visitor(entry).is_break() {
            return Err(ScanStop::Refused);
        }
        if let Err(refusal) = self.builder.push(info) {
            return Err(match refusal {
                Refusal::OutOfOrder { last, found, .. } => ScanStop::OutOfOrder { found, last },
                _ => ScanStop::OffsetOverflow(found),
            });
        }
        if let Some(timestamp) = info.max_timestamp
            && timestamp > self.max_timestamp.map_or(Timestamp::new(-1), |entry| entry.timestamp)
        {
            self.max_timestamp = Some(TimeEntry::new(timestamp, info.last_offset));
        }
        self.end = self.end.saturating_add_len(entry.bytes().len());
        self.batch_count += 1;
        self.next_offset = Offset::new(info.last_offset.get().saturating_add(1));
        Ok(())
    }

    fn finish(self, file_bytes: u64, stop: Option<ScanStop>) -> Scan {
        Scan {
            file_bytes,
            valid_bytes: self.end.get(),
            batch_count: self.batch_count,
            next_offset: self.next_offset,
            max_timestamp: self.max_timestamp,
            stop,
            // The rule never makes a final entry below the last one.
            indexes: self.builder.finish().unwrap_or_default(),
        }
    }
}

/// What the index rule needs to know of an entry.
fn entry_info(entry: &Entry<'_>, at: Position) -> BatchInfo {
    let max_timestamp = match entry {
        Entry::Batch(batch) => batch.header().max_timestamp(),
        Entry::Legacy(entry) => entry.timestamp(),
        _ => None,
    };
    let size_bytes = u32::try_from(entry.bytes().len()).unwrap_or(u32::MAX);
    BatchInfo::new(entry.last_offset(), at, size_bytes, max_timestamp)
}
