//! From an offset to a slice of the log, against one `pread` of a batch header.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use alluvium_log_manager::{Isolation, LeaderRequest, Log, LogConfig};
use alluvium_record_format::{BatchHeader, LeaderEpoch, Offset};
use alluvium_segment::Io;
use anyhow::{Context, Result, ensure};

use super::Run;
use super::batches::{Batches, RECORDS};
use super::crew::Crew;
use super::io_count::IoCount;
use super::log_dir::LogDir;
use super::pair::{Bar, Bench, Outcome};
use super::random::Random;

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] = &[
    ("read-offset-to-slice", one_thread),
    ("read-offset-small-batches", small_batches),
    ("read-2-threads-scaling", two_threads),
];

/// Bytes of the log: four segments, an index entry for each batch of 16 KiB.
const LOG_BYTES: u64 = 256 << 20;

const SEGMENT_BYTES: u32 = 64 << 20;

/// Reads of a thread in a slice.
const COUNT: usize = 1_000;

/// Reads of each of two threads in a slice.
const COUNT_OF_TWO: usize = 4_000;

/// So many of ours take the time of one bare read. Each slice wakes its threads and fills the
/// caches of their processors anew: what that takes must be the same share of both sides.
const OURS_TO_ONE: usize = 6;

fn one_thread(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let filled = Filled::make(Io::new(), LOG_BYTES, RECORDS)?;
    let outcome = bench.pair(
        name,
        (f64::from(u32::try_from(COUNT)?) / 1e6, "M/s"),
        Bar(1.0 / 1.6),
        filled.reader(COUNT, 3),
        filled.bare_reader(COUNT, 5),
    )?;
    Ok(outcome.at_most("preads a read", preads(RECORDS)?, 1.0))
}

/// Not in the bar: batches of one record, of which an index entry has some twenty behind it.
fn small_batches(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let filled = Filled::make(Io::new(), LOG_BYTES / 4, 1)?;
    let outcome = bench.pair(
        name,
        (f64::from(u32::try_from(COUNT)?) / 1e6, "M/s"),
        Bar::NONE,
        filled.reader(COUNT, 3),
        filled.bare_reader(COUNT, 5),
    )?;
    Ok(outcome.at_most("preads a read", preads(1)?, 1.0))
}

fn two_threads(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let filled = Filled::make(Io::new(), LOG_BYTES, RECORDS)?;
    let count = OURS_TO_ONE * COUNT_OF_TWO;
    let mut ours = Crew::start_apart(vec![filled.reader(2 * count, 3)])?;
    let ours_two = [7, 9].map(|seed| filled.reader(count, seed));
    let mut ours_two = Crew::start_apart(ours_two.into_iter().collect())?;
    let mut bare = Crew::start_apart(vec![filled.bare_reader(2 * COUNT_OF_TWO, 3)])?;
    let bare_two = [7, 9].map(|seed| filled.bare_reader(COUNT_OF_TWO, seed));
    let mut bare_two = Crew::start_apart(bare_two.into_iter().collect())?;
    bench.scaling(
        name,
        ([2 * count, 2 * COUNT_OF_TWO].map(millions), "M/s"),
        Bar(0.9),
        [&mut ours, &mut ours_two],
        [&mut bare, &mut bare_two],
    )
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn millions(count: usize) -> f64 {
    count as f64 / 1e6
}

/// How many `pread`s a read makes, counted at each call.
fn preads(records: usize) -> Result<f64> {
    let (count, io) = IoCount::watched();
    let filled = Filled::make(io, LOG_BYTES / 8, records)?;
    let mut read = filled.reader(COUNT, 11);
    read()?; // maps the indexes
    let before = count.reads();
    read()?;
    let reads = u32::try_from(count.reads() - before)?;
    Ok(f64::from(reads) / f64::from(u32::try_from(COUNT)?))
}

/// A log to read from, and where its batches are for the bare reads.
struct Filled {
    log: Log,
    batches: Arc<Vec<(Arc<File>, u64)>>,
    _dir: LogDir,
}

impl Filled {
    fn make(io: Io, bytes: u64, records: usize) -> Result<Self> {
        let dir = LogDir::with_io("read", io)?;
        let config = LogConfig::builder().segment_bytes(SEGMENT_BYTES).build()?;
        let log = dir.log("ours-0", dir.options().config(config))?;
        let mut batches = Batches::build(1_024, records)?.copies();
        let mut places = Vec::new();
        while log.size_bytes() < bytes {
            for batch in &mut batches {
                batch[..8].fill(0);
                let request = LeaderRequest::new(LeaderEpoch::new(0));
                let appended = log.append_as_leader(batch, request)?;
                places.push(appended.first_offset.context("a batch was appended")?);
            }
        }
        let batches = places.into_iter().map(|first| place(&log, first)).collect::<Result<_>>()?;
        Ok(Self { log, batches: Arc::new(batches), _dir: dir })
    }

    fn reader(&self, count: usize, seed: u64) -> impl FnMut() -> Result<u64> + Send + use<> {
        let (log, mut random) = (self.log.clone(), Random::new(seed));
        let end = log.log_end_offset().get().unsigned_abs();
        move || {
            let mut sum = 0;
            for _ in 0..count {
                let offset = Offset::new(i64::try_from(random.below(end))?);
                let found = log.read(offset, 1 << 20, Isolation::LogEnd, true)?;
                let slice = found.slice.context("every offset is there")?;
                ensure!(slice.base_offset() <= offset, "{offset} is not in what it found");
                sum += u64::from(slice.position().get());
            }
            Ok(sum)
        }
    }

    /// One `pread` of the header of some batch.
    fn bare_reader(&self, count: usize, seed: u64) -> impl FnMut() -> Result<u64> + Send + use<> {
        let (batches, mut random) = (Arc::clone(&self.batches), Random::new(seed));
        move || {
            let mut sum = 0;
            let mut header = [0; BatchHeader::LEN];
            for _ in 0..count {
                let (file, at) = &batches[usize::try_from(random.below(batches.len() as u64))?];
                file.read_exact_at(&mut header, *at).context("cannot read")?;
                sum += u64::from(header[7]);
            }
            Ok(sum)
        }
    }
}

fn place(log: &Log, first: Offset) -> Result<(Arc<File>, u64)> {
    let found = log.read(first, 1, Isolation::LogEnd, true)?;
    let slice = found.slice.context("every offset is there")?;
    Ok((Arc::clone(slice.file()), slice.position().get().into()))
}
