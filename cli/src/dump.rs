//! `alluvium dump`: what is in a file, or in a partition.

mod aborted;
mod control;
mod jsonl;
mod kafka;
mod table;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::console::Console;
use crate::error::CliError;

/// Print what is in log, index, snapshot and checkpoint files
///
/// Files are only read. Damage is named on standard error with its byte, and the dump goes on
/// behind it where that can be.
///
/// Without --format, a table for people: a line a batch, its records indented.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DumpArgs {
    /// Files to dump, in this order; with --format jsonl, partition directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// The form of the output
    #[arg(long, value_enum)]
    format: Option<Format>,

    #[command(flatten)]
    table: table::Options,

    #[command(flatten)]
    jsonl: jsonl::Options,

    #[command(flatten)]
    kafka: kafka::Options,
}

const EXAMPLES: &str = "\
Examples:
  alluvium dump orders-0/00000000000000000000.log
      a table of batches and records
  alluvium dump --format jsonl --isolation read_committed --values utf8 orders-0
      what a consumer sees of the partition, a JSON object a line; the first line holds the
      first offset and the one after the last
  alluvium dump --format kafka --deep-iteration --print-data-log orders-0/*.log
      the text of Kafka's own tool (kafka-dump-log.sh), byte for byte
  alluvium dump --format kafka --verify-index-only orders-0/*.index orders-0/*.timeindex
      compare every index entry with the log beside it

Exit codes: 0 good, 1 damage found, 2 wrong usage or a file that cannot be read.";

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The text of Kafka's own dump tool, byte for byte
    Kafka,
    /// What a consumer sees of a partition directory, one JSON object a line
    Jsonl,
}

/// Runs the command.
pub(crate) fn run(args: &DumpArgs, console: &mut Console) -> Result<(), CliError> {
    let misplaced = [
        (None, args.table.given()),
        (Some(Format::Jsonl), args.jsonl.given()),
        (Some(Format::Kafka), args.kafka.given()),
    ];
    for (format, option) in misplaced {
        if let Some(option) = option.filter(|_| format != args.format) {
            return Err(CliError::Misplaced { option });
        }
    }
    match args.format {
        Some(Format::Kafka) => kafka::run(&args.paths, &args.kafka, console),
        Some(Format::Jsonl) => jsonl::run(&args.paths, &args.jsonl, console),
        None => table::run(&args.paths, &args.table, console),
    }
}
