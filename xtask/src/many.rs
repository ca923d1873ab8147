//! `many-partitions`: thousands of partitions, and one log of very many segments, by a process
//! that may have 1,024 descriptors.

mod disk;
mod one_log;
mod process;
mod twin;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alluvium_log_manager::{
    BrokerConfig, Isolation, LeaderRequest, LogConfig, LogManager, ManagerOptions, StartReport,
};
use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_segment::{FilePool, Io, IoCall, IoHook, IoVerdict};
use anyhow::{Context, Result, ensure};

use self::disk::{Layout, TOPIC};
use self::process::Process;
use crate::{allocations, flags, workspace};

/// Descriptors that the process may have.
const DESCRIPTORS: u64 = 1024;

/// A clean open may take so many times as long as the bare system calls.
const MAX_RATIO: f64 = 4.0;

/// Bytes of memory that an idle partition may take.
const MAX_BYTES: u64 = 8192;

/// Makes the disk, and puts a manager through everything.
///
/// # Errors
///
/// When a bar is missed, a descriptor too many is open, or anything fails.
pub(crate) fn run(flags: &flags::ManyPartitions) -> Result<()> {
    if cfg!(debug_assertions) {
        let mut again = workspace::cargo();
        again.args(["run", "--release", "--quiet", "--package", "xtask", "--"]);
        again.args(std::env::args_os().skip(1));
        return workspace::run(&mut again);
    }
    let layout = Layout {
        partitions: flags.partitions.unwrap_or(10_000),
        segments: flags.segments.unwrap_or(3),
    };
    let process = Process::with_descriptors(DESCRIPTORS)?;
    println!("open files allowed, from /proc/self/limits: {}", process::limit()?);
    let dir = workspace::scratch().join("many-partitions");
    workspace::empty_dir(&dir)?;
    // Each part in its own directory, all removed at the end: right after a hundred thousand
    // files are gone, ext4 takes milliseconds to find a number for a new one.
    let (wide, deep) = (dir.join("partitions"), dir.join("segments"));
    std::fs::create_dir(&wide)?;
    std::fs::create_dir(&deep)?;
    let missed = partitions(&wide, layout, &process).err();
    one_log::run(&deep, flags.one_log.unwrap_or(100_000), &process)?;
    let (took, ()) = timed(|| workspace::empty_dir(&dir))?;
    println!("remove everything: {} ms", took.as_millis());
    if let Some(missed) = missed {
        return Err(missed);
    }
    println!("descriptors open at most, from /proc/self/fd: {}", process.most_descriptors());
    ensure!(process.most_descriptors() <= DESCRIPTORS, "too many descriptors");
    Ok(())
}

fn partitions(dir: &Path, layout: Layout, process: &Process) -> Result<()> {
    let Layout { partitions, segments } = layout;
    let files = disk::make(dir, layout)?;
    println!("{partitions} partitions with {segments} segments, {files} files");
    let ratio = clean_opens(dir, layout, process)?;
    let bytes = idle_memory(dir, layout, process)?;
    unclean_open(dir, layout)?;
    ensure!(ratio <= MAX_RATIO, "a clean open takes {ratio:.2} x the bare calls");
    ensure!(bytes <= MAX_BYTES, "an idle partition takes {bytes} bytes");
    Ok(())
}

/// Opens the disk thrice after a clean stop, each beside the bare calls; returns the median ratio.
fn clean_opens(dir: &Path, layout: Layout, process: &Process) -> Result<f64> {
    let mut ratios = Vec::new();
    for round in 1..=3 {
        let bare = twin::bare_calls(dir)?;
        let (took, (manager, report)) = timed(|| start(dir, FilePool::for_this_process()))?;
        check(&report, layout, true)?;
        process.sample();
        let ratio = took.as_secs_f64() / bare.as_secs_f64();
        println!(
            "clean open {round}: {} ms, bare calls {} ms, ratio {ratio:.2}",
            took.as_millis(),
            bare.as_millis()
        );
        ratios.push(ratio);
        let (took, stopped) = timed(|| manager.stop(None).context("the stop"))?;
        ensure!(stopped.dirs.iter().all(|dir| dir.is_clean), "the stop is not clean");
        println!("clean stop {round}: {} ms", took.as_millis());
    }
    ratios.sort_by(f64::total_cmp);
    Ok(ratios[1])
}

