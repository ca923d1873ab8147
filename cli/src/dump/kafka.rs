//! The text of Kafka's own dump tool.
//!
//! Source: `DumpLogSegments` in Kafka. Where that one dies with a stack trace, this one prints
//! what it can, names the damage on standard error and goes on.

mod index;
mod log;
mod offset_index;
mod record;
mod report;
mod snapshot;
mod time_index;
mod txn_index;

use std::path::{Path, PathBuf};

use clap::Args;

use self::index::IndexDump;
use self::report::Report;
use crate::console::Console;
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::text::java_path;

/// The options of Kafka's tool, under its names.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are independent of each other")]
#[group(skip)]
#[command(next_help_heading = "Options of --format kafka")]
pub(crate) struct Options {
    /// Print a line for every record too
    #[arg(long)]
    deep_iteration: bool,

    /// Print key and value of every record; brings --deep-iteration
    #[arg(long)]
    print_data_log: bool,

    /// Only run Kafka's sanity check on index files: their size and last entry
    #[arg(long)]
    index_sanity_check: bool,

    /// Check the entries of index files without listing them
    #[arg(long)]
    verify_index_only: bool,

    /// With --print-data-log, print nothing but key and value
    #[arg(long)]
    skip_record_metadata: bool,

    /// Bytes of log that are read to check one offset index entry [default: 5242880]
    #[arg(long, value_name = "BYTES")]
    max_message_size: Option<u32>,

    /// Bytes of each log to look at [default: all]
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u32>,
}

/// Kafka's default for the bytes to look at: all of them.
const NO_LIMIT: u32 = i32::MAX.unsigned_abs();

/// Kafka's default for the bytes to read to check an index entry.
const MAX_MESSAGE_BYTES: u32 = 5 * 1024 * 1024;

impl Options {
    /// The first of these options that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let options = [
            (self.deep_iteration, "--deep-iteration"),
            (self.print_data_log, "--print-data-log"),
            (self.index_sanity_check, "--index-sanity-check"),
            (self.verify_index_only, "--verify-index-only"),
            (self.skip_record_metadata, "--skip-record-metadata"),
            (self.max_message_size.is_some(), "--max-message-size"),
            (self.max_bytes.is_some(), "--max-bytes"),
        ];
        options.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }

    fn max_bytes(&self) -> u32 {
        self.max_bytes.unwrap_or(NO_LIMIT)
    }

    fn max_message_size(&self) -> u32 {
        self.max_message_size.unwrap_or(MAX_MESSAGE_BYTES)
    }

    fn deep(&self) -> bool {
        self.deep_iteration || self.print_data_log
    }
}

/// Dumps the files in order, then prints the report on standard error.
pub(crate) fn run(
    paths: &[PathBuf],
    options: &Options,
    console: &mut Console,
) -> Result<(), CliError> {
    let mut report = Report::default();
    for path in paths {
        match dump_file(path, options, &mut report, console) {
            Err(error @ CliError::Io { .. }) => console.failure(&error)?,
            other => other?,
        }
    }
    report.print(console)
}

fn dump_file(
    path: &Path,
    options: &Options,
    report: &mut Report,
    console: &mut Console,
) -> Result<(), CliError> {
    let shown = java_path(path);
    console.print(format_args!("Dumping {shown}\n"));
    let file = LogFile::open(path)?;
    let mut index = IndexDump { file: &file, options, report, console };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("log" | "checkpoint") => log::dump(&file, options, report, console),
        Some("index") => index.offset_index(),
        Some("timeindex") => index.time_index(),
        Some("txnindex") => index.txn_index(),
        Some("snapshot") => index.snapshot(),
        _ => console.report(format_args!("Ignoring unknown file {shown}")),
    }
}
