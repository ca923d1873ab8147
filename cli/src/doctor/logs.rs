//! Checks of the partitions: sizes, times, transactions, the cleaner.

use std::time::UNIX_EPOCH;

use alluvium_cleaner::CompactionLags;
use alluvium_log_manager::LogConfig;
use alluvium_record_format::{Offset, Timestamp};
use alluvium_recovery::CheckpointKind;

use super::Finding;
use super::pitfall::Pitfall;
use super::settings::LARGE_BYTES;
use crate::cleaning_range::{Begin, CleaningRange, End};
use crate::compact;
use crate::console::Console;
use crate::data_dir::DataDir;
use crate::error::CliError;
use crate::log_end;
use crate::log_file::LogFile;
use crate::partition::{FileInfo, Partition, SegmentFiles};
use crate::progress::Progress;
use crate::readable::{Bytes, Span, Time};
use crate::settings::Settings;
use crate::topic_settings::TopicSettings;
use crate::walk::{Step, Walk};

/// What the checks go by.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) data: &'a DataDir,
    pub(super) settings: &'a Settings,
    pub(super) topics: &'a TopicSettings,
    pub(super) now: Timestamp,
}

impl Context<'_> {
    /// The settings of a partition that is compacted, else `None`. Where nobody says how its topic
    /// is cleaned, an entry in the cleaner's checkpoint does. What is refused was named before.
    fn compacted(&self, partition: &Partition) -> Option<LogConfig> {
        let key = partition.key()?;
        let own = self.topics.of(key.topic());
        let config = match own {
            Some(own) => self.settings.of_topic_but_refused(key.topic(), own).0,
            None => self.settings.log.clone(),
        };
        let is_noted = self.data.offset(CheckpointKind::Cleaner, &key).is_some();
        let is_controllers = key.topic() == "__cluster_metadata";
        let is_compacted = match own {
            Some(_) => config.cleanup_policy().compacts(),
            None => is_noted || config.cleanup_policy().compacts() && !is_controllers,
        };
        is_compacted.then_some(config)
    }
}

/// Times of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    largest: Option<Timestamp>,
    /// The batch that lies furthest behind one before it, and by how many milliseconds.
    latest: Option<(Offset, u64)>,
}

/// Reads the times of the batches of a segment.
pub(super) fn times(log: &FileInfo, progress: &Progress) -> Result<Times, CliError> {
    let file = LogFile::open(&log.path)?;
    let mut walk = Walk::new(&file, 0);
    let (mut times, mut counted) = (Times::default(), 0);
    loop {
        match walk.step()? {
            Step::Entry(head) => {
                if let Some(time) = head.max_timestamp.filter(|time| time.get() >= 0) {
                    times.add(head.base_offset, time);
                }
            }
            Step::End => break,
            Step::Damage { .. } | Step::Tail { .. } => {}
        }
        progress.add(walk.position() - counted);
        counted = walk.position();
    }
    Ok(times)
}

impl Times {
    fn add(&mut self, offset: Offset, time: Timestamp) {
        let behind = self.largest.map_or(0, |largest| behind(largest, time));
        if behind > self.latest.map_or(0, |(_, most)| most) {
            self.latest = Some((offset, behind));
        }
        self.largest = self.largest.max(Some(time));
    }
}

/// Milliseconds by which `time` lies before `largest`.
fn behind(largest: Timestamp, time: Timestamp) -> u64 {
    u64::try_from(largest.get().saturating_sub(time.get())).unwrap_or(0)
}

