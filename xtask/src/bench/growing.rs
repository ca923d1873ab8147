//! The bare twin of an append: `pwrite` at the end of a file that grows.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::batches::Batches;
use super::pair::Slice;

/// Bytes of a file, after which a new one takes its place: on both sides of a pair.
pub(super) const FILE_BYTES: usize = 128 << 20;

/// Writes each buffer with one `pwrite`.
#[derive(Debug)]
pub(super) struct GrowingFile<'a> {
    path: PathBuf,
    batches: &'a Batches,
    file: Option<File>,
    at: u64,
}

impl<'a> GrowingFile<'a> {
    /// Over a file that it makes.
    pub(super) const fn new(path: PathBuf, batches: &'a Batches) -> Self {
        Self { path, batches, file: None, at: 0 }
    }
}

impl Slice for GrowingFile<'_> {
    fn prepare(&mut self) -> Result<()> {
        if self.file.is_none() || self.at >= FILE_BYTES as u64 {
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
