//! A table for people: a line a batch, its records indented, times readable.

mod index;
mod log;

use std::path::{Path, PathBuf};

use alluvium_segment::SegmentFileName;
use clap::Args;

use crate::console::Console;
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::partition::{Other, Partition, is_small_file, must_be_partition};

/// Options of the table.
#[derive(Args, Debug)]
#[group(skip)]
#[command(next_help_heading = "Options without --format")]
pub(crate) struct Options {
    /// Print batches alone, no records
    #[arg(long)]
    batches: bool,

    /// Characters of each key and value to show [default: 40]
    #[arg(long, value_name = "COUNT")]
    width: Option<usize>,
}

/// Characters of a key or value that fit on a line.
const DEFAULT_WIDTH: usize = 40;

impl Options {
    /// The first of these options that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let batches = self.batches.then_some("--batches");
        batches.or_else(|| self.width.map(|_| "--width"))
    }

    fn width(&self) -> usize {
        self.width.unwrap_or(DEFAULT_WIDTH)
    }
}

/// Prints tables of files, and of the logs in directories.
pub(crate) fn run(
    paths: &[PathBuf],
    options: &Options,
    console: &mut Console,
) -> Result<(), CliError> {
    for path in paths {
        match dump(path, options, console) {
            Err(
                error @ (CliError::Io { .. }
                | CliError::NotAPartition { .. }
                | CliError::NotKafka { .. }),
            ) => console.failure(&error)?,
            other => other?,
        }
    }
    Ok(())
}

fn dump(path: &Path, options: &Options, console: &mut Console) -> Result<(), CliError> {
    if path.is_dir() {
        must_be_partition(path)?;
        let partition = Partition::survey(path)?;
        for error in partition.others.iter().filter_map(Other::not_a_file) {
            console.failure(&error)?;
        }
        for (_, log) in partition.logs() {
            dump_file(&log.path, options, console)?;
        }
        return Ok(());
    }
    dump_file(path, options, console)
}

fn dump_file(path: &Path, options: &Options, console: &mut Console) -> Result<(), CliError> {
    let file = LogFile::open(path)?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("log" | "checkpoint") => log::dump(&file, options, console),
        Some("index") => index::offsets(&file, console),
        Some("timeindex") => index::times(&file, console),
        Some("txnindex") => index::transactions(&file, console),
        Some("snapshot") => index::producers(&file, console),
        _ if is_of_kafka(path) => {
            console.note(path, None, "neither log, index nor snapshot: not shown")
        }
        _ => Err(CliError::NotKafka { path: path.to_path_buf() }),
    }
}

/// Whether a file that has no table may come along with `DIR/*`.
fn is_of_kafka(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    is_small_file(name) || SegmentFileName::parse(name).is_some()
}
