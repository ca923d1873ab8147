//! One segment under the scrubber.

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::{Entry, Offset, Position, Timestamp};
use alluvium_recovery::TopicPartition;
use alluvium_segment::page_cache::{drop_pages, residency};
use alluvium_segment::{FileKind, OffsetIndexView, Segment, SegmentError, TimeIndexView};

use super::ScrubDamageKind;

/// One segment, and how far it is read.
#[derive(Debug)]
pub(super) struct SegmentScrub {
    partition: TopicPartition,
    segment: Arc<Segment>,
    position: Position,
    /// The entries that come next.
    offset_entry: usize,
    time_entry: usize,
    /// The largest time so far; `None` where old messages make it unknown.
    largest: Option<Timestamp>,
}

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) bytes: u64,
    pub(super) is_done: bool,
}

type Tell<'a> = dyn FnMut(&TopicPartition, PathBuf, ScrubDamageKind) + 'a;

impl SegmentScrub {
    pub(super) fn new(partition: TopicPartition, segment: Arc<Segment>) -> Self {
        Self {
            partition,
            segment,
            position: Position::new(0),
            offset_entry: 0,
            time_entry: 0,
            largest: Some(Timestamp::new(-1)),
        }
    }

    /// Reads on until `budget` bytes are used up, or the segment is.
    pub(super) fn run(&mut self, budget: i64, tell: &mut Tell<'_>) -> Read {
        let from = self.position;
        let cached = self.cached_pages(budget);
        let is_done = match self.walk(budget, tell) {
            Ok(is_done) => is_done,
            // Retention or a cleaner was quicker.
            Err(SegmentError::Gone { .. }) => true,
            Err(SegmentError::Corrupt { path, source, .. }) => {
                tell(&self.partition, path, ScrubDamageKind::Batch(source));
                true
            }
            Err(error) => {
                let path = self.segment.path(FileKind::Log);
                tell(&self.partition, path, ScrubDamageKind::Unreadable(error));
                true
            }
        };
        if let Some(cached) = cached {
            self.let_go(from, &cached);
        }
        let bytes = u64::from(self.position.get().saturating_sub(from.get()));
        // A segment that yields nothing costs something all the same.
        Read { bytes: bytes.max(1), is_done }
    }

    /// Returns whether the end is reached.
    fn walk(&mut self, budget: i64, tell: &mut Tell<'_>) -> Result<bool, SegmentError> {
        let indexes = (self.segment.offset_index()?, self.segment.time_index()?);
        let mut walker = self.segment.walk(self.position)?;
        let from = i64::from(self.position.get());
        while let Some(entry) = walker.next_entry()? {
            let found = Found::of(&entry);
            if let Err(damage) = entry.verify_crc() {
                let path = self.segment.path(FileKind::Log);
                tell(&self.partition, path, ScrubDamageKind::Batch(damage));
            }
            self.check_offsets(&indexes.0, found, tell);
            self.check_times(&indexes.1, found, tell);
            self.position = walker.position();
            if i64::from(self.position.get()) - from >= budget {
                return Ok(false);
            }
        }
        if let Some(damage) = walker.tail() {
            let path = self.segment.path(FileKind::Log);
            tell(&self.partition, path, ScrubDamageKind::Batch(damage));
        } else {
            self.check_rest(&indexes.0, &indexes.1, tell);
        }
        Ok(true)
    }

    /// An entry must lead to where a batch begins, and not behind records that it stands for.
    fn check_offsets(&mut self, index: &OffsetIndexView, found: Found, tell: &mut Tell<'_>) {
        while let Some(entry) = index.entry(self.offset_entry)
            && entry.position <= found.position
        {
            if entry.position < found.position || entry.offset < found.first {
                self.tell_offset(index, tell);
            }
            self.offset_entry += 1;
        }
    }

