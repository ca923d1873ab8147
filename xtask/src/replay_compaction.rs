//! `replay-compaction`: logs that Kafka's cleaner cleaned, cleaned by ours, with the same result.
//!
//! A folder holds one folder for each kind: `params.json` with what the cleaner was given and
//! what it reported, and `pass-N/before` and `pass-N/after` with the directory of the log.

mod compare;
mod params;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_cleaner::{
    ActiveProducers, CleanOptions, CleanReport, Cleaner, CleanerConfig, Offline,
};
use alluvium_record_format::{Offset, Timestamp};
use alluvium_recovery::read_snapshot;
use alluvium_segment::{
    DirLock, FileKind, FilePool, PartitionDir, Segment, SegmentConfig, SegmentFileName, Suffix,
};
use anyhow::{Context, Result, ensure};

use self::params::{Params, Pass};
use crate::golden;
use crate::tally::Tally;

/// Cleans every log of every folder; with none, the repository's own.
///
/// # Errors
///
/// When a file or a number differs, or a folder cannot be read.
pub(crate) fn run(dirs: &[PathBuf]) -> Result<()> {
    let mut tally = Tally::default();
    let own = if dirs.is_empty() { vec![golden::compaction()?] } else { Vec::new() };
    for dir in dirs.iter().chain(&own) {
        for kind in sorted(dir)? {
            replay(&kind, &mut tally)
                .with_context(|| format!("cannot replay {}", kind.display()))?;
        }
    }
    tally.finish()
}

/// All passes of one kind.
fn replay(kind: &Path, tally: &mut Tally) -> Result<()> {
    let params = Params::read(&kind.join("params.json"))?;
    let name = kind.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for pass in &params.passes {
        let folder = kind.join(format!("pass-{}", pass.number));
        let partition = format!("{name}-0");
        let work = tempfile::tempdir().context("cannot make a directory to work in")?;
        let ours = work.path().join(&partition);
        copy(&folder.join("before").join(&partition), &ours)?;
        let (report, active) = clean(&ours, &params, pass)?;
        let at = format!("{name} pass {}", pass.number);
        let theirs = folder.join("after").join(&partition);
        let same_logs = compare::directories(&at, &ours, &theirs, active, tally)?;
        tally.check(&format!("{at} numbers"), same_numbers(&report, pass, same_logs));
    }
    Ok(())
}

/// Cleans the log in `dir`. Also the base offset of its active segment.
fn clean(dir: &Path, params: &Params, pass: &Pass) -> Result<(CleanReport, Offset)> {
    let parent = dir.parent().context("the log lies in no directory")?;
    let lock = DirLock::acquire(parent)?;
    let pool = FilePool::for_this_process();
    let partition = PartitionDir::open(dir, &lock, &pool)?;
    let config = SegmentConfig::new()
        .index_interval_bytes(params.number("index.interval.bytes")?)
        .max_index_bytes(params.number("segment.index.bytes")?);
    let mut segments = Vec::new();
    let mut newest_snapshot = None;
    for path in sorted(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match SegmentFileName::parse(&name) {
            Some(name) if name.suffix != Suffix::None => {}
            Some(name) if name.kind == FileKind::Log => {
                segments.push(Segment::open(&partition, name.offset, config)?);
            }
            Some(name) if name.kind == FileKind::Snapshot => newest_snapshot = Some(path),
            _ => {}
        }
    }
    let producers = match newest_snapshot {
        Some(path) => read_snapshot(pool.io(), &path)?,
        None => Vec::new(),
    };
    let active = segments.last().context("no segment")?.base_offset();
    let report = clean_segments(&segments, config, &producers.iter().collect(), params, pass)?;
    Ok((report, active))
}

fn clean_segments(
    segments: &[Arc<Segment>],
    config: SegmentConfig,
    producers: &ActiveProducers,
    params: &Params,
    pass: &Pass,
) -> Result<CleanReport> {
    let options = CleanOptions::new(
        Offset::new(pass.first_dirty_offset),
        Offset::new(pass.first_uncleanable_offset),
        Timestamp::new(pass.now_ms),
    )
    .delete_retention_ms(params.number("delete.retention.ms")?)
    .segment_bytes(params.number("internal.segment.bytes")?)
    .segment(config)
    .high_watermark(Offset::new(pass.log_end_offset))
    .active_producers(producers.clone());
    let memory = CleanerConfig::new()
        .map_bytes(pass.offset_map_bytes)
        .load_factor(pass.dup_buffer_load_factor);
    Ok(Cleaner::new(memory).clean(segments, &options, &mut Offline)?)
}

/// Compares what the cleaners say of a pass. Bytes written depend on the compressor.
fn same_numbers(report: &CleanReport, pass: &Pass, same_logs: bool) -> Result<()> {
    let counts = report.counts;
    let ours = [
        ("next dirty offset", u64::try_from(report.next_dirty_offset.get())?),
        ("messages read", counts.records_read),
        ("messages written", counts.records_written),
        ("bytes read", counts.bytes_read),
        ("bytes written", counts.bytes_written),
    ];
    let theirs = [
        u64::try_from(pass.next_dirty_offset)?,
        pass.messages_read,
        pass.messages_written,
        pass.bytes_read,
        pass.bytes_written,
    ];
    let compared = if same_logs { ours.len() } else { ours.len() - 1 };
    for ((what, our), their) in ours.into_iter().zip(theirs).take(compared) {
        ensure!(our == their, "{what}: ours {our}, Kafka's {their}");
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for path in sorted(from)? {
        let name = path.file_name().unwrap_or_default();
        // Not `fs::copy`, which would copy the write protection too.
        fs::write(to.join(name), fs::read(&path)?)?;
    }
    Ok(())
}

fn sorted(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
