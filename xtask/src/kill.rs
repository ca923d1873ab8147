//! `kill`: a process appends from several threads, dies of SIGKILL, and the next one finds all.

mod child;
mod judge;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::judge::{Acknowledged, Opened};
use crate::proof::Dice;
use crate::{flags, workspace};

/// Rounds on one disk; then a new one begins, so that each round stays short.
const ROUNDS_A_DISK: u64 = 12;

/// Runs the rounds, or, as the process that is to be killed, appends without end.
///
/// # Errors
///
/// When a record is lost, changed, doubled, or a start fails.
pub(crate) fn run(flags: &flags::Kill) -> Result<()> {
    let seed = flags.seed.unwrap_or(1);
    if let Some(dir) = &flags.append_to {
        return child::append_until_killed(dir, seed);
    }
    let budget = Duration::from_secs(flags.budget.unwrap_or(u64::MAX / 4));
    let rounds = flags.rounds.unwrap_or(if flags.budget.is_some() { u64::MAX } else { 20 });
    let start = Instant::now();
    let mut dice = Dice::new(seed);
    let mut total = Total::default();
    let dir = workspace::scratch().join(format!("kill-{seed}"));
    while total.kills < rounds && start.elapsed() < budget {
        workspace::empty_dir(&dir)?;
        let mut acknowledged = Acknowledged::default();
        for _ in 0..ROUNDS_A_DISK.min(rounds - total.kills) {
            round(&dir, &mut dice, &mut acknowledged, &mut total)
                .with_context(|| format!("kill {} of seed {seed}", total.kills + 1))
                .with_context(|| format!("the disk is left in {}", dir.display()))?;
            if start.elapsed() >= budget {
                break;
            }
        }
    }
    ensure!(total.records > 0, "no process lived long enough to append");
    println!(
        "kill: {} kills, {} before the start was done; {} appends with {} records were \
         acknowledged, {} as flushed; {} starts found every one, in {:.1} s; seed {seed}",
        total.kills,
        total.in_start,
        total.appends,
        total.records,
        total.flushed,
        total.starts,
        start.elapsed().as_secs_f64(),
    );
    fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))
}

/// What all rounds came to.
#[derive(Debug, Default)]
struct Total {
    kills: u64,
    in_start: u64,
    starts: u64,
    appends: usize,
    records: u64,
    flushed: usize,
}

fn round(
    dir: &Path,
    dice: &mut Dice,
    acknowledged: &mut Acknowledged,
    total: &mut Total,
) -> Result<()> {
    let patience = Duration::from_millis(1 + dice.below(350));
    let was_ready = killed_after(dir, dice.next(), patience)?;
    total.kills += 1;
    total.in_start += u64::from(!was_ready);
    let new = acknowledged.take(&dir.join(child::ACKS))?;
    total.appends += new.appends;
    total.records += new.records;
    total.flushed += new.flushed;
    // In most rounds we look; in the others the next process starts on what the kill left.
    if dice.one_in(4) {
        return Ok(());
    }
    let opened = Opened::start(&dir.join(child::DISK))?;
    acknowledged.check(&opened)?;
    total.starts += 1;
    opened.stop()
}

/// Starts a process that appends and kills it after this time. Returns whether its start was done.
fn killed_after(dir: &Path, seed: u64, patience: Duration) -> Result<bool> {
    let program = env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(["kill", "--seed", &seed.to_string(), "--append-to"]).arg(dir);
    let mut child =
        command.stdout(Stdio::piped()).spawn().context("cannot start the process that appends")?;
    thread::sleep(patience);
    let ended = child.try_wait().context("cannot look at it")?;
    ensure!(ended.is_none(), "the process ended by itself: {ended:?}");
    child.kill().context("cannot kill it")?;
    let ready = said_ready(&mut child)?;
    child.wait().context("cannot wait for it")?;
    Ok(ready)
}

fn said_ready(child: &mut Child) -> Result<bool> {
    let stdout = child.stdout.take().context("stdout is piped")?;
    let first = BufReader::new(stdout).lines().next().transpose();
    Ok(first.context("cannot read from the process")?.is_some_and(|line| line == child::READY))
}
