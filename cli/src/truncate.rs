//! `alluvium truncate`: cuts the end off a log.

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_log_manager::Inline;
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
/// Whole batches go: an offset inside a batch takes that batch along, and the log ends before it.
/// Indexes, leader epochs, producer snapshots and checkpoints follow. The broker must be stopped.
/// Other replicas keep their records, and may give them back.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TruncateArgs {
    /// Partition directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// The first offset that goes
    #[arg(long, value_name = "OFFSET", allow_negative_numbers = true)]
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
    if target.get() < 0 {
        return Err(CliError::NegativeOffset);
    }
    let config = args.topic.config(console)?;
    let (mut data, lock) = DataDir::locked(&args.dir, args.dry_run, console)?;
    let partition = Partition::read(&args.dir)?;
    let Some(lock) = lock else {
        data.refuse_unrecovered(&partition, &config)?;
        return tell(&partition, target, console);
    };
    data.refuse_unrecovered(&partition, &config)?;
    let options =
        data.options(&partition, config).background(Arc::new(Inline::default())).lock(lock);
    let (before, is_cut, end) = data.unmarked(console, |data, _| {
        let log = options.open(&partition.path).map_err(|source| CliError::Log { source })?;
        let before = log.log_end_offset();
        let is_cut = log.truncate_to(target).map_err(|source| CliError::Log { source })?;
        // Of a log without records the next start knows the end by the name of its segment, and of
        // one whose records all lie below its start it drops every segment.
        let is_below_start = || -> Result<bool, CliError> {
            let stays = log_end::of(&Partition::read(&args.dir)?, Offset::default())?.end;
            Ok(stays < log.log_start_offset())
        };
        let anew = match is_cut {
            true if log.size_bytes() == 0 => Some(target),
            true if is_below_start()? => Some(log.log_start_offset()),
            _ => None,
        };
        if let Some(start) = anew {
            let begun = log.truncate_fully_and_start_at(start, None);
            begun.map_err(|source| CliError::Log { source })?;
        }
        log.close().map_err(|source| CliError::Log { source })?;
        let log_start = log.log_start_offset();
        // A batch that held the offset is gone as a whole: the log ends before it from now on.
        let end = log_end::of(&Partition::read(&args.dir)?, log_start)?.end;
        if let Some(key) = partition.key() {
            data.move_checkpoints(&key, log_start, end)?;
        }
        Ok((before, is_cut, end))
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
    // Where the last batch that stays ends, or a segment begins behind it.
    let (mut lines, mut kept) = (Vec::new(), None::<Offset>);
    for (segment, log) in partition.logs() {
        let path = log.path.display();
        if segment.base > target {
            lines.push(format!("would delete {path} ({})", Bytes(log.bytes)));
            continue;
        }
        kept = kept.max(kept.map(|_| segment.base));
        let file = LogFile::open(&log.path)?;
        let mut walk = Walk::new(&file, 0);
        loop {
            match walk.step()? {
                Step::Entry(head) if head.last_offset >= target => {
                    let cut = head.position;
                    lines.push(format!("would cut {path} from {} to {cut} bytes", log.bytes));
                    break;
                }
                Step::Entry(head) => kept = head.last_offset.checked_add(1),
                Step::End => break,
                _ => {}
            }
        }
    }
    // A log start inside the batch that goes is where the log ends then.
    let left = kept.unwrap_or(target).max(log_start.min(target));
    console.print(format_args!("{name}: would cut from offset {end} to {left}\n"));
    if target <= log_start {
        console.print(format_args!("  the log starts at {log_start}: all of its records go\n"));
    }
    for line in lines {
        console.print(format_args!("  {line}\n"));
    }
    Ok(())
}
