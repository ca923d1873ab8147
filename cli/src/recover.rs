//! `alluvium recover`: what a start of the broker would mend, or does it.

use std::ops::ControlFlow;
use std::path::PathBuf;

use alluvium_log_manager::LogOptions;
use alluvium_record_format::Offset;
use alluvium_recovery::{
    CheckpointKind, LoadConfig, LoadReport, Progress as LoadProgress, Warning, plan,
};
use alluvium_segment::{FilePool, PartitionDir};
use clap::Args;
use serde_json::json;

use crate::console::Console;
use crate::data_dir::{DataDir, drops_records, partition_paths};
use crate::each::each;
use crate::error::CliError;
use crate::partition::Partition;
use crate::progress::Progress;
use crate::readable::Bytes;
use crate::settings::TopicArgs;

/// Bring partitions into order as a start of the broker does, or say what it would do
///
/// Scans what was not known to be on disk when the broker stopped, cuts the log at the first
/// damage, rebuilds indexes, producer state and leader epochs, and finishes or removes what
/// interrupted operations left. Damage below the recovery point is named and kept, as in Kafka.
/// The broker must be stopped.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RecoverArgs {
    /// Partition or log directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Say what would be done, and change no byte
    #[arg(long)]
    dry_run: bool,

    /// Scan all segments, whatever the marker of a clean stop and the recovery point say
    #[arg(long)]
    all: bool,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    topic: TopicArgs,
}

const EXAMPLES: &str = "\
Examples:
  alluvium recover --dry-run /var/lib/kafka/data
  alluvium recover --all --set index.interval.bytes=512 /var/lib/kafka/data/orders-0

Exit codes: 0 in order, or brought into it without a loss; 1 damage was found, or records go; 2 wrong usage, a
directory in use, or one that cannot be read or written.";

/// Runs the command.
pub(crate) fn run(args: &RecoverArgs, console: &mut Console) -> Result<(), CliError> {
    let config = args.topic.config(console)?;
    let (mut data, lock) = DataDir::locked(&args.dir, args.dry_run, console)?;
    if args.all {
        data.is_clean = false;
    }
    let paths = partition_paths(&args.dir)?;
    let Some(lock) = lock else {
        return each(&paths, console, |partition, console| {
            let mut load = data.load_config(partition, &config);
            if args.all {
                load = load.recovery_point(Offset::default());
            }
            let report = look_at(partition, &load)?;
            show(args, partition, &report, console)
        });
    };
    data.unmarked(console, |data, console| {
        each(&paths, console, |partition, console| {
            let options = data.options(partition, config.clone()).lock(lock.clone());
            let report = recover(args, data, partition, options)?;
            show(args, partition, &report, console)
        })
    })
}

/// What a recovery of one partition would find and do.
fn look_at(partition: &Partition, load: &LoadConfig) -> Result<LoadReport, CliError> {
    let dir = PartitionDir::read_only(&partition.path, &FilePool::for_this_process());
    let bar = Bar::new(partition);
    let found = plan(&dir, load, &mut |progress| bar.show(progress));
    bar.finish();
    found.map(|plan| plan.report().clone()).map_err(|source| CliError::Load { source })
}

/// Brings one partition into order, and its checkpoints.
fn recover(
    args: &RecoverArgs,
    data: &mut DataDir,
    partition: &Partition,
    mut options: LogOptions,
) -> Result<LoadReport, CliError> {
    if args.all {
        options = options.recovery_point(Offset::default());
    }
    let bar = Bar::new(partition);
    let opened = options.open_with_progress(&partition.path, &mut |step| bar.show(step));
    bar.finish();
    let (log, report) = opened.map_err(|source| CliError::Log { source })?;
    let closed = log.close().map_err(|source| CliError::Log { source })?;
    let end = log.log_end_offset();
    if let Some(key) = partition.key() {
        data.set(CheckpointKind::RecoveryPoint, &key, closed.recovery_point)?;
        data.move_checkpoints(&key, closed.log_start_offset, end)?;
    }
    Ok(report)
}

/// A bar over the segments that are scanned.
struct Bar {
    progress: Progress,
}

impl Bar {
    fn new(partition: &Partition) -> Self {
        let bytes = partition.logs().map(|(_, log)| log.bytes).sum();
        Self { progress: Progress::new(bytes) }
    }

    fn show(&self, step: LoadProgress) -> ControlFlow<()> {
        if let LoadProgress::Scanned { .. } | LoadProgress::Scanning { .. } = step {
            self.progress.draw();
        }
        ControlFlow::Continue(())
    }

    fn finish(&self) {
        self.progress.finish();
    }
}

/// Prints what was found and done, or would be.
fn show(
    args: &RecoverArgs,
    partition: &Partition,
    report: &LoadReport,
    console: &mut Console,
) -> Result<(), CliError> {
    let is_damaged = report.recovered.iter().any(|segment| segment.damage.is_some())
        || report.warnings.iter().any(|warning| matches!(warning, Warning::DamageKept { .. }))
        || report.steps.iter().any(|step| drops_records(&step.reason));
    if is_damaged {
        console.mark_damaged();
    }
    let name = partition.path.display();
    if args.json {
        let steps: Vec<_> = report
            .steps
            .iter()
            .map(|step| json!({"change": step.change.to_string(), "reason": step.reason.to_string()}))
            .collect();
        let object = json!({
            "partition": name.to_string(), "dry_run": args.dry_run, "steps": steps,
            "warnings": report.warnings.iter().map(warning).collect::<Vec<_>>(),
            "scanned_bytes": report.scanned_bytes(), "cut_bytes": report.cut_bytes(),
        });
        console.print(format_args!("{object}\n"));
        return console.spill();
    }
    let verb = if args.dry_run { "would " } else { "" };
    if report.steps.is_empty() && report.warnings.is_empty() {
        console.print(format_args!("{name}: in order\n"));
        return console.spill();
    }
    console.print(format_args!(
        "{name}: {} scanned, {} cut\n",
        Bytes(report.scanned_bytes()),
        Bytes(report.cut_bytes())
    ));
    for step in &report.steps {
        console.print(format_args!("  {verb}{}\n    because: {}\n", step.change, step.reason));
    }
    for found in &report.warnings {
        console.print(format_args!("  found: {}\n", warning(found)));
    }
    console.spill()
}

fn warning(warning: &Warning) -> String {
    match warning {
        Warning::ForeignName(name) => format!("{name}, which no log writes"),
        Warning::DamageKept { base_offset, damage, .. } => {
            format!("damage in segment {base_offset}, kept: {damage}")
        }
        Warning::Overlap { base_offset, reaches, end, .. } => format!(
            "segment {base_offset} reaches to offset {reaches}, the last segment to {end}: the log \
             ends at {reaches}"
        ),
        Warning::Covered { base_offset, reaches, next, .. } => format!(
            "segment {base_offset} reaches to offset {reaches}, the next one begins at {next}: \
             readers do not see what it holds from there on"
        ),
        Warning::EpochsRebuilt(damage) => {
            format!("damaged leader epochs, rebuilt from the log: {damage}")
        }
        Warning::ProducerBatch { offset, error, .. } => {
            format!("a batch at offset {offset} that no leader would take: {error}")
        }
        other => format!("{other:?}"),
    }
}