/// Checks one partition; `times` has an element for each segment, or none at all.
pub(super) fn check(
    partition: &Partition,
    times: &[Times],
    context: &Context<'_>,
    console: &mut Console,
) -> Result<Vec<Finding>, CliError> {
    let mut found = Vec::new();
    let mut add = |pitfall, text: String| {
        found.push(Finding::new(pitfall, &partition.path, text));
    };
    let logs: Vec<(&SegmentFiles, &FileInfo)> = partition.logs().collect();
    let compacted = context.compacted(partition);
    check_sizes(&logs, compacted.is_some(), &mut add);
    check_times(&logs, times, context, &mut add);
    let log_start = partition.log_start(console)?;
    let ends = log_end::of(partition, log_start)?;
    for (producer, first) in &ends.open {
        let since = partition.time_at(*first)?;
        let age = since.map_or(0, |since| behind(activity(partition).unwrap_or(since), since));
        if age > HANGING_MS {
            let (since, age) = (Time(since.map_or(-1, Timestamp::get)), Span(age));
            add(
                Pitfall::HangingTransaction,
                format!("producer {producer}, from offset {first}: begun {since}, open for {age}"),
            );
        }
    }
    if let Some(config) = compacted {
        let range = CleaningRange::if_known(partition, log_start, &ends, console)?;
        if let (Some(range), Some(active)) = (range, activity(partition)) {
            check_cleaner(partition, range, &config, active, &mut add);
        }
    }
    Ok(found)
}

fn check_sizes(
    logs: &[(&SegmentFiles, &FileInfo)],
    is_compacted: bool,
    add: &mut impl FnMut(Pitfall, String),
) {
    let sealed = logs.split_last().map_or(&[][..], |(_, sealed)| sealed);
    let count = sealed.len() as u64;
    let bytes: u64 = sealed.iter().map(|(_, log)| log.bytes).sum();
    // The cleaner leaves small segments behind, and merges them later.
    if !is_compacted && count >= TINY_COUNT && bytes / count < TINY_BYTES {
        let mean = Bytes(bytes / count);
        add(Pitfall::TinySegments, format!("{count} full segments of {mean} on average"));
    }
    let large = logs.iter().filter(|(_, log)| log.bytes >= LARGE_BYTES / 10 * 9).count();
    if is_compacted && large > 0 {
        let largest = logs.iter().map(|(_, log)| log.bytes).max().unwrap_or(0);
        let largest = Bytes(largest);
        add(
            Pitfall::LargeCompactedSegments,
            format!("a compacted partition with segments of up to {largest}"),
        );
    }
}

fn check_times(
    logs: &[(&SegmentFiles, &FileInfo)],
    times: &[Times],
    context: &Context<'_>,
    add: &mut impl FnMut(Pitfall, String),
) {
    let mut largest: Option<(Timestamp, Offset)> = None;
    let mut latest: Option<(u64, Offset, Offset)> = None;
    let mut note = |by, offset, base| {
        if by > latest.map_or(DISORDER_MS, |(most, _, _)| most) {
            latest = Some((by, offset, base));
        }
    };
    for ((files, _), times) in logs.iter().zip(times) {
        if let Some((offset, by)) = times.latest {
            note(by, offset, files.base);
        }
        let Some(time) = times.largest else { continue };
        if let Some((before, base)) = largest {
            note(behind(before, time), files.base, base);
        }
        if largest.is_none_or(|(before, _)| before < time) {
            largest = Some((time, files.base));
        }
    }
    if let Some((by, offset, base)) = latest {
        let by = Span(by);
        add(
            Pitfall::OutOfOrderTimestamps,
            format!("offset {offset} is {by} older than a record before it, in segment {base}"),
        );
    }
    if let Some((time, base)) = largest
        && behind(time, context.now) > 0
    {
        let (ahead, time) = (Span(behind(time, context.now)), Time(time.get()));
        add(
            Pitfall::FutureTimestamps,
            format!("segment {base} has a record of {time}, {ahead} ahead of the clock"),
        );
    }
}

