//! The system calls that no open can do without: every directory is listed, every file opened,
//! its length asked for and its end read.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Threads that a start has for a directory, by default.
const THREADS: usize = 2;

/// Makes the calls for all partitions of a log directory, by as many threads as a start has.
pub(super) fn bare_calls(dir: &Path) -> Result<Duration> {
    let start = Instant::now();
    let mut partitions = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            partitions.push(entry.path());
        }
    }
    let queue = Mutex::new(partitions);
    let work = || -> Result<u64> {
        let mut sum = 0;
        loop {
            let next: Option<PathBuf> = queue.lock().ok().and_then(|mut queue| queue.pop());
            let Some(partition) = next else { return Ok(sum) };
            sum += of_partition(&partition)?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            let sum = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            // Looked at, so that nothing is left out.
            std::hint::black_box(sum);
            anyhow::Ok(())
        })
    })?;
    Ok(start.elapsed())
}

fn of_partition(partition: &Path) -> Result<u64> {
    let mut sum = 0;
    let mut end = [0; 64];
    for entry in fs::read_dir(partition)? {
        let path = entry?.path();
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        let len = file.metadata()?.len();
        let read = file.read_at(&mut end, len.saturating_sub(64))?;
        sum += end.iter().take(read).map(|byte| u64::from(*byte)).sum::<u64>();
    }
    Ok(sum)
}
