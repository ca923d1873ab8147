//! Finds records through the indexes, which are hints, and the log, which is the truth.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use alluvium_record_format::{Corruption, Entry, Offset, Timestamp};
use alluvium_sparse_index::{OffsetEntry, OffsetIndex, TimeEntry, TimeIndex};

use crate::console::Console;
use crate::error::CliError;
use crate::inflate::{AnyRecord, Inflater};
use crate::log_file::{LogFile, Window};
use crate::partition::{FileInfo, Partition, SegmentFiles, must_be_partition};
use crate::walk::{Head, Step, Walk, peek_head};

/// A record, copied out of its batch.
#[derive(Debug)]
pub(super) struct FoundRecord {
    pub(super) offset: Offset,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

impl FoundRecord {
    fn copy(record: &AnyRecord<'_>) -> Self {
        Self {
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
        }
    }
}

/// The way to a record.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) log: PathBuf,
    pub(super) time_entry: Option<TimeEntry>,
    pub(super) index_entry: Option<OffsetEntry>,
    /// First byte of the scan.
    pub(super) start: u64,
    /// Bytes from there to the end of the record's batch.
    pub(super) scanned: u64,
    /// First byte of the record's batch.
    pub(super) batch: u64,
    pub(super) record: FoundRecord,
}

/// Looks for records in one partition.
pub(super) struct Finder {
    partition: Partition,
    log_start: Offset,
    inflater: Inflater,
    /// The segment without timestamps at which the last search by time ended.
    stopped_at: Option<PathBuf>,
}

impl Finder {
    /// Lists the partition in `dir`.
    pub(super) fn open(dir: &Path, console: &mut Console) -> Result<Self, CliError> {
        must_be_partition(dir)?;
        let partition = Partition::read(dir)?;
        let log_start = partition.log_start(console)?;
        Ok(Self { partition, log_start, inflater: Inflater::default(), stopped_at: None })
    }

    /// The segment without timestamps at which the last search by time ended, if it did.
    pub(super) fn stopped_at(&self) -> Option<&Path> {
        self.stopped_at.as_deref()
    }