fn check_cleaner(
    partition: &Partition,
    mut range: CleaningRange,
    config: &LogConfig,
    active: Timestamp,
    add: &mut impl FnMut(Pitfall, String),
) {
    if let Begin::Outside(offset) = range.begin {
        let start = range.first_dirty;
        // Where retention drops segments too, it overtakes the cleaner now and then.
        if offset > start || !config.cleanup_policy().deletes() {
            let text =
                format!("cleaner-offset-checkpoint says {offset}, the log starts at {start}");
            add(Pitfall::StuckCleaner, text);
            return;
        }
    }
    let lags = lags(partition, &range, config, active);
    if let Some(base) = lags.first_young {
        range.stop_at_young(base, config.min_compaction_lag_ms(), partition);
    }
    let wanted = config.min_cleanable_dirty_ratio();
    let Some(ratio) = range.dirty_ratio() else { return };
    let above = (ratio > wanted)
        .then(|| dirty_since(partition, &range, wanted))
        .flatten()
        .map(|since| behind(active, since).saturating_sub(config.min_compaction_lag_ms()))
        .filter(|age| *age > STUCK_MS)
        .map(|age| format!("ratio {ratio:.2} above {wanted}, waiting for {}", Span(age)));
    let late = || {
        let arrived = cleanable(partition, &range).next().and_then(|(_, log)| modified(log));
        let late_ms = lags.overdue_ms.min(behind(active, arrived?));
        let (age, lag) = (Span(late_ms), Span(config.max_compaction_lag_ms()));
        (late_ms > STUCK_MS)
            .then(|| format!("{age} late for max.compaction.lag.ms, which is {lag}"))
    };
    if let Some(why) = above.or_else(late) {
        let (from, to, bytes) =
            (range.first_dirty, range.first_uncleanable, Bytes(range.cleanable_bytes));
        let bound = match range.end {
            End::ActiveSegment => "the active segment",
            End::HighWatermark => "the high watermark",
            End::OpenTransaction(_) => "an open transaction",
            End::Young(_) => "records that are too young",
        };
        let text = format!("dirty from {from} to {to}, where {bound} is: {bytes}, {why}");
        add(Pitfall::StuckCleaner, text);
    }
}

/// How the dirty records lay to the compaction lags when the broker was last active. Segments that
/// cannot be opened count as old, and in time.
fn lags(
    partition: &Partition,
    range: &CleaningRange,
    config: &LogConfig,
    active: Timestamp,
) -> CompactionLags {
    let is_unbounded = i64::try_from(config.max_compaction_lag_ms()) == Ok(i64::MAX);
    if config.min_compaction_lag_ms() == 0 && is_unbounded {
        return CompactionLags::default();
    }
    let lags = compact::open(config, partition, None)
        .and_then(|segments| CompactionLags::of(&segments, range.first_dirty, config, active));
    lags.unwrap_or_default()
}

/// Since when the log is as dirty as that: the segment that brought the ratio above is sealed, so
/// its file is as old as its last record's arrival, and since then the cleaner was allowed to take
/// it after the lag.
fn dirty_since(partition: &Partition, range: &CleaningRange, wanted: f64) -> Option<Timestamp> {
    let mut until = range.clone();
    until.cleanable_bytes = 0;
    let (_, log) = cleanable(partition, range).find(|(_, log)| {
        until.cleanable_bytes += log.bytes;
        until.dirty_ratio().is_some_and(|ratio| ratio > wanted)
    })?;
    modified(log)
}

/// The segments that the cleaner may take.
fn cleanable<'a>(
    partition: &'a Partition,
    range: &CleaningRange,
) -> impl Iterator<Item = (&'a SegmentFiles, &'a FileInfo)> {
    let bases = range.first_dirty..range.first_uncleanable;
    partition.logs().filter(move |(files, _)| bases.contains(&files.base))
}

/// When the broker last did something in the log directory: a stopped one keeps nobody waiting.
fn activity(partition: &Partition) -> Option<Timestamp> {
    let absolute = std::fs::canonicalize(&partition.path).ok()?;
    let log_dir = absolute.parent()?;
    CheckpointKind::ALL
        .iter()
        .map(|kind| log_dir.join(kind.file_name()))
        .chain(partition.logs().map(|(_, log)| log.path.clone()))
        .filter_map(|path| modified_at(&path))
        .max()
}

fn modified(log: &FileInfo) -> Option<Timestamp> {
    modified_at(&log.path)
}

fn modified_at(path: &std::path::Path) -> Option<Timestamp> {
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::new(i64::try_from(since.as_millis()).ok()?))
}

/// Fewer small segments cost nothing worth a word.
const TINY_COUNT: u64 = 20;
const TINY_BYTES: u64 = 1 << 20;

/// Producers of one partition differ by less in good order.
const DISORDER_MS: u64 = 600_000;

/// The default of `transaction.max.timeout.ms`, and a quarter of an hour for the coordinator.
const HANGING_MS: u64 = 1_800_000;

/// The cleaner looks every 15 seconds; a large log may take hours.
const STUCK_MS: u64 = 86_400_000;
