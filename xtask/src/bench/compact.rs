//! Compacting a log of a million keys, against copying its files: both sync what they write.
//!
//! Old files stay until the next round on our side too, as a log keeps them for its readers.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use alluvium_cleaner::{CleanOptions, CleanReport, Cleaner, CleanerConfig, LeaveOld};
use alluvium_record_format::{BatchBuilder, BatchSettings, Codec, Offset, SimpleRecord, Timestamp};
use alluvium_segment::{
    ActiveSegment, Birth, FileKind, PartitionDir, Segment, SegmentConfig, SegmentFileName,
};
use anyhow::{Context, Result, ensure};

use super::Run;
use super::crc_pass::{LOG, damage};
use super::log_dir::LogDir;
use super::pair::{Bar, Bench, Outcome, Slice, must_refuse};
use super::random::Random;
use crate::workspace;

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] =
    &[("compact-1GiB", plain), ("compact-1GiB-zstd", compressed)];

const LOG_BYTES: u64 = 1 << 30;

/// zstd takes ten times as long.
const ZSTD_BYTES: u64 = 128 << 20;

const SEGMENT_BYTES: u32 = 128 << 20;

const KEYS: u64 = 1_000_000;

const RECORDS: usize = 100;

fn plain(bench: &Bench, name: &'static str) -> Result<Outcome> {
    run(bench, name, Codec::None, LOG_BYTES, Bar(0.35))
}

fn compressed(bench: &Bench, name: &'static str) -> Result<Outcome> {
    run(bench, name, Codec::Zstd, ZSTD_BYTES, Bar::NONE)
}

fn run(bench: &Bench, name: &'static str, codec: Codec, bytes: u64, bar: Bar) -> Result<Outcome> {
    let dir = LogDir::new("compact")?;
    prove(&dir)?;
    let bytes = fill(&dir, "source-0", bytes, codec)?;
    let peak = peak_mib(&dir)?;
    let mut ours = Ours { dir: &dir, cleaner: Cleaner::new(CleanerConfig::new()) };
    let mut twin = Twin { dir: &dir };
    #[expect(clippy::cast_precision_loss, reason = "a gigabyte")]
    let mib = bytes as f64 / f64::from(1 << 20);
    let outcome = bench.fewer(64).sides(name, (mib, "MiB/s"), bar, &mut ours, &mut twin)?;
    Ok(outcome.at_most("MiB of memory at most", peak, 128.0 + 16.0 + 1.0))
}

struct Ours<'a> {
    dir: &'a LogDir,
    cleaner: Cleaner,
}

impl Slice for Ours<'_> {
    fn prepare(&mut self) -> Result<()> {
        link(self.dir.path(), "source-0", "ours-0")
    }

    fn run(&mut self) -> Result<u64> {
        let report = clean(self.dir, "ours-0", &mut self.cleaner)?;
        ensure!(!report.is_map_full, "the map is full");
        Ok(report.counts.records_written)
    }
}

struct Twin<'a> {
    dir: &'a LogDir,
}

impl Slice for Twin<'_> {
    fn prepare(&mut self) -> Result<()> {
        workspace::empty_dir(&self.dir.path().join("twin-0"))
    }

    fn run(&mut self) -> Result<u64> {
        let mut bytes = 0;
        for path in workspace::entries(&self.dir.path().join("source-0"))? {
            let target = self.dir.path().join("twin-0").join(workspace::name(&path));
            bytes += fs::copy(&path, &target).context("cannot copy")?;
            File::open(&target).and_then(|file| file.sync_all()).context("cannot sync")?;
        }
        Ok(bytes)
    }
}

/// A flipped byte ends the cleaning: checksums are compared.
fn prove(dir: &LogDir) -> Result<()> {
    fill(dir, "proof-0", 1 << 20, Codec::None)?;
    damage(&dir.path().join("proof-0").join(LOG))?;
    let mut cleaner = Cleaner::new(CleanerConfig::new().map_bytes(1 << 20));
    must_refuse("the cleaner", &clean(dir, "proof-0", &mut cleaner))
}