    /// An entry must give the largest time of all records up to its offset.
    fn check_times(&mut self, index: &TimeIndexView, found: Found, tell: &mut Tell<'_>) {
        let before = self.largest;
        self.largest = before.zip(found.largest).map(|(one, other)| one.max(other));
        while let Some(entry) = index.entry(self.time_entry)
            && entry.offset <= found.last
        {
            let fits = before
                .zip(self.largest)
                .is_none_or(|(before, after)| (before..=after).contains(&entry.timestamp));
            if !fits {
                self.tell_time(index, tell);
            }
            self.time_entry += 1;
        }
    }

    /// Entries behind the last batch.
    fn check_rest(
        &mut self,
        offsets: &OffsetIndexView,
        times: &TimeIndexView,
        tell: &mut Tell<'_>,
    ) {
        while self.offset_entry < offsets.len() {
            self.tell_offset(offsets, tell);
            self.offset_entry += 1;
        }
        while self.time_entry < times.len() {
            self.tell_time(times, tell);
            self.time_entry += 1;
        }
    }

    fn tell_offset(&self, index: &OffsetIndexView, tell: &mut Tell<'_>) {
        if let Some(found) = index.entry(self.offset_entry) {
            let (offset, position) = (found.offset, found.position);
            let kind = ScrubDamageKind::OffsetEntry { entry: self.offset_entry, offset, position };
            tell(&self.partition, self.segment.path(FileKind::OffsetIndex), kind);
        }
    }

    fn tell_time(&self, index: &TimeIndexView, tell: &mut Tell<'_>) {
        if let Some(found) = index.entry(self.time_entry) {
            let (offset, timestamp) = (found.offset, found.timestamp);
            let kind = ScrubDamageKind::TimeEntry { entry: self.time_entry, offset, timestamp };
            tell(&self.partition, self.segment.path(FileKind::TimeIndex), kind);
        }
    }

    /// The pages that somebody else has brought into memory, as ranges of bytes.
    fn cached_pages(&self, budget: i64) -> Option<Vec<std::ops::Range<u64>>> {
        let from = u64::from(self.position.get());
        let len = u64::try_from(budget).unwrap_or(0).saturating_add(AHEAD_BYTES);
        let end = from.saturating_add(len).min(u64::from(self.segment.size_bytes()));
        let file = self.segment.log_file().ok()?;
        let found = residency(&file, from..end.max(from)).ok()?;
        let bytes = |pages: &std::ops::Range<u64>| {
            pages.start * found.page_bytes..pages.end * found.page_bytes
        };
        Some(found.resident.iter().map(bytes).collect())
    }

    /// Lets go of the pages that were read and were not in memory before.
    fn let_go(&self, from: Position, cached: &[std::ops::Range<u64>]) {
        let Ok(file) = self.segment.log_file() else { return };
        let (mut at, end) = (u64::from(from.get()), u64::from(self.position.get()));
        for range in cached {
            if at < range.start.min(end) {
                drop(drop_pages(&file, &(at..range.start.min(end))));
            }
            at = at.max(range.end);
        }
        if at < end {
            drop(drop_pages(&file, &(at..end)));
        }
    }
}

/// What the indexes are compared with.
#[derive(Clone, Copy, Debug)]
struct Found {
    first: Offset,
    last: Offset,
    position: Position,
    largest: Option<Timestamp>,
}

impl Found {
    fn of(entry: &Entry<'_>) -> Self {
        let position = entry.position();
        match entry {
            Entry::Batch(batch) => {
                let header = batch.header();
                Self {
                    first: header.base_offset(),
                    last: header.last_offset(),
                    position,
                    // No time is below every time.
                    largest: Some(header.max_timestamp().unwrap_or(Timestamp::new(-1))),
                }
            }
            // A message of an old format that holds others is named after the last of them.
            _ => Self { first: Offset::new(0), last: Offset::MAX, position, largest: None },
        }
    }
}

/// The walk reads ahead by as much.
const AHEAD_BYTES: u64 = 256 << 10;
