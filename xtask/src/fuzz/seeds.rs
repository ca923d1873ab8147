//! Inputs to begin with, from what Kafka wrote: the golden files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use alluvium_record_format::{Batch, Codec, Decompressor, Entries, Entry, Position};
use anyhow::{Context, Result};

use crate::workspace;

/// Larger inputs make a fuzzer slow.
const MAX_BYTES: usize = 16_000;

/// Entries of one log that become inputs of their own.
const ENTRIES_A_FILE: usize = 12;

/// Puts inputs into a folder for each target.
pub(super) fn put(corpus: &Path) -> Result<()> {
    let seeds = Seeds { corpus };
    for (number, path) in golden_files()?.iter().enumerate() {
        let bytes = fs::read(workspace::root().join(path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        let name = format!("golden-{number}");
        match target_of(path) {
            Some("batch") => seeds.log(&name, &bytes)?,
            // These take two numbers first.
            Some(target @ ("offset_index" | "time_index" | "transaction_index")) => {
                seeds.put(target, &name, &[&[0; 16], &bytes[..]].concat())?;
            }
            Some(target) => seeds.put(target, &name, &bytes)?,
            None => {}
        }
    }
    Ok(())
}

fn golden_files() -> Result<Vec<PathBuf>> {
    let files = workspace::files()?.into_iter();
    Ok(files.filter(|path| path.components().any(|part| part.as_os_str() == "golden")).collect())
}

fn target_of(path: &Path) -> Option<&'static str> {
    let name = workspace::name(path);
    let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    Some(match (&*name, &*extension) {
        (_, "log" | "batches") => "batch",
        (_, "index") => "offset_index",
        (_, "timeindex") => "time_index",
        (_, "txnindex") => "transaction_index",
        (_, "snapshot") => "snapshot",
        ("leader-epoch-checkpoint", _) => "epochs",
        ("partition.metadata" | "meta.properties" | ".kafka_cleanshutdown", _) => "metadata",
        (name, _) if name.ends_with("-checkpoint") => "checkpoint",
        _ => return None,
    })
}

#[derive(Debug)]
struct Seeds<'a> {
    corpus: &'a Path,
}

impl Seeds<'_> {
    /// A log as a whole, and its entries for the targets that take one.
    fn log(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.put("batch", name, &bytes[..bytes.len().min(MAX_BYTES)])?;
        let entries = Entries::new(bytes, Position::new(0)).map_while(Result::ok);
        for (number, entry) in entries.take(ENTRIES_A_FILE).enumerate() {
            let name = format!("{name}-{number}");
            match entry {
                Entry::Batch(batch) => self.batch(&name, &batch)?,
                entry => self.put("legacy", &name, entry.bytes())?,
            }
        }
        Ok(())
    }

    fn batch(&self, name: &str, batch: &Batch<'_>) -> Result<()> {
        self.put("reader_writer", name, batch.bytes())?;
        let attributes = batch.header().attributes();
        let target = match attributes.codec() {
            Some(Codec::None) => "records_none",
            Some(Codec::Gzip) => "records_gzip",
            Some(Codec::Snappy) => "records_snappy",
            Some(Codec::Lz4) => "records_lz4",
            Some(Codec::Zstd) => "records_zstd",
            _ => return Ok(()),
        };
        let [.., count] = batch.header().record_count().to_be_bytes();
        self.put(target, name, &[&[count, batch.bytes()[22], count], batch.payload()].concat())?;
        if attributes.is_control() {
            self.control(name, batch)?;
        }
        Ok(())
    }

    fn control(&self, name: &str, batch: &Batch<'_>) -> Result<()> {
        let mut buffer = Vec::new();
        for record in Decompressor::new().inflate(batch, MAX_BYTES, &mut buffer)? {
            let record = record?;
            let (key, value) = (record.key().unwrap_or(&[]), record.value().unwrap_or(&[]));
            let key_len = u8::try_from(key.len()).unwrap_or(u8::MAX);
            self.put("control", name, &[&[key_len], key, value].concat())?;
        }
        Ok(())
    }

    fn put(&self, target: &str, name: &str, bytes: &[u8]) -> Result<()> {
        if bytes.len() > MAX_BYTES {
            return Ok(());
        }
        let dir = self.corpus.join(target);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let path = dir.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }
}