/// What a cleaning adds to the memory of the process, its map included.
fn peak_mib(dir: &LogDir) -> Result<f64> {
    link(dir.path(), "source-0", "ours-0")?;
    let before = status_mib("VmRSS")?;
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")?;
    clean(dir, "ours-0", &mut Cleaner::new(CleanerConfig::new()))?;
    Ok(status_mib("VmHWM")? - before)
}

fn status_mib(field: &str) -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("cannot read the status")?;
    let line = status.lines().find(|line| line.starts_with(field)).context("no such field")?;
    let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kib / 1024.0)
}

/// Cleans all of a log but its last segment.
pub(super) fn clean(dir: &LogDir, partition: &str, cleaner: &mut Cleaner) -> Result<CleanReport> {
    let segments = open(&dir.partition(partition)?)?;
    let end = segments.last().context("no segment")?.base_offset();
    let options = CleanOptions::new(Offset::new(0), end, Timestamp::new(1_800_000_000_000))
        .segment_bytes(SEGMENT_BYTES)
        .high_watermark(end);
    Ok(cleaner.clean(&segments, &options, &mut LeaveOld)?)
}

fn open(dir: &Arc<PartitionDir>) -> Result<Vec<Arc<Segment>>> {
    let mut bases: Vec<Offset> = workspace::entries(&dir.path())?
        .iter()
        .filter_map(|path| SegmentFileName::parse(&workspace::name(path)))
        .filter(|name| name.kind == FileKind::Log)
        .map(|name| name.offset)
        .collect();
    bases.sort();
    let open = |base| Ok(Segment::open(dir, base, SegmentConfig::new())?);
    bases.into_iter().map(open).collect()
}

/// The same log again: the bytes of the logs, which no cleaning changes, are shared.
pub(super) fn link(dir: &Path, from: &str, to: &str) -> Result<()> {
    let target = dir.join(to);
    workspace::empty_dir(&target)?;
    for path in workspace::entries(&dir.join(from))? {
        let to = target.join(workspace::name(&path));
        if path.extension().is_some_and(|extension| extension == "log") {
            fs::hard_link(&path, &to).context("cannot link a log")?;
        } else {
            fs::copy(&path, &to).context("cannot copy an index")?;
        }
    }
    Ok(())
}

/// Writes sealed segments, and an empty one behind. Returns their bytes.
fn fill(dir: &LogDir, partition: &str, bytes: u64, codec: Codec) -> Result<u64> {
    workspace::empty_dir(&dir.path().join(partition))?;
    let partition = dir.partition(partition)?;
    let create =
        |base| ActiveSegment::create(&partition, base, SegmentConfig::new(), Birth::default());
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let mut active = create(Offset::new(0))?;
    let mut random = Random::new(5);
    let (mut done, mut value) = (0, [0; 200]);
    while done < bytes {
        let next = active.next_offset();
        builder.reset(BatchSettings::new(next).codec(codec));
        for _ in 0..RECORDS {
            let key = format!("key-{:08}", random.below(KEYS));
            value.fill_with(|| b'a' + u8::try_from(random.below(16)).unwrap_or(0));
            let time = Timestamp::new(1_700_000_000_000);
            let record = SimpleRecord::new().timestamp(time).key(key.as_bytes()).value(&value);
            builder.append(&record)?;
        }
        let batch = builder.finish()?;
        done += batch.len() as u64;
        if active.segment().size_bytes() as usize + batch.len() > SEGMENT_BYTES as usize {
            std::mem::replace(&mut active, create(next)?).seal()?.flush()?;
        }
        active.append(batch)?;
    }
    let end = active.next_offset();
    active.seal()?.flush()?;
    drop(create(end)?.seal()?);
    Ok(done)
}
