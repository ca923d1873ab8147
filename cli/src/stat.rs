//! `alluvium stat`: what partitions hold, in numbers.

mod measure;
mod show;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use self::measure::{PartitionStat, SegmentJob, SegmentStat};
use crate::cleaning_range::{Begin, CleaningRange};
use crate::console::Console;
use crate::data_dir::readable;
use crate::error::CliError;
use crate::log_end;
use crate::parallel::{self, default_jobs};
use crate::partition::Partition;
use crate::progress::Progress;

/// Count what a partition or a log directory holds
///
/// For each partition and in all: segments, bytes, batches, records, tombstones, offsets, times,
/// codecs with their compression ratio, producers, open transactions, index density, and of
/// partitions that cleaner-offset-checkpoint lists how much of them is dirty. Records are read to
/// tell ratio and tombstones; --quick reads the heads of batches alone.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StatArgs {
    /// Partition or log directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Print a JSON object a line: one for each partition, then one for all
    #[arg(long)]
    json: bool,

    /// Read the heads of batches alone: no compression ratio, no tombstones
    #[arg(long)]
    quick: bool,

    /// Segments to read at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

const EXAMPLES: &str = "\
Examples:
  alluvium stat orders-0
  alluvium stat --quick --json /var/lib/kafka/data | jq -r '[.bytes, .partition] | @tsv' | sort -n

Exit codes: 0 good, 1 damage found (counted; alluvium verify names it), 2 wrong usage or a
directory that cannot be read.";

/// Runs the command.
pub(crate) fn run(args: &StatArgs, console: &mut Console) -> Result<(), CliError> {
    let partitions = readable(&args.dir, console)?;
    let mut jobs = Vec::new();
    for (partition, files) in partitions.iter().enumerate() {
        jobs.extend(files.logs().map(|(files, log)| SegmentJob {
            partition,
            files: files.clone(),
            log: log.path.clone(),
            is_quick: args.quick,
        }));
    }
    let progress = Progress::new(jobs.iter().map(|job| job.files.bytes()).sum());
    let mut stats: Vec<_> = partitions.iter().map(PartitionStat::new).collect();
    parallel::run(
        args.jobs.unwrap_or_else(default_jobs),
        &jobs,
        |job| measure::segment(job, &progress),
        |index, measured: Result<SegmentStat, CliError>| match measured {
            Ok(segment) => {
                stats[jobs[index].partition].add(&segment);
                Ok(())
            }
            Err(error) => progress.beside(|| console.failure(&error)),
        },
        || progress.draw(),
    )?;
    progress.finish();
    let mut total = PartitionStat::default();
    for (partition, stat) in partitions.iter().zip(&mut stats) {
        if let Err(error) = look_beside(partition, stat, console) {
            console.failure(&error)?;
        }
        if stat.damage > 0 {
            console.mark_damaged();
        }
        let name = partition.path.display().to_string();
        show::partition(&name, stat, args, console);
        console.spill()?;
        total.merge(stat);
    }
    if args.json || partitions.len() > 1 {
        show::total(partitions.len(), &total, args, console);
    }
    Ok(())
}

/// What the files beside the segments tell of a partition.
fn look_beside(
    partition: &Partition,
    stat: &mut PartitionStat,
    console: &mut Console,
) -> Result<(), CliError> {
    stat.log_start = partition.log_start(console)?;
    let ends = log_end::of(partition, stat.log_start)?;
    stat.log_end = ends.end;
    stat.open_txns.clone_from(&ends.open);
    let range = CleaningRange::if_known(partition, stat.log_start, &ends, console)?;
    stat.cleaning = range.filter(|range| !matches!(range.begin, Begin::LogStart));
    Ok(())
}
