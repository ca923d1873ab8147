//! `alluvium retain`: which old segments go, and why the others stay.

mod show;

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_log_manager::{
    CleanupPolicy, Clock, Inline, LogConfig, ManualClock, RetentionPlan, RetentionState,
    SystemClock,
};
use alluvium_record_format::{Offset, Timestamp};
use alluvium_recovery::CheckpointKind;
use alluvium_segment::{DirLock, FilePool, PartitionDir, Segment, SegmentConfig, SegmentError};
use clap::Args;

use crate::console::Console;
use crate::data_dir::{DataDir, readable};
use crate::each::each_of;
use crate::error::{CliError, Whence};
use crate::log_end;
use crate::partition::Partition;
use crate::settings::{RETENTION_BYTES, RETENTION_MS, Settings, TopicArgs};
use crate::topic_settings::{Keys, TopicSettings};

/// Drop the old segments that the settings no longer keep, or say what would go and why
///
/// By the rules of a broker, in its order: what lies below the log start offset, what exceeds
/// retention.bytes, what is older than retention.ms. Segments go whole, from the oldest on, up to
/// the high watermark. Where the checkpoint notes no high watermark, the log end counts.
///
/// A topic's own settings, and those that the cluster has for the broker, are read from the
/// metadata log in the same log directory, where there is one; a damaged one is good for a dry run
/// alone. Those of --set go before all, those of --config, as of a broker, behind all. A partition
/// that cleaner-offset-checkpoint lists, and one of a topic of Kafka's own, is taken for compacted
/// unless the topic or --set says cleanup.policy. Where only one of retention.ms and
/// retention.bytes is said, the other one drops nothing. Where neither is, only a dry run is made,
/// with Kafka's defaults. The metadata log itself is left alone. The broker must be stopped.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RetainArgs {
    /// Partition or log directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Say what would go, and change no byte
    #[arg(long)]
    dry_run: bool,

    /// Say for every segment what each rule finds: why it goes or stays, and since when
    #[arg(long)]
    explain: bool,

    /// The present time, in milliseconds since 1970 [default: the clock's]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    now: Option<i64>,

    /// Print a JSON object a line: one for each partition
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    topic: TopicArgs,
}

const EXAMPLES: &str = "\
Examples:
  alluvium retain --dry-run --explain --set retention.ms=86400000 /var/lib/kafka/data/orders-0
  alluvium retain --config /etc/kafka/server.properties /var/lib/kafka/data

Exit codes: 0 good, 1 damage found, 2 wrong usage, a directory in use, or one that cannot be read
or written.";

/// What was decided for a partition.
#[derive(Debug)]
struct Decision<'a> {
    partition: &'a Partition,
    policy: Policy,
    /// What the topic sets itself.
    own: Option<&'a Keys>,
    state: RetentionState,
    plan: RetentionPlan,
}

/// What holds for a partition.
#[derive(Debug)]
struct Rules<'a> {
    policy: Policy,
    /// What the topic sets itself.
    own: Option<&'a Keys>,
    config: LogConfig,
    /// Whether somebody said what is kept, so that a run may drop the rest.
    is_known: bool,
}

/// Where the cleanup policy of a partition comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// What was given, or Kafka's default.
    Given,
    /// The metadata log.
    Topic,
    /// The cleaner's checkpoint lists the partition.
    InCheckpoint,
    /// The topic is one of Kafka's own.
    Internal,
}

