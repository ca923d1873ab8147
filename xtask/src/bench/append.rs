//! Appending prepared 16 KiB batches to a segment, index included, against `pwrite` of the same
//! buffers to a file that grows.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use alluvium_record_format::{BatchMut, Offset, Position};
use alluvium_segment::{ActiveSegment, SegmentConfig};
use anyhow::{Context, Result};

use super::batches::{Batches, RECORDS};
use super::log_dir::LogDir;
use super::pair::{Bar, Bench, Outcome, Slice, must_refuse};

/// Batches a slice: 1 MiB.
const COUNT: usize = 64;

/// Slices to a file: 128 MiB, then a new one.
const SLICES_A_FILE: usize = 128;

/// The twin writes each buffer at the end of its file with one `pwrite`.
pub(super) fn run(bench: &Bench, name: &'static str) -> Result<Outcome> {
    let batches = Batches::build(COUNT, RECORDS)?;
    let dir = LogDir::new("append")?;
    prove(&dir, &batches)?;
    let mut ours = Ours { dir: &dir, batches: batches.copies(), active: None, slices: 0, next: 0 };
    let mut twin = Twin { path: dir.path().join("twin"), batches: &batches, file: None, at: 0 };
    #[expect(clippy::cast_precision_loss, reason = "a megabyte")]
    let mib = batches.bytes.len() as f64 / f64::from(1 << 20);
    bench.sides(name, (mib, "MiB/s"), Bar(0.93), &mut ours, &mut twin)
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
    slices: usize,
    next: i64,
}

impl Slice for Ours<'_> {
    /// Outside the measured time: offsets that go on, and a new segment when one is full.
    fn prepare(&mut self) -> Result<()> {
        if self.active.is_none() || self.slices == SLICES_A_FILE {
            // The old one is let go first: a partition has one object over it at a time.
            self.active = None;
            self.active = Some(self.dir.segment("ours-0", SegmentConfig::new())?);
            (self.slices, self.next) = (0, 0);
        }
        for batch in &mut self.batches {
            let mut batch = BatchMut::parse(batch, Position::new(0))?;
            batch.set_base_offset(Offset::new(self.next));
            self.next = batch.header().next_offset().get();
        }
        self.slices += 1;
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

struct Twin<'a> {
    path: PathBuf,
    batches: &'a Batches,
    file: Option<File>,
    at: u64,
}

impl Slice for Twin<'_> {
    fn prepare(&mut self) -> Result<()> {
        let full = (SLICES_A_FILE * self.batches.bytes.len()) as u64;
        if self.file.is_none() || self.at == full {
            self.file = Some(File::create(&self.path).context("cannot make the twin's file")?);
            self.at = 0;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<u64> {
        let file = self.file.as_ref().context("prepared")?;
        for batch in self.batches.iter() {
            file.write_all_at(batch, self.at).context("cannot write")?;
            self.at += batch.len() as u64;
        }
        Ok(self.at)
    }
}
