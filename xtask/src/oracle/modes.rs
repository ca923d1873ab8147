//! Our `dump --format kafka` against the live tool, file by file and mode by mode.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::conformance::Alluvium;
use crate::kafka::{DumpTool, Kafka, Printed};
use crate::tally::{Tally, same_text};
use crate::workspace::{entries, name};

/// Flags, and the kinds of file that they matter for.
type Mode = (&'static [&'static str], &'static [&'static str]);

const LOGS: &[&str] = &["log", "checkpoint"];
const INDEXES: &[&str] = &["index", "timeindex"];
const OTHERS: &[&str] = &["txnindex", "snapshot"];

/// Every mode of ours.
pub(super) const EVERY: [Mode; 8] = [
    (&[], LOGS),
    (&["--print-data-log"], LOGS),
    (&["--deep-iteration", "--skip-record-metadata"], LOGS),
    (&["--print-data-log", "--skip-record-metadata"], LOGS),
    (&[], INDEXES),
    (&["--verify-index-only"], INDEXES),
    (&["--index-sanity-check"], INDEXES),
    (&["--print-data-log"], OTHERS),
];

/// What shows damage best.
pub(super) const DEEP: [Mode; 2] = [(&["--deep-iteration"], LOGS), (&[], INDEXES)];

/// Compares what both print for every file of every partition in `disk`.
///
/// # Errors
///
/// When the live tool is gone.
pub(super) fn check(
    kafka: &Kafka,
    alluvium: &Alluvium,
    disk: &Path,
    modes: &[Mode],
    tally: &mut Tally,
) -> Result<()> {
    let mut tool = DumpTool::start(kafka, disk)?;
    for partition in entries(disk)?.into_iter().filter(|path| path.is_dir()) {
        for file in entries(&partition)? {
            let extension = file.extension().unwrap_or_default().to_string_lossy().into_owned();
            let path = format!("{}/{}", name(&partition), name(&file));
            for (flags, _) in modes.iter().filter(|(_, of)| of.contains(&&*extension)) {
                let theirs = tool.run(flags, &path)?;
                let what = format!("{} {path} {}", name(disk), flags.join(" "));
                tally.check(&what, compare(alluvium, disk, flags, &path, &theirs));
            }
        }
    }
    Ok(())
}

/// Where Kafka's tool ends well, both texts are the same. Where it dies, ours says at least as
/// much, and exits with 1.
fn compare(
    alluvium: &Alluvium,
    disk: &Path,
    flags: &[&str],
    path: &str,
    theirs: &Printed,
) -> Result<()> {
    let mut args = vec!["dump", "--format", "kafka"];
    args.extend(flags);
    args.push(path);
    let ours = alluvium.output(disk, &args)?;
    if theirs.code == 0 {
        return same_text(&ours.stdout, &theirs.stdout);
    }
    let death = theirs.stderr.lines().next().unwrap_or_default();
    ensure!(ours.status.code() == Some(1), "{}, but Kafka's tool dies: {death}", ours.status);
    ensure!(!ours.stderr.is_empty(), "nothing on stderr");
    let shared = ours.stdout.len().min(theirs.stdout.len());
    same_text(&ours.stdout[..shared], &theirs.stdout)
}
