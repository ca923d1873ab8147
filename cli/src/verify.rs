//! `alluvium verify`: is what lies on this disk sound?

mod directory;
mod entries;
mod finding;
mod offset_index;
mod plan;
mod report;
mod run;
mod segment;
mod time_index;
mod txn_index;

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use self::finding::{Kind, Severity};
use self::report::Report;
use self::run::Event;
pub use self::run::VerifySummary;
use crate::console::Console;
use crate::error::CliError;
use crate::parallel::default_jobs;
use crate::progress::Progress;

/// Check files, partitions or whole log directories of Kafka
///
/// Reads every byte once: names, batches one after the other, checksums, compressed payloads,
/// records, offsets against their neighbours, every index entry against the log, producer
/// snapshots, leader epochs, and checkpoints against the partitions. Goes on behind damage, and
/// changes nothing.
///
/// Base offset and leader epoch of a batch have no checksum: a change there is found only where
/// it contradicts neighbours, indexes or leader-epoch-checkpoint.
#[derive(Args, Debug)]
#[command(after_long_help = help())]
pub(crate) struct VerifyArgs {
    /// Files, partition directories or log directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Print a JSON object a line: one for each finding, then one with a summary
    #[arg(long)]
    json: bool,

    /// Segments to check at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// Runs the command.
pub(crate) fn run(args: &VerifyArgs, console: &mut Console) -> Result<(), CliError> {
    let jobs = args.jobs.unwrap_or_else(default_jobs);
    let mut report = Report::new(args.json, console);
    let summary = run::check(&args.paths, jobs, &mut |progress: &Progress, event: Event| {
        progress.beside(|| report.event(&event))
    })?;
    report.finish(&summary);
    Ok(())
}

/// Checks files and directories on `jobs` threads without printing anything: what the command
/// does, for benchmarks and tests of the workspace.
#[must_use]
pub fn verify(paths: &[PathBuf], jobs: NonZeroUsize) -> VerifySummary {
    let quiet = &mut |_: &Progress, _: Event| Ok(());
    run::check(paths, jobs, quiet).unwrap_or_default()
}

/// The help of all findings, for the end of `--help`.
fn help() -> String {
    let mut text = String::from(
        "Examples:\n  \
         alluvium verify /var/lib/kafka/data\n  \
         alluvium verify --json --jobs 8 /disk1/kafka /disk2/kafka | jq 'select(.kind)'\n  \
         alluvium verify orders-0/00000000000000000000.log\n\n\
         Findings (a note is unusual but sound, and does not change the exit code):\n",
    );
    for kind in Kind::ALL {
        let note = if kind.severity() == Severity::Note { " (note)" } else { "" };
        // A String takes every character, so there is no error to hand on.
        let _ = write!(text, "\n  {}{note}\n", kind.code());
        for paragraph in [kind.meaning(), kind.advice()] {
            for line in wrap(paragraph, 88) {
                let _ = writeln!(text, "      {line}");
            }
        }
    }
    text.push_str("\nExit codes: 0 good, 1 damage found, 2 wrong usage or something unreadable.");
    text
}

/// Breaks text into lines of at most `width` characters, at spaces.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
