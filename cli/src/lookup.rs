//! `alluvium lookup`: the way to one record.

mod find;
mod show;

use std::path::PathBuf;

use alluvium_record_format::{Offset, Timestamp};
use clap::{ArgGroup, Args};

use self::find::Finder;
use crate::console::Console;
use crate::error::CliError;

/// Find a record by offset or time, and show the way to it
///
/// Shows the segment, the index entries used, the bytes scanned and the record. The answer by
/// time is the one that a broker gives to a consumer: the first record with that time or a later
/// one. An index entry that leads astray is named, and the log is scanned instead.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("target").required(true).multiple(true)))]
pub(crate) struct LookupArgs {
    /// Partition directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Offset to look for; may be repeated
    #[arg(long, value_name = "N", group = "target", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(0..))]
    offset: Vec<i64>,

    /// Time to look for, in milliseconds since 1970 or like 2025-10-10T08:53:20Z; may be repeated
    #[arg(long, value_name = "MS|RFC3339", group = "target", allow_negative_numbers = true)]
    #[arg(value_parser = parse_time)]
    timestamp: Vec<i64>,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  alluvium lookup orders-0 --offset 1234567
  alluvium lookup orders-0 --timestamp 2025-10-10T08:53:20Z
  alluvium lookup orders-0 --json --timestamp 1760086400000 --timestamp 1760086500000

Exit codes: 0 also when there is no such record, 1 damage found, 2 wrong usage or a file that
cannot be read.";

/// What is looked for.
#[derive(Clone, Copy, Debug)]
enum Target {
    Offset(Offset),
    Timestamp(Timestamp),
}

/// Runs the command.
pub(crate) fn run(args: &LookupArgs, console: &mut Console) -> Result<(), CliError> {
    let mut finder = Finder::open(&args.dir, console)?;
    let offsets = args.offset.iter().map(|raw| Target::Offset(Offset::new(*raw)));
    let times = args.timestamp.iter().map(|raw| Target::Timestamp(Timestamp::new(*raw)));
    for target in offsets.chain(times) {
        let found = match target {
            Target::Offset(offset) => finder.by_offset(offset, console)?,
            Target::Timestamp(timestamp) => finder.by_timestamp(timestamp, console)?,
        };
        if args.json {
            show::json(target, found.as_ref(), console);
        } else {
            show::text(target, found.as_ref(), finder.stopped_at(), console);
        }
        console.spill()?;
    }
    Ok(())
}

/// A time as milliseconds since the epoch, or as RFC 3339 has it.
fn parse_time(text: &str) -> Result<i64, jiff::Error> {
    match text.parse() {
        Ok(millis) => Ok(millis),
        Err(_not_a_number) => text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond),
    }
}
