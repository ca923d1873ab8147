//! `alluvium compact`: the cleaner on one partition, without a broker.

mod producers;
mod show;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_cleaner::{
    CleanError, CleanHost, CleanOptions, CleanReport, Cleaner, CleanerConfig, Offline, Progress,
};
use alluvium_record_format::Timestamp;
use alluvium_recovery::CheckpointKind;
use alluvium_segment::replace::Replacement;
use alluvium_segment::{
    DirLock, FilePool, PartitionDir, Segment, SegmentConfig, SegmentError, Suffix,
};
use clap::Args;

use crate::cleaning_range::CleaningRange;
use crate::console::Console;
use crate::data_dir::DataDir;
use crate::error::CliError;
use crate::partition::{DirKind, Partition, kind_of};
use crate::{log_end, progress};

/// Compact a partition as a broker's cleaner would
///
/// Keeps the last record of every key in all segments but the active one, drops aborted data,
/// and tombstones that have been there long enough. Continues where cleaner-offset-checkpoint
/// says, and moves it. No broker may run on the log directory: its lock is taken. With --dry-run
/// nothing is changed.
///
/// One partition at a time. The settings of the topic are not on the disk; those below have
/// Kafka's defaults.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CompactArgs {
    /// Partition directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Say what would be kept and freed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Say why cleaning begins and ends where it does
    #[arg(long)]
    explain: bool,

    /// The present time, in milliseconds since 1970 [default: the clock's]
    #[arg(long, value_name = "MS")]
    now: Option<i64>,

    /// delete.retention.ms: how long tombstones stay after the pass that first sees them
    #[arg(long, value_name = "MS", default_value_t = 86_400_000)]
    delete_retention_ms: i64,

    /// segment.bytes: up to where segments are merged
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    segment_bytes: u32,

    /// segment.index.bytes: the largest index of a merged segment
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 20)]
    segment_index_bytes: u32,

    /// index.interval.bytes: bytes between index entries
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    index_interval_bytes: u32,

    /// Memory for the offsets of keys: 24 bytes a key
    #[arg(long, value_name = "BYTES", default_value = "134217728")]
    map_bytes: NonZeroUsize,
}

const EXAMPLES: &str = "\
Examples:
  alluvium compact --dry-run --explain /var/lib/kafka/data/orders-0
  alluvium compact --delete-retention-ms 0 /var/lib/kafka/data/orders-0

Exit codes: 0 good, 1 damage found (the partition stays as it is from the damaged segment on),
2 wrong usage, a running broker, or something that cannot be read or written.";

/// Runs the command.
pub(crate) fn run(args: &CompactArgs, console: &mut Console) -> Result<(), CliError> {
    if !matches!(kind_of(&args.dir)?, DirKind::Partition) {
        return Err(CliError::NotKafka { path: args.dir.clone() });
    }
    let mut data = DataDir::above(&args.dir, console)?;
    let lock = data.lock_unless(args.dry_run)?;
    let partition = Partition::read(&args.dir)?;
    let half_done = |suffix| matches!(suffix, Suffix::Cleaned | Suffix::Swap);
    if let Some((_, path)) = partition.suffixed.iter().find(|(name, _)| half_done(name.suffix)) {
        return Err(CliError::HalfDone { path: path.clone() });
    }
    let log_start = partition.log_start(console)?;
    let ends = log_end::of(&partition, log_start)?;
    let range = CleaningRange::of(&partition, log_start, &ends)?;
    show::range(&partition, &range, args.explain, console);
    if range.first_dirty >= range.first_uncleanable {
        return Ok(());
    }
    let now = Timestamp::new(args.now.unwrap_or_else(|| jiff::Timestamp::now().as_millisecond()));
    let options = CleanOptions::new(range.first_dirty, range.first_uncleanable, now)
        .delete_retention_ms(args.delete_retention_ms)
        .segment_bytes(args.segment_bytes)
        .segment(segment_config(args))
        .high_watermark(range.high_watermark)
        .active_producers(producers::active(&partition, ends.end, now)?)
        .dry_run(args.dry_run);
    match clean(args, &partition, lock.as_ref(), &options) {
        Ok(report) => {
            show::report(&report, args.dry_run, console);
            if args.dry_run {
                return Ok(());
            }
            match partition.key() {
                Some(key) => data.note(CheckpointKind::Cleaner, &key, report.next_dirty_offset),
                None => Ok(()),
            }
        }
        Err(error) => damage_or_error(error, console),
    }
}

const fn segment_config(args: &CompactArgs) -> SegmentConfig {
    SegmentConfig::new()
        .index_interval_bytes(args.index_interval_bytes)
        .max_index_bytes(args.segment_index_bytes)
}

fn clean(
    args: &CompactArgs,
    partition: &Partition,
    lock: Option<&DirLock>,
    options: &CleanOptions,
) -> Result<CleanReport, CleanError> {
    let segments = open(args, partition, lock).map_err(CleanError::segment)?;
    let bytes: u64 = segments.iter().map(|segment| u64::from(segment.size_bytes())).sum();
    let mut host = WithBar(progress::Progress::new(2 * bytes));
    let memory = CleanerConfig::new().map_bytes(args.map_bytes.get());
    let report = Cleaner::new(memory).clean(&segments, options, &mut host);
    host.0.finish();
    report
}

fn open(
    args: &CompactArgs,
    partition: &Partition,
    lock: Option<&DirLock>,
) -> Result<Vec<Arc<Segment>>, SegmentError> {
    let pool = FilePool::for_this_process();
    let dir = match lock {
        Some(lock) => PartitionDir::open(&partition.path, lock, &pool)?,
        None => PartitionDir::read_only(&partition.path, &pool),
    };
    let config = segment_config(args);
    partition.logs().map(|(files, _)| Segment::open(&dir, files.base, config)).collect()
}

/// Cleans offline, and draws a bar.
struct WithBar(progress::Progress);

impl CleanHost for WithBar {
    fn progress(&mut self, progress: Progress) -> Result<(), CleanError> {
        self.0.add(progress.read);
        self.0.draw();
        Ok(())
    }

    fn replace(&mut self, replacement: Replacement) -> Result<(), CleanError> {
        Offline.replace(replacement)
    }
}

fn damage_or_error(error: CleanError, console: &mut Console) -> Result<(), CliError> {
    match error {
        CleanError::Corrupt { path, source, .. }
        | CleanError::Segment { source: SegmentError::Corrupt { path, source, .. }, .. } => {
            console.corruption(&path, source)
        }
        source => Err(CliError::Clean { source }),
    }
}
