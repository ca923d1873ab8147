//! `alluvium checkpoints`: what the checkpoint files say, beside where the logs end.

use std::path::PathBuf;

use alluvium_record_format::Offset;
use alluvium_recovery::CheckpointKind;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::console::Console;
use crate::data_dir::{data_dir, partition_paths};
use crate::each::each;
use crate::error::CliError;
use crate::log_end;

/// List what the checkpoint files say of each partition
///
/// Recovery point (all below is on disk), log start offset, high watermark, first offset that the
/// cleaner has not reached, and for comparison the end of the log.
#[derive(Args, Debug)]
pub(crate) struct CheckpointsArgs {
    /// Partition or log directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

/// Field names, in the order of the columns.
const KINDS: [(&str, CheckpointKind); 4] = [
    ("recovery_point", CheckpointKind::RecoveryPoint),
    ("log_start_offset", CheckpointKind::LogStart),
    ("high_watermark", CheckpointKind::HighWatermark),
    ("cleaner_offset", CheckpointKind::Cleaner),
];

/// Runs the command.
pub(crate) fn run(args: &CheckpointsArgs, console: &mut Console) -> Result<(), CliError> {
    let data = data_dir(&args.dir, console)?;
    if !args.json {
        let marker = if data.is_clean { "clean" } else { "unclean, or running" };
        console.print(format_args!(
            "last stop: {marker}\n{:<32}  {:>14}  {:>14}  {:>14}  {:>14}  {:>14}\n",
            "partition", "recovery point", "log start", "high watermark", "cleaner", "log end"
        ));
    }
    each(&partition_paths(&args.dir)?, console, |partition, console| {
        let Some(key) = partition.key() else { return Ok(()) };
        let log_start = partition.log_start(console)?;
        let end = log_end::of(partition, log_start)?.end;
        let offsets = KINDS.map(|(name, kind)| (name, data.offset(kind, &key).map(Offset::get)));
        if args.json {
            let mut object: Map<String, Value> =
                offsets.iter().map(|(name, offset)| ((*name).to_owned(), json!(offset))).collect();
            object.insert("partition".into(), key.to_string().into());
            object.insert("log_end_offset".into(), end.get().into());
            console.print(format_args!("{}\n", Value::Object(object)));
        } else {
            console.print(format_args!("{:<32}", key.to_string()));
            for (_, offset) in offsets {
                let text = offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
                console.print(format_args!("  {text:>14}"));
            }
            console.print(format_args!("  {end:>14}\n"));
        }
        console.spill()
    })
}
