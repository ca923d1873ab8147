//! A few logs of very many segments.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use alluvium_log_manager::{CheckpointKeeper, Isolation, LeaderRequest, Log, LogConfig};
use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_segment::{DirLock, FilePool};
use anyhow::{Context, Result, ensure};

use super::process::Process;
use super::{disk, timed};

/// The logs that share the segments.
const LOGS: u32 = 4;

/// Opens `segments` segments in a few logs, reads all of them in order and here and there,
/// appends, rolls and drops them.
pub(super) fn run(dir: &Path, segments: u32, process: &Process) -> Result<()> {
    let each = segments / LOGS;
    println!("{LOGS} logs with {each} segments");
    let (took, ()) = timed(|| make_all(dir, each))?;
    println!("make their files: {} ms", took.as_millis());
    let lock = DirLock::acquire(dir)?;
    let pool = FilePool::for_this_process();
    let config = LogConfig::builder().retention_ms(None).retention_bytes(Some(1)).build()?;
    let (took, logs) = timed(|| {
        (0..LOGS)
            .map(|number| {
                Log::options()
                    .config(config.clone())
                    .clean(true)
                    .recovery_point(Offset::new(i64::from(each)))
                    .lock(lock.clone())
                    .pool(pool.clone())
                    .offset_keeper(Arc::new(CheckpointKeeper::new(dir, disk::partition(number))))
                    .open(dir.join(disk::partition(number).to_string()))
                    .context("a log does not open")
            })
            .collect::<Result<Vec<Log>>>()
    })?;
    process.sample();
    println!("open: {} ms", took.as_millis());
    let (took, ()) = timed(|| logs.iter().try_for_each(|log| read_all(log, each, process)))?;
    println!("read every segment in order, then here and there: {} ms", took.as_millis());
    let grown = dir.join(disk::partition(LOGS).to_string());
    let log = Log::options().lock(lock).pool(pool).open(grown)?;
    let (took, ()) = timed(|| grow(&log, each, process))?;
    println!("append and roll {each} times in another log: {} ms", took.as_millis());
    let (took, ()) = timed(|| logs.iter().try_for_each(|log| drop_all(log, process)))?;
    println!("append, roll and drop all old segments: {} ms", took.as_millis());
    let all = logs.iter().chain([&log]);
    let (took, ()) = timed(|| all.into_iter().try_for_each(|log| Ok(log.close().map(drop)?)))?;
    println!("flush and close: {} ms", took.as_millis());
    Ok(())
}

fn make_all(dir: &Path, segments: u32) -> Result<()> {
    std::thread::scope(|scope| {
        let make = |number| {
            let dir = dir.join(disk::partition(number).to_string());
            scope.spawn(move || make(&dir, segments))
        };
        let makers: Vec<_> = (0..LOGS).map(make).collect();
        makers.into_iter().try_for_each(|maker| maker.join().expect("making does not panic"))
    })
}

/// Segments of one batch each.
fn make(dir: &Path, segments: u32) -> Result<()> {
    fs::create_dir(dir)?;
    for number in 0..segments {
        let base = i64::from(number);
        fs::write(dir.join(format!("{base:020}.log")), disk::batch(base))?;
        fs::write(dir.join(format!("{base:020}.index")), [])?;
        let mut entry = (1_760_000_000_000 + base).to_be_bytes().to_vec();
        entry.extend([0; 4]);
        fs::write(dir.join(format!("{base:020}.timeindex")), entry)?;
    }
    Ok(())
}

fn read_all(log: &Log, segments: u32, process: &Process) -> Result<()> {
    ensure!(log.log_end_offset() == Offset::new(i64::from(segments)), "{}", log.log_end_offset());
    let here_and_there = (0..segments).map(|number| number.wrapping_mul(7919) % segments);
    for number in (0..segments).chain(here_and_there) {
        let offset = Offset::new(i64::from(number));
        let fetched = log.read(offset, 1 << 16, Isolation::LogEnd, true)?;
        let found = fetched.slice.as_ref().map(alluvium_segment::SegmentSlice::base_offset);
        ensure!(found == Some(offset), "at {offset}: {found:?}");
        if number % 256 == 0 {
            process.sample();
        }
    }
    Ok(())
}

/// A log of so many segments that it made itself: the last rolls are as quick as the first.
fn grow(log: &Log, segments: u32, process: &Process) -> Result<()> {
    let mut latencies = Vec::new();
    for _ in 0..segments {
        log.append_as_leader(&mut disk::batch(0), LeaderRequest::new(LeaderEpoch::new(0)))?;
        let (took, _) = timed(|| Ok(log.roll()?))?;
        latencies.push(took.as_micros());
        if latencies.len() % 256 == 0 {
            process.sample();
        }
    }
    let tenth = latencies.len().div_ceil(10);
    let mut median = |range: std::ops::Range<usize>| {
        let some = &mut latencies[range];
        some.sort_unstable();
        some[some.len() / 2]
    };
    let (first, last) = (median(0..tenth), median(segments as usize - tenth..segments as usize));
    println!("a roll, median of the first tenth: {first} us, of the last: {last} us");
    Ok(())
}

fn drop_all(log: &Log, process: &Process) -> Result<()> {
    let before = log.segment_count();
    log.append_as_leader(&mut disk::batch(0), LeaderRequest::new(LeaderEpoch::new(0)))?;
    log.roll()?;
    log.update_high_watermark(log.log_end_offset())?;
    let dropped = log.delete_old_segments()?;
    process.sample();
    ensure!(dropped >= before - 1, "{dropped} of {before} went");
    Ok(())
}
