//! What the kernel counts of a process.

use std::fs;

use anyhow::{Context, Result};

/// CPU time of all threads of a process so far, user and system.
///
/// # Errors
///
/// When the process is gone.
pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the broker is gone")?;
    let (_, fields) = stat.rsplit_once(')').context("no stat line")?;
    let ticks = |at: usize| -> Option<f64> { fields.split_whitespace().nth(at)?.parse().ok() };
    let (user, system) = ticks(11).zip(ticks(12)).context("no times")?;
    Ok((user + system) / TICKS_PER_S)
}

/// KiB of a process that are in memory. The page cache of its files is not among them; pages of
/// files that it has mapped, as indexes, are.
///
/// # Errors
///
/// When the process is gone.
pub(in crate::clients) fn resident_kib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the broker is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// `USER_HZ`, the same on every Linux.
const TICKS_PER_S: f64 = 100.0;
