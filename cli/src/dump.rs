//! `alluvium dump`: what is in a file.

mod kafka;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::console::Console;
use crate::error::CliError;

/// Print what is in log, index, snapshot and checkpoint files
///
/// Files are only read. Damage is named on standard error with its byte, and the dump goes on
/// behind it where that can be.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DumpArgs {
    /// Files to dump, in this order
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// The form of the output
    #[arg(long, value_enum)]
    format: Option<Format>,

    #[command(flatten)]
    kafka: kafka::Options,
}

const EXAMPLES: &str = "\
Examples:
  alluvium dump --format kafka --deep-iteration --print-data-log orders-0/*.log
      the text of Kafka's own tool (kafka-dump-log.sh), byte for byte
  alluvium dump --format kafka --verify-index-only orders-0/*.index orders-0/*.timeindex
      compare every index entry with the log beside it";

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The text of Kafka's own dump tool, byte for byte
    Kafka,
}

/// Runs the command.
pub(crate) fn run(args: &DumpArgs, console: &mut Console) -> Result<(), CliError> {
    match args.format {
        Some(Format::Kafka) | None => kafka::run(&args.paths, &args.kafka, console),
    }
}
