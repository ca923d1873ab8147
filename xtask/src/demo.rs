//! `demo`: the main job in under a minute. A million records in every codec over several
//! segments, read back by offset and by time; a process killed while it appends; the log opened
//! again and every record checked.

mod kill;
mod read;
mod records;
mod table;
mod write;

use std::path::{Path, PathBuf};
use std::time::Instant;

use alluvium_log_manager::{Log, LogConfig};
use anyhow::{Context, Result, ensure};

use self::records::RECORDS;
use self::table::Table;
use crate::{flags, workspace};

/// How often the process that appends is killed.
const KILLS: usize = 3;

/// Runs the demo, or, as the process that is to be killed, appends to a log without end.
///
/// # Errors
///
/// When anything is not as it should be.
pub(crate) fn run(flags: &flags::Demo) -> Result<()> {
    if let Some(dir) = &flags.append_to {
        return kill::append_until_killed(dir);
    }
    if cfg!(debug_assertions) {
        let mut again = workspace::cargo();
        again.args(["run", "--release", "--quiet", "--package", "xtask", "--", "demo"]);
        return workspace::run(&mut again);
    }
    let start = Instant::now();
    let dir = workspace::scratch().join("demo");
    workspace::empty_dir(&dir)?;
    let partition = dir.join("demo-0");
    let mut table = Table::default();
    fill(&partition, &mut table)?;
    for _ in 0..KILLS {
        killed(&partition, &mut table)?;
    }
    println!("{}", table.text());
    println!("All of it is right. It took {:.1} s.\n", start.elapsed().as_secs_f64());
    println!("The log is in {}. Look into it with", partition.display());
    let path = partition.display();
    for command in [format!("stat {path}"), format!("lookup {path} --offset {}", RECORDS / 2)] {
        println!("  cargo run --release -p alluvium -- {command}");
    }
    Ok(())
}

/// Writes the million, closes, opens again and reads.
fn fill(partition: &Path, table: &mut Table) -> Result<()> {
    let log = Log::open(partition, config()?)?;
    write::all_codecs(&log, table)?;
    let segments = log.segments().len();
    ensure!(segments >= 3, "{segments} segments are not several");
    let closed = log.close()?;
    drop(log);
    let log = Log::options().config(config()?).after_close(&closed).open(partition)?;
    ensure!(log.log_end_offset().get() == RECORDS, "the log ends at {}", log.log_end_offset());
    read::every_record(&log, "read every record and compare it", table)?;
    read::by_offset(&log, table)?;
    read::by_time(&log, table)?;
    log.close()?;
    Ok(())
}

/// Has another process append, kills it, and looks at what it left.
fn killed(partition: &PathBuf, table: &mut Table) -> Result<()> {
    let acknowledged = kill::while_it_appends(partition, table)?;
    let start = Instant::now();
    let log = Log::open(partition, config()?).context("cannot open the log after the kill")?;
    table.timed("open the log: check all batches", "bytes", log.size_bytes(), start.elapsed());
    let end = log.log_end_offset().get();
    ensure!(end > acknowledged, "{acknowledged} was acknowledged, the log ends at {end}");
    read::every_record(&log, "read every record and compare it", table)?;
    log.close()?;
    Ok(())
}

/// Small segments, so that there are several.
fn config() -> Result<LogConfig> {
    Ok(LogConfig::builder().segment_bytes(8 << 20).build()?)
}
