//! `alluvium epochs`: which leader epoch wrote which offsets.

use std::path::PathBuf;

use alluvium_recovery::read_epochs;
use alluvium_segment::Io;
use clap::Args;
use serde_json::json;

use crate::console::Console;
use crate::data_dir::partition_paths;
use crate::each::each;
use crate::error::CliError;
use crate::log_end;

/// List the leader epochs of partitions and the offsets that each wrote
///
/// Read from leader-epoch-checkpoint; alluvium verify compares it with the batches.
#[derive(Args, Debug)]
pub(crate) struct EpochsArgs {
    /// Partition or log directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &EpochsArgs, console: &mut Console) -> Result<(), CliError> {
    each(&partition_paths(&args.dir)?, console, |partition, console| {
        let name = partition.path.display();
        let entries = match read_epochs(&Io::new(), &partition.path) {
            Ok(entries) => entries,
            Err(error) => return console.file_error(error),
        };
        let log_start = partition.log_start(console)?;
        let end = log_end::of(partition, log_start)?.end;
        if !args.json {
            console.print(format_args!("{name}\n  {:>8}  {:>20}  up to\n", "epoch", "from offset"));
        }
        for (index, entry) in entries.iter().enumerate() {
            let next = entries.get(index + 1).map_or(end, |next| next.start_offset);
            let (epoch, from) = (entry.epoch, entry.start_offset);
            if args.json {
                let object = json!({
                    "partition": name.to_string(), "epoch": epoch.get(),
                    "start_offset": from.get(), "end_offset": next.get(),
                });
                console.print(format_args!("{object}\n"));
            } else {
                console.print(format_args!("  {epoch:>8}  {from:>20}  {next}\n"));
            }
            console.spill()?;
        }
        Ok(())
    })
}
