//! A process that appends, and its end.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use alluvium_log_manager::{LeaderRequest, Log};
use alluvium_record_format::{BatchBuilder, BatchSettings, LeaderEpoch, Offset};
use anyhow::{Context, Result, bail};

use super::config;
use super::records::{CODECS, build};
use super::table::Table;

/// How long the process may append.
const LIFETIME: Duration = Duration::from_millis(1_500);

/// Starts a process that appends, kills it with SIGKILL, and returns the last offset that it had
/// reported as appended.
pub(super) fn while_it_appends(partition: &Path, table: &mut Table) -> Result<i64> {
    let program = env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(["demo", "--append-to"]).arg(partition).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start the process that appends")?;
    let mut lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
    let Some(first) = lines.next() else { bail!("the process appends nothing") };
    let (mut first, start): (i64, _) = (number(first)?, Instant::now());
    first -= 1;
    let mut last = first;
    for line in &mut lines {
        last = number(line)?;
        if start.elapsed() >= LIFETIME {
            child.kill().context("cannot kill it")?;
            break;
        }
    }
    // What it reported before it died is still in the pipe; a line may be cut.
    while let Some(Ok(offset)) = lines.next().map(number) {
        last = last.max(offset);
    }
    child.wait().context("cannot wait for it")?;
    let count = (last - first).unsigned_abs();
    table.timed("a second process appends, until SIGKILL", "records", count, start.elapsed());
    Ok(last)
}

fn number(line: io::Result<String>) -> Result<i64> {
    line.context("cannot read from the process")?.parse().context("not an offset")
}

/// Appends batch after batch and reports the last offset of each once the log has taken it.
pub(super) fn append_until_killed(partition: &Path) -> Result<()> {
    let log = Log::open(partition, config()?)?;
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let mut stdout = io::stdout().lock();
    for codec in CODECS.into_iter().cycle() {
        let mut batch = build(&mut builder, log.log_end_offset().get(), codec)?;
        let request = LeaderRequest::new(LeaderEpoch::new(0));
        let appended = log.append_as_leader(&mut batch, request)?;
        let last = appended.last_offset.context("a batch was appended")?;
        writeln!(stdout, "{last}").context("nobody listens")?;
        stdout.flush().context("nobody listens")?;
    }
    Ok(())
}
