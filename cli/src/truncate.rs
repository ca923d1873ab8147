//! `alluvium truncate`: cuts the end off a log.

use std::path::PathBuf;

use alluvium_record_format::Offset;
use clap::Args;

use crate::console::Console;
use crate::data_dir::DataDir;
use crate::error::CliError;
use crate::log_end;
use crate::log_file::LogFile;
use crate::partition::{Partition, must_be_partition};
use crate::readable::Bytes;
use crate::settings::TopicArgs;
use crate::walk::{Step, Walk};

/// Cut all records from an offset on off the end of a partition
///
/// Whole batches go: an offset inside a batch takes that batch along. Indexes, leader epochs,
/// producer snapshots and checkpoints follow. The broker must be stopped. Other replicas keep
/// their records, and may give them back.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TruncateArgs {
    /// Partition directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// The first offset that goes
    #[arg(long, value_name = "OFFSET")]
    to: i64,

    /// Say what would go, and change no byte
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    topic: TopicArgs,
}

const EXAMPLES: &str = "\
Examples:
  alluvium truncate orders-0 --to 1234567 --dry-run
  alluvium truncate orders-0 --to 1234567";

/// Runs the command.
pub(crate) fn run(args: &TruncateArgs, console: &mut Console) -> Result<(), CliError> {
    let target = Offset::new(args.to);
    must_be_partition(&args.dir)?;
    let partition = Partition::read(&args.dir)?;
    let mut data = DataDir::above(&args.dir, console)?;
    if target.get() < 0 {
        return Err(CliError::NegativeOffset);
    }
    if args.dry_run {
        data.refuse_if_in_use()?;
        return tell(&partition, target, console);
    }
    let lock = data.lock()?;
    let options = data.options(&partition, args.topic.config(console)?).lock(lock);
    let (before, is_cut, end) = data.unmarked(console, |data, _| {
        let log = options.open(&partition.path).map_err(|source| CliError::Log { source })?;
        let before = log.log_end_offset();
        let is_cut = log.truncate_to(target).map_err(|source| CliError::Log { source })?;
        log.close().map_err(|source| CliError::Log { source })?;
        if let Some(key) = partition.key() {
            data.move_checkpoints(&key, log.log_start_offset(), log.log_end_offset())?;
        }
        Ok((before, is_cut, log.log_end_offset()))
    })?;
    let name = partition.path.display();
    if is_cut {
        console.print(format_args!("{name}: cut from offset {before} to {end}\n"));
    } else {
        console.print(format_args!("{name}: ends at offset {end}, nothing to cut\n"));
    }
    Ok(())
}

/// Says what would go.
fn tell(partition: &Partition, target: Offset, console: &mut Console) -> Result<(), CliError> {
    let log_start = partition.log_start(console)?;
    let end = log_end::of(partition, log_start)?.end;
    let name = partition.path.display();
    if target >= end {
        console.print(format_args!("{name}: ends at offset {end}, nothing to cut\n"));
        return Ok(());
    }
    console.print(format_args!("{name}: would cut from offset {end} to {target}\n"));
    if target <= log_start {
        console.print(format_args!("  the log starts at {log_start}: all of its records go\n"));
    }
    for (segment, log) in partition.logs() {
        if segment.base > target {
            let bytes = Bytes(log.bytes);
            console.print(format_args!("  would delete {} ({bytes})\n", log.path.display()));
            continue;
        }
        let file = LogFile::open(&log.path)?;
        let mut walk = Walk::new(&file, 0);
        let cut = loop {
            match walk.step()? {
                Step::Entry(head) if head.last_offset >= target => break Some(head.position),
                Step::End => break None,
                _ => {}
            }
        };
        if let Some(cut) = cut {
            let path = log.path.display();
            console.print(format_args!("  would cut {path} from {} to {cut} bytes\n", log.bytes));
        }
    }
    Ok(())
}
