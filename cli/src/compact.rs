//! `alluvium compact`: the cleaner on one partition, without a broker.

mod producers;
mod show;

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_cleaner::{
    CleanError, CleanHost, CleanOptions, CleanReport, Cleaner, CleanerConfig, CompactionLags,
    Offline, Progress,
};
use alluvium_log_manager::LogConfig;
use alluvium_record_format::Timestamp;
use alluvium_recovery::CheckpointKind;
use alluvium_segment::replace::Replacement;
use alluvium_segment::{DirLock, FilePool, PartitionDir, Segment, SegmentError, Suffix};
use alluvium_sparse_index::IndexError;
use clap::Args;

use crate::cleaning_range::CleaningRange;
use crate::console::Console;
use crate::data_dir::DataDir;
use crate::error::CliError;
use crate::partition::{Partition, must_be_partition};
use crate::settings::{Settings, TopicArgs};
use crate::topic_settings::TopicSettings;
use crate::{log_end, progress};

/// Compact a partition as a broker's cleaner would
///
/// Keeps the last record of every key in all segments but the active one, drops aborted data,
/// and tombstones that have been there long enough. Continues where cleaner-offset-checkpoint
/// says, and moves it. No broker may run on the log directory: its lock is taken. With --dry-run
/// nothing is changed.
///
/// One partition at a time. The topic's own settings are read from the metadata log in the same
/// log directory, where there is one. Those of --set go before them, those of --config, as of a
/// broker, behind them; Kafka's defaults are behind all. Records younger than
/// min.compaction.lag.ms stay. A topic that is known not to be compacted is refused.
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
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(0..))]
    now: Option<i64>,

    #[command(flatten)]
    topic: TopicArgs,

    /// Memory for the offsets of keys: 24 bytes a key, at most 64 GiB
    #[arg(long, value_name = "BYTES", default_value = "134217728")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_MAP_BYTES))]
    map_bytes: u64,
}

/// More than two billion keys.
const MAX_MAP_BYTES: u64 = 64 << 30;

const EXAMPLES: &str = "\
Examples:
  alluvium compact --dry-run --explain /var/lib/kafka/data/orders-0
  alluvium compact --set delete.retention.ms=0 /var/lib/kafka/data/orders-0

Exit codes: 0 good, 1 damage found (the partition stays as it is from the damaged segment on),
2 wrong usage, a running broker, or something that cannot be read or written.";

/// Runs the command.
pub(crate) fn run(args: &CompactArgs, console: &mut Console) -> Result<(), CliError> {
    must_be_partition(&args.dir)?;
    let settings = args.topic.settings(console)?;
    let (mut data, lock) = DataDir::locked(&args.dir, args.dry_run, console)?;
    let partition = Partition::read(&args.dir)?;
    let half_done = |suffix| matches!(suffix, Suffix::Cleaned | Suffix::Swap);
    if let Some((_, path)) = partition.suffixed.iter().find(|(name, _)| half_done(name.suffix)) {
        return Err(CliError::HalfDone { path: path.clone() });
    }
    let topics = TopicSettings::read(&data.path)?;
    topics.name_damage(args.dry_run, console)?;
    let settings = settings.with_broker(topics.of_broker())?;
    let config = config(&partition, &topics, &settings)?;
    let log_start = partition.log_start(console)?;
    let ends = log_end::of(&partition, log_start)?;
    let mut range = CleaningRange::of(&partition, log_start, &ends)?;
    let now = Timestamp::new(args.now.unwrap_or_else(|| jiff::Timestamp::now().as_millisecond()));
    let opened = open(&config, &partition, lock.as_ref()).and_then(|segments| {
        let lags = CompactionLags::of(&segments, range.first_dirty, &config, now)?;
        Ok((segments, lags))
    });
    let (segments, lags) = match opened {
        Ok(opened) => opened,
        Err(error) => return damage_or_error(CleanError::segment(error), console),
    };
    if let Some(base) = lags.first_young {
        range.stop_at_young(base, config.min_compaction_lag_ms(), &partition);
    }
    show::range(&partition, &range, args.explain, console);
    if args.explain {
        show::due(&range, &lags, &config, console);
    }
    if range.first_dirty >= range.first_uncleanable {
        return Ok(());
    }
    let options = CleanOptions::new(range.first_dirty, range.first_uncleanable, now)
        .topic(&config)
        .high_watermark(range.high_watermark)
        .active_producers(producers::active(&partition, ends.end, now)?)
        .dry_run(args.dry_run);
    if args.dry_run {
        return match clean(args, &segments, &options) {
            Ok(report) => {
                show::report(&report, true, console);
                Ok(())
            }
            Err(error) => damage_or_error(error, console),
        };
    }
    data.unmarked(console, |data, console| {
        let report = match clean(args, &segments, &options) {
            Ok(report) => report,
            Err(error) => return damage_or_error(error, console),
        };
        show::report(&report, false, console);
        match partition.key() {
            Some(key) => data.note(CheckpointKind::Cleaner, &key, report.next_dirty_offset),
            None => Ok(()),
        }
    })
}

/// The settings of the partition's topic, as far as they are known.
fn config(
    partition: &Partition,
    topics: &TopicSettings,
    settings: &Settings,
) -> Result<LogConfig, CliError> {
    let topic = partition.key().map(|key| key.topic().to_owned()).unwrap_or_default();
    let own = topics.of(&topic).cloned();
    let is_known = own.is_some() || settings.says(&["cleanup.policy", "log.cleanup.policy"]);
    let config = settings.of_topic(&topic, &own.unwrap_or_default())?;
    if is_known && !config.cleanup_policy().compacts() {
        return Err(CliError::NotCompacted { path: partition.path.clone() });
    }
    Ok(config)
}

fn clean(
    args: &CompactArgs,
    segments: &[Arc<Segment>],
    options: &CleanOptions,
) -> Result<CleanReport, CleanError> {
    let bytes: u64 = segments.iter().map(|segment| u64::from(segment.size_bytes())).sum();
    let mut host = WithBar(progress::Progress::new(2 * bytes));
    let map_bytes = usize::try_from(args.map_bytes).unwrap_or(usize::MAX);
    let memory = CleanerConfig::new().map_bytes(map_bytes);
    let report = Cleaner::new(memory).clean(segments, options, &mut host);
    host.0.finish();
    report
}

/// Opens the segments of a partition; without a lock, to read.
pub(crate) fn open(
    config: &LogConfig,
    partition: &Partition,
    lock: Option<&DirLock>,
) -> Result<Vec<Arc<Segment>>, SegmentError> {
    let pool = FilePool::for_this_process();
    let dir = match lock {
        Some(lock) => PartitionDir::open(&partition.path, lock, &pool)?,
        None => PartitionDir::read_only(&partition.path, &pool),
    };
    partition.logs().map(|(files, _)| Segment::open(&dir, files.base, config.segment())).collect()
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
        CleanError::Rebuild { path, position, source, .. } => {
            console.damage(&path, u64::from(position.get()), source)
        }
        CleanError::Segment {
            source: SegmentError::Index { source: IndexError::Corrupt { path, source, .. }, .. },
            ..
        } => console.corruption(&path, source),
        source => Err(CliError::Clean { source }),
    }
}