/// Opens the disk, measures memory, and uses every partition. Ends without a stop.
fn idle_memory(dir: &Path, layout: Layout, process: &Process) -> Result<u64> {
    let before = (process::anonymous_bytes()?, allocations::live_bytes());
    let (manager, _) = start(dir, FilePool::for_this_process())?;
    let after = (process::anonymous_bytes()?, allocations::live_bytes());
    let each =
        |before: u64, after: u64| after.saturating_sub(before) / u64::from(layout.partitions);
    let (resident, heap) = (each(before.0, after.0), each(before.1, after.1));
    println!("an idle partition: {heap} bytes of heap, {resident} of anonymous memory");
    println!("maps, from /proc/self/maps: {}", process::maps()?);
    let (took, ()) = timed(|| use_all(&manager, layout, process))?;
    println!("an append, a read and a look-up in each: {} ms", took.as_millis());
    manager.tick();
    process.sample();
    Ok(resident.max(heap))
}

fn use_all(manager: &LogManager, layout: Layout, process: &Process) -> Result<()> {
    let epoch = LeaderEpoch::new(0);
    for number in 0..layout.partitions {
        let log = manager.log(&disk::partition(number))?;
        let mut batch = disk::batch(0);
        log.append_as_leader(&mut batch, LeaderRequest::new(epoch))?;
        let end = log.log_end_offset();
        ensure!(end == Offset::new(i64::from(layout.segments) + 1), "{TOPIC}-{number}: {end}");
        for offset in 0..end.get() {
            let fetched = log.read(Offset::new(offset), 1 << 16, Isolation::LogEnd, true)?;
            ensure!(!fetched.is_empty(), "{TOPIC}-{number} has nothing at {offset}");
        }
        if number % 64 == 0 {
            process.sample();
        }
    }
    Ok(())
}

/// Opens the disk as after a crash that left no checkpoint: every segment is recovered.
fn unclean_open(dir: &Path, layout: Layout) -> Result<()> {
    for name in ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"] {
        std::fs::remove_file(dir.join(name)).context(name)?;
    }
    let count = Arc::new(Counts::default());
    let pool = FilePool::with_io(
        FilePool::for_this_process().max_open_files(),
        Io::with_hook(Arc::<Counts>::clone(&count)),
    );
    let (took, (manager, report)) = timed(|| start(dir, pool))?;
    check(&report, layout, false)?;
    let loaded = report.dirs.iter().flat_map(|dir| &dir.loaded);
    let recovered: usize = loaded.map(|(_, report)| report.recovered.len()).sum();
    println!(
        "unclean open: {} ms, {recovered} segments recovered, {} fsyncs by the open itself",
        took.as_millis(),
        count.syncs.load(Ordering::Relaxed)
    );
    ensure!(recovered == usize::try_from(layout.partitions * layout.segments)?, "too few");
    let (took, _) = timed(|| manager.stop(None).context("the stop"))?;
    println!(
        "and a clean stop, which makes all of it durable: {} ms, {} fsyncs",
        took.as_millis(),
        count.syncs.load(Ordering::Relaxed)
    );
    Ok(())
}

fn start(dir: &Path, pool: Arc<FilePool>) -> Result<(LogManager, StartReport)> {
    let options: ManagerOptions = LogManager::options(config(dir)?).pool(pool);
    options.start().context("the start")
}

/// Kafka's defaults.
fn config(dir: &Path) -> Result<BrokerConfig> {
    let defaults = LogConfig::builder().retention_ms(None).build()?;
    Ok(BrokerConfig::builder().log_dirs(vec![dir.to_path_buf()]).log_defaults(defaults).build()?)
}

fn check(report: &StartReport, layout: Layout, clean: bool) -> Result<()> {
    for dir in &report.dirs {
        ensure!(dir.failure.is_none(), "offline: {:?}", dir.failure);
        ensure!(dir.was_clean == clean, "clean: {}", dir.was_clean);
        ensure!(dir.loaded.len() == usize::try_from(layout.partitions)?, "{}", dir.loaded.len());
        ensure!(dir.foreign.is_empty(), "{:?}", dir.foreign);
    }
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(Duration, T)> {
    let start = Instant::now();
    let done = work()?;
    Ok((start.elapsed(), done))
}

/// Counts syncs.
#[derive(Default)]
struct Counts {
    syncs: AtomicU64,
}

impl IoHook for Counts {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        if matches!(call, IoCall::Sync { .. } | IoCall::SyncDir { .. }) {
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        IoVerdict::Proceed
    }
}
