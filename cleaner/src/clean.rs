//! One cleaning of one log, from the offset map to the last replacement.

use std::sync::Arc;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::Segment;
use alluvium_segment::replace::Replacement;

use crate::build::{Built, build};
use crate::error::CleanError;
use crate::group::{group, values};
use crate::host::{CleanHost, Offline};
use crate::offset_map::OffsetMap;
use crate::options::{CleanOptions, CleanerConfig};
use crate::output::Output;
use crate::rewrite::{Rewrite, Scratch};
use crate::rules::Rules;
use crate::transactions::Transactions;
use crate::verdicts::Verdicts;

/// Cleans logs one after the other, in the same memory: the offset map, and a few buffers that
/// grow to the largest batch.
///
/// Source: `Cleaner` in Kafka.
#[derive(Debug)]
pub struct Cleaner {
    map: OffsetMap,
    verdicts: Verdicts,
    scratch: Scratch,
}

/// Bytes that went by since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Progress {
    pub(crate) const fn read(bytes: u64) -> Self {
        Self { read: bytes, written: 0 }
    }
}

/// What a cleaning did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CleanReport {
    /// The next offset to clean: what the cleaner's checkpoint becomes.
    pub next_dirty_offset: Offset,
    /// The map was full before the end: the rest is for the next cleaning.
    pub is_map_full: bool,
    /// Keys in the map.
    pub key_count: usize,
    /// What was read to fill the map.
    pub map_records: u64,
    /// Bytes read to fill the map.
    pub map_bytes: u64,
    /// What was read and written to replace segments.
    pub counts: Counts,
    /// What became of each group of segments, in order.
    pub groups: Vec<CleanedGroup>,
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Records that were decided on: `messagesRead` in Kafka. Those of batches whose fate the first
    /// walk had shown count too, though nobody looked into them again; those of batches that went
    /// without a decision, by an aborted transaction or a due marker, do not.
    pub records_read: u64,
    /// Records that stay: `messagesWritten`.
    pub records_written: u64,
    /// Bytes of all batches: `bytesRead`.
    pub bytes_read: u64,
    /// Bytes of the batches that stay: `bytesWritten`.
    pub bytes_written: u64,
}

/// Segments that became one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CleanedGroup {
    /// The old segments, in order.
    pub segments: Vec<CleanedSegment>,
}

/// What became of an old segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CleanedSegment {
    /// Its base offset.
    pub base_offset: Offset,
    /// Its bytes.
    pub size_bytes: u32,
    /// What was copied of it.
    pub counts: Counts,
}

/// Cleans `segments` with memory of its own: [`Cleaner::clean`] without a manager, for tools.
///
/// # Errors
///
/// As [`Cleaner::clean`].
pub fn clean(segments: &[Arc<Segment>], options: &CleanOptions) -> Result<CleanReport, CleanError> {
    Cleaner::new(CleanerConfig::new()).clean(segments, options, &mut Offline)
}

impl Cleaner {
    /// A cleaner with this memory.
    #[must_use]
    pub fn new(config: CleanerConfig) -> Self {
        let verdicts_bytes = config.map_bytes / 16;
        let map = OffsetMap::sharing(config.map_bytes, config.load_factor, verdicts_bytes);
        Self {
            verdicts: Verdicts::new(verdicts_bytes.max(LEAST_VERDICTS_BYTES)),
            scratch: Scratch::of(&map),
            map,
        }
    }