    /// The record at `target`, or the first one behind it where the cleaner has taken it away.
    pub(super) fn by_offset(
        &mut self,
        target: Offset,
        console: &mut Console,
    ) -> Result<Option<Found>, CliError> {
        if target < self.log_start {
            return Ok(None);
        }
        let segments: Vec<_> = owned(&self.partition);
        let first = segments.partition_point(|(segment, _)| segment.base <= target);
        for (segment, log) in segments.iter().skip(first.saturating_sub(1)) {
            let file = LogFile::open(&log.path)?;
            let way = Way::to_offset(segment, &file, target, None, console)?;
            let wanted = |record: &AnyRecord<'_>| record.offset >= target;
            let found =
                self.scan(&file, way, |head| head.last_offset >= target, wanted, console)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The first record with the time `target` or a later one.
    ///
    /// A segment without any timestamp, such as the cleaner leaves, counts with the time of its
    /// file, as in a broker: a search that comes to a later one ends there with nothing.
    ///
    /// Source: `UnifiedLog.fetchOffsetByTimestamp`, `LogSegment.largestTimestamp` and
    /// `FileRecords.searchForTimestamp` in Kafka.
    pub(super) fn by_timestamp(
        &mut self,
        target: Timestamp,
        console: &mut Console,
    ) -> Result<Option<Found>, CliError> {
        self.stopped_at = None;
        let segments: Vec<_> = owned(&self.partition);
        for (index, (segment, log)) in segments.iter().enumerate() {
            let file = LogFile::open(&log.path)?;
            let times = read_index(segment.time_index.as_ref())?;
            let times = TimeIndex::new(segment.base, &times).without_padding();
            let is_last = index + 1 == segments.len();
            match largest_timestamp(&file, &times, is_last)? {
                Some(largest) if largest < target => continue,
                Some(_) => {}
                None if file.modified_ms()? < target.get() => continue,
                None => {
                    self.stopped_at = Some(log.path.clone());
                    return Ok(None);
                }
            }
            let entry = times.lookup(target);
            let from = entry.map_or(segment.base, |entry| entry.offset).max(self.log_start);
            let way = Way::to_offset(segment, &file, from, entry, console)?;
            let log_start = self.log_start;
            let may_hold = |head: &Head| {
                head.header.is_none_or(|header| header.max_timestamp() >= Some(target))
            };
            let wanted = |record: &AnyRecord<'_>| {
                record.timestamp >= Some(target) && record.offset >= log_start
            };
            return self.scan(&file, way, may_hold, wanted, console);
        }
        Ok(None)
    }

    /// The first wanted record from the start of `way` on, among batches that may hold it.
    fn scan(
        &mut self,
        file: &LogFile,
        way: Way,
        may_hold: impl Fn(&Head) -> bool,
        wanted: impl Fn(&AnyRecord<'_>) -> bool,
        console: &mut Console,
    ) -> Result<Option<Found>, CliError> {
        let mut walk = Walk::new(file, way.start);
        loop {
            let step = walk.step()?;
            let Step::Entry(head) = step else {
                if step.name(file.path(), console)? {
                    continue;
                }
                return Ok(None);
            };
            if !may_hold(&head) {
                continue;
            }
            let record = walk.entry(&head)?.and_then(|entry| self.first(&entry, &wanted));
            match record {
                Ok(Some(record)) => {
                    return Ok(Some(Found {
                        log: file.path().to_path_buf(),
                        time_entry: way.time_entry,
                        index_entry: way.index_entry,
                        start: way.start,
                        scanned: head.position + head.size - way.start,
                        batch: head.position,
                        record,
                    }));
                }
                Ok(None) => {}
                Err(corruption) => console.corruption(file.path(), corruption)?,
            }
        }
    }

    /// The first wanted record of an entry.
    fn first(
        &mut self,
        entry: &Entry<'_>,
        wanted: impl Fn(&AnyRecord<'_>) -> bool,
    ) -> Result<Option<FoundRecord>, Corruption> {
        self.inflater.visit(entry, |record| {
            if wanted(&record) {
                ControlFlow::Break(FoundRecord::copy(&record))
            } else {
                ControlFlow::Continue(())
            }
        })
    }
}

/// Where in a log to begin, and what said so.
#[derive(Clone, Copy, Debug)]
struct Way {
    start: u64,
    index_entry: Option<OffsetEntry>,
    time_entry: Option<TimeEntry>,
}

impl Way {
    /// The way that the offset index gives to `target`, if the log bears it out.
    fn to_offset(
        segment: &SegmentFiles,
        log: &LogFile,
        target: Offset,
        time_entry: Option<TimeEntry>,
        console: &mut Console,
    ) -> Result<Self, CliError> {
        let bytes = read_index(segment.index.as_ref())?;
        let index = OffsetIndex::new(segment.base, &bytes).without_padding();
        let entry = index.lookup(target);
        let start = u64::from(entry.position.get());
        if start == 0 {
            return Ok(Self { start, index_entry: None, time_entry });
        }
        let head = peek_head(&mut Window::new(log, start, log.len()))?;
        if let Some(Ok(head)) = head
            && head.base_offset <= entry.offset
            && head.base_offset > segment.base
        {
            return Ok(Self { start, index_entry: Some(entry), time_entry });
        }
        let path = segment.index.as_ref().map_or(log.path(), |file| &file.path);
        let what = format_args!(
            "the entry for offset {} points to byte {start} of the log, where its batch is not; \
             the log is scanned instead",
            entry.offset
        );
        console.damage(path, None, what)?;
        Ok(Self { start: 0, index_entry: None, time_entry })
    }
}

/// The largest timestamp of a segment: the last entry of its time index, or of the last segment
/// and those without entries what the batches say.
fn largest_timestamp(
    log: &LogFile,
    times: &TimeIndex<'_>,
    is_last: bool,
) -> Result<Option<Timestamp>, CliError> {
    let indexed = times.last_entry().map(|entry| entry.timestamp);
    if indexed.is_some() && !is_last {
        return Ok(indexed);
    }
    let mut largest = indexed;
    let mut walk = Walk::new(log, 0);
    loop {
        match walk.step()? {
            Step::Entry(head) => largest = largest.max(head.max_timestamp),
            Step::End => return Ok(largest),
            Step::Damage { .. } | Step::Tail { .. } => {}
        }
    }
}

fn read_index(file: Option<&FileInfo>) -> Result<Vec<u8>, CliError> {
    file.map_or(Ok(Vec::new()), |file| LogFile::open(&file.path)?.read_index())
}

/// The segments with a log, free of the partition.
fn owned(partition: &Partition) -> Vec<(SegmentFiles, FileInfo)> {
    partition.logs().map(|(segment, log)| (segment.clone(), log.clone())).collect()
}
