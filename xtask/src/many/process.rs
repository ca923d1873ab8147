//! What `/proc` says of this process.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, setrlimit};

/// This process, with a bound on its descriptors.
pub(super) struct Process {
    most_descriptors: AtomicU64,
}

impl Process {
    /// Gives up all descriptors but so many, as `prlimit -n` does.
    pub(super) fn with_descriptors(count: u64) -> Result<Self> {
        let limit = Rlimit { current: Some(count), maximum: Some(count) };
        setrlimit(Resource::Nofile, limit).context("cannot set the limit of descriptors")?;
        Ok(Self { most_descriptors: AtomicU64::new(0) })
    }

    /// Counts the open descriptors.
    pub(super) fn sample(&self) {
        let count = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.most_descriptors.fetch_max(count, Ordering::Relaxed);
    }

    pub(super) fn most_descriptors(&self) -> u64 {
        self.most_descriptors.load(Ordering::Relaxed)
    }
}

/// The bound, as the kernel says it.
pub(super) fn limit() -> Result<String> {
    let text = fs::read_to_string("/proc/self/limits")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let words: Vec<&str> = line.context("no line of open files")?.split_whitespace().collect();
    Ok(words.join(" "))
}

/// Bytes of memory that no file is behind.
pub(super) fn anonymous_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")).context("no Anonymous")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}

/// How many maps there are.
pub(super) fn maps() -> Result<usize> {
    Ok(fs::read_to_string("/proc/self/maps")?.lines().count())
}