    /// Cleans a log once: keeps the last record of every key in the dirty part, and in all
    /// before it the records that no later one replaces.
    ///
    /// `segments` are all of the log, in order, the active one included if there is one: it is
    /// never touched, but may hold the marker of an aborted transaction. The log must not be
    /// truncated meanwhile. Segments are replaced group by group, each wholly: a crash or an
    /// error leaves whole groups, and a consumer that replays the log ends with the same value
    /// for each key either way. Offsets never change.
    ///
    /// Two walks: one over the dirty part, one over everything up to its end. Checksums are
    /// compared in both. Memory: that of the map, three times the largest batch, a bit for each
    /// record of a batch, which is 256 MiB at most, and 16 MiB, whatever a batch inflates to;
    /// beside that, the window of a zstd frame above 2 MiB, a chunk of snappy, or the messages of
    /// one wrapper of magic 0 or 1.
    ///
    /// Source: `Cleaner.doClean` in Kafka; `docs/format/compaction.md`.
    ///
    /// # Errors
    ///
    /// `Corrupt` or `Rebuild` if a batch is damaged: its segment and those after it stay as they
    /// are. `Segment`, `MapTooSmall`, `OutOfMemory`, and `Stopped` or whatever else the host says.
    pub fn clean(
        &mut self,
        segments: &[Arc<Segment>],
        options: &CleanOptions,
        host: &mut dyn CleanHost,
    ) -> Result<CleanReport, CleanError> {
        if self.map.is_refused() {
            return Err(CleanError::OutOfMemory);
        }
        if self.map.capacity() == 0 {
            return Err(CleanError::MapTooSmall);
        }
        let reader = &mut self.scratch.reader;
        let memory = (&mut self.map, &mut self.verdicts);
        let built = build(memory, reader, segments, options, host)?;
        let mut report = self.report(options, built);
        let Some(latest) = built.latest else { return Ok(report) };
        let legacy_horizon = legacy_horizon(segments, options)?;
        let mut rewrite = Rewrite {
            rules: Rules { map: &self.map, verdicts: &self.verdicts, latest, options },
            scratch: &mut self.scratch,
            transactions: Transactions::default(),
            legacy_horizon,
            counts: Counts::default(),
        };
        let cleanable = values(segments, Offset::new(0), report.next_dirty_offset);
        for group in group(cleanable, options)? {
            let cleaned = clean_group(&mut rewrite, segments, group, host)?;
            for segment in &cleaned.segments {
                report.counts.add(segment.counts);
            }
            report.groups.push(cleaned);
        }
        Ok(report)
    }

    /// The most keys that the map takes.
    pub(crate) const fn map_capacity(&self) -> usize {
        self.map.capacity()
    }

    fn report(&self, options: &CleanOptions, built: Built) -> CleanReport {
        let after = |latest: Offset| Offset::new(latest.get().saturating_add(1));
        CleanReport {
            next_dirty_offset: built.latest.map_or(options.first_dirty, after),
            is_map_full: built.is_full,
            key_count: self.map.len(),
            map_records: built.records,
            map_bytes: built.bytes,
            ..CleanReport::default()
        }
    }
}

/// Writes what stays of a group, and has it put in the group's place.
fn clean_group(
    rewrite: &mut Rewrite<'_>,
    segments: &[Arc<Segment>],
    group: &[Arc<Segment>],
    host: &mut dyn CleanHost,
) -> Result<CleanedGroup, CleanError> {
    let ([first, ..], [.., last]) = (group, group) else {
        return Ok(CleanedGroup { segments: Vec::new() });
    };
    let options = rewrite.rules.options;
    let base = first.base_offset();
    let mut output = Output::begin(first.dir(), base, options.segment, options.dry_run)
        .map_err(CleanError::segment)?;
    let cleaned = rewrite.group(segments, group, &mut output, host)?;
    if !options.dry_run {
        let new = output.finish(last).map_err(CleanError::segment)?;
        let anchor = new.first().filter(|first| first.size_bytes() == 0 && new.len() > 1).cloned();
        let replacement = Replacement::new(first.dir(), new, group.to_vec());
        host.replace(replacement.map_err(CleanError::segment)?)?;
        if let Some(anchor) = anchor {
            let removal = Replacement::new(first.dir(), Vec::new(), vec![anchor]);
            host.replace(removal.map_err(CleanError::segment)?)?;
        }
    }
    Ok(CleanedGroup { segments: cleaned })
}

/// Tombstones of magic 0 and 1 carry no horizon: they go in segments that are older by the
/// retention than the last clean one.
fn legacy_horizon(
    segments: &[Arc<Segment>],
    options: &CleanOptions,
) -> Result<Timestamp, CleanError> {
    let clean = values(segments, Offset::new(0), options.first_dirty);
    let Some(last) = clean.last() else { return Ok(Timestamp::new(0)) };
    let modified = last.modified().map_err(CleanError::segment)?;
    Ok(Timestamp::new(modified.get().saturating_sub(options.delete_retention_ms)))
}

/// Room for some thousand offsets, however small the map.
const LEAST_VERDICTS_BYTES: usize = 4 << 10;

impl Counts {
    pub(crate) const fn add(&mut self, other: Self) {
        self.records_read += other.records_read;
        self.records_written += other.records_written;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}
