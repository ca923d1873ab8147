//! `alluvium residency`: which pages of which segments are in memory.

use std::fs::File;
use std::path::PathBuf;

use alluvium_segment::page_cache::{self, Residency};
use clap::Args;
use serde_json::{Value, json};

use crate::console::Console;
use crate::data_dir::readable;
use crate::each::each_listed;
use crate::error::CliError;
use crate::partition::{FileInfo, Partition, SegmentFiles};
use crate::readable::{Bytes, Count};

/// Show which pages of which segments are in memory
///
/// For each segment how much of its log and of its indexes the page cache holds, what waits to be
/// written, and a strip: from the start of the log on the left to its end on the right, dark
/// where pages are in memory. Reads no page, so that nothing comes into memory or goes. A
/// user who neither owns the files nor may write to them is not told by the kernel.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ResidencyArgs {
    /// Partition or log directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Print a JSON object a line: one for each segment, then one for all
    #[arg(long)]
    json: bool,

    /// Characters of the strip
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=1000))]
    width: u16,
}

const EXAMPLES: &str = "\
Examples:
  alluvium residency /var/lib/kafka/data/orders-0
  alluvium residency --json /var/lib/kafka/data | jq 'select(.resident_pages > 0)'

Exit codes: 0 good, 2 wrong usage or something that cannot be asked.";

/// What is in memory of several files.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: u64,
    pages: u64,
    resident_pages: u64,
    resident_bytes: u64,
    /// `None` where the kernel does not tell.
    dirty_pages: Option<u64>,
}

impl Sum {
    fn add(&mut self, bytes: u64, found: &Residency) {
        self.bytes += bytes;
        self.pages += found.page_count;
        self.resident_pages += found.resident_count();
        // The last page may reach beyond the file.
        self.resident_bytes += (found.resident_count() * found.page_bytes).min(bytes);
        self.dirty_pages = match (self.dirty_pages, found.dirty_count) {
            (None, None) => None,
            (sum, count) => Some(sum.unwrap_or(0) + count.unwrap_or(0)),
        };
    }

    fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.pages += other.pages;
        self.resident_pages += other.resident_pages;
        self.resident_bytes += other.resident_bytes;
        if let Some(pages) = other.dirty_pages {
            self.dirty_pages = Some(self.dirty_pages.unwrap_or(0) + pages);
        }
    }

    fn object(&self) -> Value {
        json!({
            "bytes": self.bytes, "pages": self.pages, "resident_pages": self.resident_pages,
            "resident_bytes": self.resident_bytes, "dirty_pages": self.dirty_pages,
        })
    }
}

/// What is in memory of all segments.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    segments: u64,
    logs: Sum,
    indexes: Sum,
}

/// Runs the command.
pub(crate) fn run(args: &ResidencyArgs, console: &mut Console) -> Result<(), CliError> {
    let partitions = readable(&args.dir, console)?;
    let mut sums = Sums::default();
    each_listed(&partitions, console, |partition, console| {
        show(args, partition, &mut sums, console)
    })?;
    let Sums { segments, logs, indexes } = sums;
    if args.json {
        let total =
            json!({"segments": segments, "logs": logs.object(), "indexes": indexes.object()});
        console.print(format_args!("{}\n", json!({ "total": total })));
    } else {
        let (resident, bytes) = (Bytes(logs.resident_bytes), Bytes(logs.bytes));
        let segments = Count(segments, "segment");
        console.print(format_args!("{resident} of {bytes} of logs in memory, {segments}\n"));
    }
    Ok(())
}

/// Shows the segments of one partition.
fn show(
    args: &ResidencyArgs,
    partition: &Partition,
    sums: &mut Sums,
    console: &mut Console,
) -> Result<(), CliError> {
    if !args.json {
        title(partition, console);
    }
    for (files, log) in partition.logs() {
        let found = ask(log)?;
        let mut of_log = Sum::default();
        of_log.add(log.bytes, &found);
        let of_indexes = ask_indexes(files)?;
        if args.json {
            let name = partition.path.display().to_string();
            console.print(format_args!("{}\n", object(&name, files, log, &found, &of_indexes)));
        } else {
            let strip = strip(&found, args.width.into());
            row(&files.base.to_string(), &of_log, &of_indexes, &strip, console);
        }
        sums.logs.merge(&of_log);
        sums.indexes.merge(&of_indexes);
        sums.segments += 1;
        console.spill()?;
    }
    Ok(())
}

fn ask(info: &FileInfo) -> Result<Residency, CliError> {
    let file = File::open(&info.path).map_err(CliError::io("open", &info.path))?;
    page_cache::residency(&file, 0..info.bytes)
        .map_err(CliError::io("ask for the pages of", &info.path))
}

fn ask_indexes(files: &SegmentFiles) -> Result<Sum, CliError> {
    let mut sum = Sum::default();
    for info in [&files.index, &files.time_index, &files.txn_index].into_iter().flatten() {
        sum.add(info.bytes, &ask(info)?);
    }
    Ok(sum)
}

fn title(partition: &Partition, console: &mut Console) {
    let name = partition.path.display();
    console.print(format_args!(
        "{name}\n  {:>20}  {:>10}  {:>10}  {:>5}  {:>10}  {:>10}\n",
        "segment", "log", "in memory", "", "indexes", "unwritten"
    ));
}

fn row(base: &str, log: &Sum, indexes: &Sum, strip: &str, console: &mut Console) {
    let percent = match log.pages {
        0 => String::new(),
        pages => format!("{} %", log.resident_pages * 100 / pages),
    };
    let dirty = log.dirty_pages.map_or_else(String::new, |pages| pages.to_string());
    console.print(format_args!(
        "  {base:>20}  {:>10}  {:>10}  {percent:>5}  {:>10}  {dirty:>10}  {strip}\n",
        Bytes(log.bytes),
        Bytes(log.resident_bytes),
        Bytes(indexes.resident_bytes),
    ));
}

/// A character for each equal part of the log, the darker the more of it is in memory.
fn strip(found: &Residency, width: u64) -> String {
    let cells = width.min(found.page_count);
    let mut text = String::from("[");
    for cell in 0..cells {
        let pages = found.page_count * cell / cells..found.page_count * (cell + 1) / cells;
        let (all, resident) = (pages.end - pages.start, found.resident_in(pages));
        text.push(match resident * 4 / all {
            0 if resident == 0 => '·',
            0 | 1 => '░',
            2 => '▒',
            3 => '▓',
            _ => '█',
        });
    }
    text.push(']');
    text
}

fn object(
    partition: &str,
    files: &SegmentFiles,
    log: &FileInfo,
    found: &Residency,
    indexes: &Sum,
) -> Value {
    let runs: Vec<_> = found.resident.iter().map(|run| [run.start, run.end]).collect();
    json!({
        "partition": partition, "base_offset": files.base.get(), "bytes": log.bytes,
        "page_bytes": found.page_bytes, "pages": found.page_count,
        "resident_pages": found.resident_count(), "resident": runs,
        "dirty_pages": found.dirty_count, "evicted_pages": found.evicted_count,
        "indexes": indexes.object(),
    })
}
