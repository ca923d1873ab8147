//! `load`: appenders, readers at the high watermark, and everything that may disturb them, at the
//! same time. Every batch that a reader gets is compared with what was committed.

mod append;
mod disturb;
mod ledger;
mod read;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use alluvium_log_manager::{BrokerConfig, Log, LogConfig, LogManager, NewLog};
use alluvium_recovery::TopicPartition;
use anyhow::{Context, Result, ensure};

use self::ledger::Ledger;
use crate::workspace;

const LOGS: i32 = 4;
const READERS_OF_EACH: usize = 2;

/// Puts four logs under load for so many seconds.
///
/// # Errors
///
/// When a reader sees anything but the committed records, gapless and in order, when something
/// never happened, or when anything fails.
pub(crate) fn run(seconds: u64) -> Result<()> {
    if cfg!(debug_assertions) {
        let mut again = workspace::cargo();
        again.args(["run", "--release", "--quiet", "--package", "xtask", "--", "load"]);
        again.args(["--seconds", &seconds.to_string()]);
        return workspace::run(&mut again);
    }
    read::prove_that_checks_fail()?;
    let dir = workspace::scratch().join("load");
    workspace::empty_dir(&dir)?;
    let defaults = LogConfig::builder()
        .segment_bytes(1 << 20)
        .retention_ms(None)
        .retention_bytes(Some(16 << 20))
        .file_delete_delay_ms(0)
        .build()?;
    let config = BrokerConfig::builder().log_dirs(vec![dir.clone()]).log_defaults(defaults);
    let manager = LogManager::start(config.build()?)?;
    let logs = (0..LOGS)
        .map(|number| {
            let log = manager.get_or_create(&load(number), &NewLog::new().is_new())?;
            Ok(Loaded { log, ledger: Ledger::default() })
        })
        .collect::<Result<Vec<Loaded>>>()?;
    let (counts, done) = (Counts::default(), Done::after(Duration::from_secs(seconds)));
    let started = Instant::now();
    all_at_once(&manager, &logs, &counts, &done)?;
    for loaded in &logs {
        read::to_the_end(loaded, &counts)?;
    }
    counts.print(started.elapsed());
    counts.check()?;
    let stopped = manager.stop(None)?;
    ensure!(stopped.dirs.iter().all(|dir| dir.is_clean), "not a clean stop: {stopped:?}");
    drop(logs);
    workspace::empty_dir(&dir)
}

/// One of the logs, and what was committed to it.
struct Loaded {
    log: Log,
    ledger: Ledger,
}

fn load(number: i32) -> TopicPartition {
    TopicPartition::new("load", number)
}

fn all_at_once(manager: &LogManager, logs: &[Loaded], counts: &Counts, done: &Done) -> Result<()> {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for loaded in logs {
            threads.push(scope.spawn(|| done.unless_failed(append::run(loaded, counts, done))));
            threads.push(scope.spawn(|| done.unless_failed(disturb::log(loaded, counts, done))));
            for _ in 0..READERS_OF_EACH {
                threads.push(scope.spawn(|| done.unless_failed(read::run(loaded, counts, done))));
            }
        }
        threads
            .push(scope.spawn(|| done.unless_failed(disturb::other_logs(manager, counts, done))));
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
    .context("under load")
}

/// When everybody stops: at the end of the time, or when something is wrong.
struct Done {
    end: Instant,
    failed: AtomicBool,
}

impl Done {
    fn after(time: Duration) -> Self {
        Self { end: Instant::now() + time, failed: AtomicBool::new(false) }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end || self.failed.load(Ordering::Relaxed)
    }

    fn unless_failed(&self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }
}

/// How often each thing happened.
#[derive(Default)]
struct Counts {
    appends: AtomicU64,
    records_appended: AtomicU64,
    truncations: AtomicU64,
    batches_cut: AtomicU64,
    reads: AtomicU64,
    records_read: AtomicU64,
    starts_over: AtomicU64,
    overtaken: AtomicU64,
    rolls: AtomicU64,
    segments_dropped: AtomicU64,
    deletions_of_records: AtomicU64,
    flushes: AtomicU64,
    logs_deleted: AtomicU64,
}

impl Counts {
    fn all(&self) -> [(&'static str, &AtomicU64); 13] {
        [
            ("appends", &self.appends),
            ("records appended", &self.records_appended),
            ("truncations at or above the high watermark", &self.truncations),
            ("batches cut off by them", &self.batches_cut),
            ("reads", &self.reads),
            ("records read and compared", &self.records_read),
            ("readers that started over at the log start", &self.starts_over),
            ("readers that retention overtook", &self.overtaken),
            ("rolls on demand", &self.rolls),
            ("segments dropped", &self.segments_dropped),
            ("deletions of records", &self.deletions_of_records),
            ("flushes", &self.flushes),
            ("logs deleted while they were read", &self.logs_deleted),
        ]
    }

    fn print(&self, took: Duration) {
        println!("{LOGS} logs under load for {:.1} s", took.as_secs_f64());
        for (name, count) in self.all() {
            println!("{:>12}  {name}", count.load(Ordering::Relaxed));
        }
    }

    /// Nothing proves anything that never happened.
    fn check(&self) -> Result<()> {
        for (name, count) in self.all() {
            ensure!(count.load(Ordering::Relaxed) > 0, "no {name}");
        }
        Ok(())
    }
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
}