/// Runs the command.
pub(crate) fn run(args: &RetainArgs, console: &mut Console) -> Result<(), CliError> {
    let settings = args.topic.settings(console)?;
    let (mut data, lock) = DataDir::locked(&args.dir, args.dry_run, console)?;
    let partitions = readable(&args.dir, console)?;
    let topics = TopicSettings::read(&data.path)?;
    topics.name_damage(args.dry_run, console)?;
    let settings = settings.with_broker(topics.of_broker())?;
    let rules = |partition| (partition, Rules::of(partition, &topics, &data, &settings));
    let mut all: Vec<(&Partition, Result<Rules<'_>, CliError>)> =
        partitions.iter().map(rules).collect();
    if !args.dry_run {
        // Nothing changes unless it is known for all what to keep.
        let is_unknown = |(partition, rules): &(&Partition, Result<Rules<'_>, CliError>)| {
            !is_metadata(partition) && rules.as_ref().map_or(true, |rules| !rules.is_known)
        };
        if let Some(index) = all.iter().position(is_unknown) {
            let (partition, rules) = all.swap_remove(index);
            let path = partition.path.clone();
            return Err(rules.err().unwrap_or(CliError::NoRetention { path }));
        }
    }
    let now = args.now.map_or_else(|| SystemClock::default().now(), Timestamp::new);
    let work = |data: &mut DataDir, console: &mut Console| {
        each_of(all, console, |(partition, rules), console| {
            if is_metadata(partition) {
                if !args.json {
                    let name = partition.path.display();
                    console.print(format_args!(
                        "{name}: left alone, it keeps snapshots, not records\n"
                    ));
                }
                return Ok(());
            }
            let Rules { policy, own, config, .. } = rules?;
            if let Err(error) = data.refuse_unrecovered(partition, &config) {
                // Nothing has changed: no reason to keep the marker of a clean stop away.
                return console.failure(&error);
            }
            let decided = match &lock {
                None => plan(partition, data, &config, now, console)?,
                Some(lock) => apply(partition, data, config, now, lock)?,
            };
            let (state, plan) = decided;
            let decision = Decision { partition, policy, own, state, plan };
            show::decision(&decision, args, console);
            console.spill()
        })
    };
    if lock.is_some() { data.unmarked(console, work) } else { work(&mut data, console) }
}

/// Whether this is the metadata log, which keeps snapshots instead of records.
fn is_metadata(partition: &Partition) -> bool {
    partition.name.as_ref().is_some_and(|name| &*name.topic == "__cluster_metadata")
}

impl<'a> Rules<'a> {
    fn of(
        partition: &Partition,
        topics: &'a TopicSettings,
        data: &DataDir,
        settings: &Settings,
    ) -> Result<Self, CliError> {
        let topic = partition.key().map(|key| key.topic().to_owned()).unwrap_or_default();
        let own = topics.of(&topic);
        let none = Keys::new();
        let says = |keys: &[&str]| {
            settings.says(keys)
                || own.is_some_and(|own| keys.iter().any(|key| own.contains_key(*key)))
        };
        // The broker's log.cleanup.policy is a default behind what the topic may have.
        let is_stated = says(&["cleanup.policy"]);
        let (has_ms, has_bytes) = (says(RETENTION_MS), says(RETENTION_BYTES));
        let config = settings.of_topic(&topic, own.unwrap_or(&none))?;
        let is_known = has_ms || has_bytes || (is_stated && !config.cleanup_policy().deletes());
        let mut builder = config.to_builder();
        let policy = match evidence(partition, data).filter(|_| !is_stated) {
            Some(policy) => {
                builder = builder.cleanup_policy(CleanupPolicy::COMPACT);
                policy
            }
            None if own.is_some() => Policy::Topic,
            None => Policy::Given,
        };
        // With nothing said at all, a dry run shows what Kafka's defaults would do.
        if has_ms != has_bytes {
            let unsaid = if has_ms { "retention.bytes" } else { "retention.ms" };
            let off = builder.properties([(unsaid, "-1")]);
            builder = off.map_err(Whence::CommandLine.refused())?;
        }
        let config = builder.build().map_err(Whence::CommandLine.refused())?;
        Ok(Self { policy, own, config, is_known })
    }
}

/// What speaks for compaction, whatever a broker's default is.
fn evidence(partition: &Partition, data: &DataDir) -> Option<Policy> {
    let noted = partition.key().and_then(|key| data.offset(CheckpointKind::Cleaner, &key));
    if noted.is_some() {
        return Some(Policy::InCheckpoint);
    }
    let name = partition.name.as_ref()?;
    name.topic.starts_with("__").then_some(Policy::Internal)
}

/// Decides from the files as they lie there.
fn plan(
    partition: &Partition,
    data: &DataDir,
    config: &LogConfig,
    now: Timestamp,
    console: &mut Console,
) -> Result<(RetentionState, RetentionPlan), CliError> {
    let log_start = partition.log_start(console)?;
    let end = log_end::of(partition, log_start)?.end;
    let stated = data.high_watermark(partition).map_or(end, |stated| stated.min(end));
    let state = RetentionState::new(log_start, end, now).high_watermark(stated);
    let dir = PartitionDir::read_only(&partition.path, &FilePool::for_this_process());
    let open = |base| Segment::open(&dir, base, SegmentConfig::new());
    let plan = partition
        .logs()
        .map(|(files, _)| open(files.base))
        .collect::<Result<Vec<Arc<Segment>>, SegmentError>>()
        .and_then(|segments| RetentionPlan::new(&segments, config, state))
        .map_err(|source| CliError::Segment { source })?;
    Ok((state, plan))
}

/// Opens the log as a broker does, and drops what its settings do not keep.
fn apply(
    partition: &Partition,
    data: &mut DataDir,
    config: LogConfig,
    now: Timestamp,
    lock: &DirLock,
) -> Result<(RetentionState, RetentionPlan), CliError> {
    let noted = data.high_watermark(partition);
    let options = data
        .options(partition, config)
        .clock(Arc::new(ManualClock::new(now)))
        .background(Arc::new(Inline::default()))
        .high_watermark(noted.unwrap_or(Offset::MAX))
        .lock(lock.clone());
    let failed = |source| CliError::Log { source };
    let log = options.open(&partition.path).map_err(failed)?;
    let state = RetentionState::new(log.log_start_offset(), log.log_end_offset(), now)
        .high_watermark(log.high_watermark());
    let plan = log.retention_plan().map_err(failed)?;
    log.delete_old_segments().map_err(failed)?;
    let end = log.log_end_offset();
    let closed = log.close().map_err(failed)?;
    if let Some(key) = partition.key() {
        data.set(CheckpointKind::RecoveryPoint, &key, closed.recovery_point)?;
        data.move_checkpoints(&key, closed.log_start_offset, end)?;
    }
    Ok((state, plan))
}
