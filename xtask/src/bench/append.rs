//! Appending prepared 16 KiB batches to a segment, index included, against `pwrite` of the same
//! buffers to a file that grows.

use alluvium_record_format::{BatchMut, Offset, Position};
use alluvium_segment::{ActiveSegment, SegmentConfig};
use anyhow::{Context, Result};

use super::Run;
use super::batches::{Batches, RECORDS};
use super::growing::{FILE_BYTES, GrowingFile};
use super::log_dir::LogDir;
use super::pair::{Bar, Bench, Outcome, Slice, must_refuse};

/// What is measured here.
pub(super) const BENCHES: &[(&str, Run)] = &[("segment-append-16KiB", run)];

/// Batches a slice: 1 MiB.
const COUNT: usize = 64;

/// The twin writes each buffer at the end of its file with one `pwrite`.
fn run(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let batches = Batches::build(COUNT, RECORDS)?;
    let dir = LogDir::new("append")?;
    prove(&dir, &batches)?;
    let mut ours = Ours { dir: &dir, batches: batches.copies(), active: None, next: 0 };
    let mut twin = GrowingFile::new(dir.path().join("twin"), &batches);
    bench.sides(name, (batches.mib(), "MiB/s"), Bar(0.93), &mut ours, &mut twin)
}

/// A batch with an offset that was there already is refused: the headers are looked at.
fn prove(dir: &LogDir, batches: &Batches) -> Result<()> {
    let mut active = dir.segment("proof-0", SegmentConfig::new())?;
    let first = batches.iter().next().context("there are batches")?;
    active.append(first)?;
    must_refuse("append", &active.append(first).map_err(anyhow::Error::from))
}

struct Ours<'a> {
    dir: &'a LogDir,
    batches: Vec<Vec<u8>>,
    active: Option<ActiveSegment>,
    next: i64,
}

impl Slice for Ours<'_> {
    /// Outside the measured time: offsets that go on, and a new segment when one is full.
    fn prepare(&mut self) -> Result<()> {
        let full = |active: &ActiveSegment| active.segment().size_bytes() as usize >= FILE_BYTES;
        if self.active.as_ref().is_none_or(full) {
            // The old one is let go first: a partition has one object over it at a time.
            self.active = None;
            self.active = Some(self.dir.segment("ours-0", SegmentConfig::new())?);
            self.next = 0;
        }
        for batch in &mut self.batches {
            let mut batch = BatchMut::parse(batch, Position::new(0))?;
            batch.set_base_offset(Offset::new(self.next));
            self.next = batch.header().next_offset().get();
        }
        Ok(())
    }

    fn run(&mut self) -> Result<u64> {
        let active = self.active.as_mut().context("prepared")?;
        for batch in &self.batches {
            active.append(batch)?;
        }
        Ok(active.next_offset().get().unsigned_abs())
    }
}
