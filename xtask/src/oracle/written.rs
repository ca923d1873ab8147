//! Logs that we write, read by Kafka's dump tool: it finds nothing wrong in any file, and prints
//! the values that we put in.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use alluvium_log_manager::{Inline, Log, LogConfig, ManualClock};
use alluvium_record_format::{LeaderEpoch, Timestamp};
use anyhow::{Context, Result, ensure};

use super::expected;
use super::plan::Planned;
use super::scenarios;
use crate::kafka::{DumpTool, Kafka};
use crate::tally::{Tally, same_text};
use crate::workspace::{self, entries, name};

/// Writes a partition for every kind of batch and has the tool read each file of it.
///
/// # Errors
///
/// When a file cannot be written or the tool is gone.
pub(super) fn check(kafka: &Kafka, dir: &Path, tally: &mut Tally) -> Result<()> {
    workspace::empty_dir(dir)?;
    let mut tool = DumpTool::start(kafka, dir)?;
    for (scenario, batches) in scenarios::all() {
        let partition = dir.join(format!("{scenario}-0"));
        write(&partition, &batches).with_context(|| format!("cannot write {scenario}"))?;
        let logs = expected::logs(&partition, &batches)?;
        for (file, text) in &logs {
            let flags = ["--deep-iteration", "--print-data-log"];
            tally.check(file, read_back(&mut tool, &flags, file, Some(text)));
        }
        ensure!(logs.len() > 1, "{scenario} has one segment only");
        check_others(&mut tool, &partition, &batches, tally)?;
    }
    Ok(())
}

/// Appends every batch as a follower does, which leaves it as it is, and closes the log.
fn write(partition: &Path, batches: &[Planned]) -> Result<()> {
    fs::create_dir_all(partition)?;
    let config = LogConfig::builder()
        .internal_segment_bytes(Some(4_000))
        .index_interval_bytes(300)
        .segment_ms(u64::MAX >> 1)
        .build()?;
    // A day after the first records, so that no producer is forgotten.
    let clock = ManualClock::new(Timestamp::new(scenarios::DAY_ONE));
    let log = Log::options()
        .config(config)
        .clock(Arc::new(clock))
        .background(Arc::new(Inline::default()))
        .open(partition)?;
    for batch in batches {
        log.append_as_follower(&batch.build()?, LeaderEpoch::new(batch.leader_epoch))?;
    }
    log.close()?;
    Ok(())
}

/// Indexes pass the sanity check and agree with the log; aborted transactions and producers are
/// the planned ones.
fn check_others(
    tool: &mut DumpTool,
    partition: &Path,
    batches: &[Planned],
    tally: &mut Tally,
) -> Result<()> {
    let mut aborted = String::new();
    let mut producers = String::new();
    for path in entries(partition)? {
        let file = format!("{}/{}", name(partition), name(&path));
        match path.extension().unwrap_or_default().to_string_lossy().as_ref() {
            "index" | "timeindex" => {
                let what = format!("{file} --index-sanity-check");
                let is_empty =
                    path.metadata()?.len() == 0 && path.extension() == Some("index".as_ref());
                let verdict = if is_empty { "is empty." } else { "passed sanity check." };
                let text = format!("Dumping {file}\n{file} {verdict}\n");
                let sane = read_back(tool, &["--index-sanity-check"], &file, Some(&text));
                tally.check(&what, sane);
                tally.check(&file, read_back(tool, &[], &file, None));
            }
            "txnindex" => aborted.push_str(&without_head(tool, &file)?),
            "snapshot" => producers = without_head(tool, &file)?,
            _ => {}
        }
    }
    let what = format!("{}: aborted transactions", name(partition));
    tally.check(&what, same_text(aborted.as_bytes(), expected::aborted(batches).as_bytes()));
    let what = format!("{}: producers in the newest snapshot", name(partition));
    let sorted = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let (ours, theirs) = (sorted(&producers), sorted(&expected::producers(batches)));
    tally.check(&what, same_text(ours.as_bytes(), theirs.as_bytes()));
    Ok(())
}

/// Has the tool print a file; it must not complain, and print `text` where one is given.
fn read_back(tool: &mut DumpTool, flags: &[&str], file: &str, text: Option<&str>) -> Result<()> {
    let printed = tool.run(flags, file)?;
    ensure!(printed.code == 0, "the tool dies: {}", printed.stderr);
    let complaints = ["Mismatches", "not found", "timestamp", "invalid"];
    for line in printed.stderr.lines() {
        let complains = complaints.iter().any(|complaint| line.contains(complaint));
        ensure!(!complains, "the tool complains: {line}");
    }
    match text {
        Some(text) => same_text(&printed.stdout, text.as_bytes()),
        None => Ok(()),
    }
}

fn without_head(tool: &mut DumpTool, file: &str) -> Result<String> {
    let printed = tool.run(&[], file)?;
    ensure!(printed.code == 0, "the tool dies: {}", printed.stderr);
    let text = String::from_utf8(printed.stdout).context("the tool prints UTF-8")?;
    Ok(text.split_once('\n').map_or(String::new(), |(_head, rest)| rest.to_owned()))
}
