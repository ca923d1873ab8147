//! Compares a cleaned directory with the one that Kafka's cleaner left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use alluvium_record_format::{
    Batch, BatchHeader, Codec, Decompressor, Entries, Entry, Offset, Position,
};
use alluvium_segment::{FileKind, SegmentFileName};
use alluvium_sparse_index::OffsetIndex;
use anyhow::{Context, Result, bail, ensure};

use crate::tally::{Tally, same_bytes};

/// Compares all files but the indexes of the active segment. Returns whether all logs are the
/// same bytes.
pub(super) fn directories(
    at: &str,
    ours: &Path,
    theirs: &Path,
    active: Offset,
    tally: &mut Tally,
) -> Result<bool> {
    let (our_names, their_names) = (names(ours, active)?, names(theirs, active)?);
    let (our_list, their_list) = (our_names.join(" "), their_names.join(" "));
    tally
        .check(&format!("{at} file names"), same_bytes(our_list.as_bytes(), their_list.as_bytes()));
    let mut same_logs = true;
    for name in our_names.iter().filter(|name| their_names.contains(name)) {
        let (our, their) = (read(&ours.join(name))?, read(&theirs.join(name))?);
        let at = format!("{at} {name}");
        if our == their {
            tally.check(&at, Ok(()));
            continue;
        }
        let Some(parsed) = SegmentFileName::parse(name) else {
            tally.check(&at, same_bytes(&our, &their));
            continue;
        };
        let log = |dir: &Path| read(&dir.join(log_of(parsed)));
        let (our_log, their_log) = (log(ours)?, log(theirs)?);
        let result = match parsed.kind {
            FileKind::Log => {
                same_logs = false;
                same_batches(&our, &their)
            }
            FileKind::OffsetIndex if our_log != their_log => fits(parsed.offset, &our, &our_log),
            FileKind::TimeIndex if our_log != their_log => Ok(()),
            _ => same_bytes(&our, &their),
        };
        tally.check(&at, result);
    }
    Ok(same_logs)
}

fn names(dir: &Path, active: Offset) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_active_index = SegmentFileName::parse(&name).is_some_and(|name| {
            name.offset == active
                && matches!(name.kind, FileKind::OffsetIndex | FileKind::TimeIndex)
        });
        if !is_active_index {
            names.insert(name);
        }
    }
    Ok(names.into_iter().collect())
}

fn log_of(name: SegmentFileName) -> String {
    SegmentFileName { kind: FileKind::Log, ..name }.to_string()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Compares logs batch by batch. Compressed batches may differ in their compressed bytes.
fn same_batches(ours: &[u8], theirs: &[u8]) -> Result<()> {
    let (ours, theirs) = (batches(ours)?, batches(theirs)?);
    for (our, their) in ours.iter().zip(&theirs) {
        let offset = their.header().base_offset();
        same_batch(our, their).with_context(|| format!("batch at offset {offset}"))?;
    }
    ensure!(ours.len() == theirs.len(), "{} batches, Kafka's {}", ours.len(), theirs.len());
    Ok(())
}

fn batches(log: &[u8]) -> Result<Vec<Batch<'_>>> {
    Entries::new(log, Position::new(0))
        .map(|entry| match entry? {
            Entry::Batch(batch) => Ok(batch),
            _ => bail!("a message of an old format"),
        })
        .collect()
}

fn same_batch(ours: &Batch<'_>, theirs: &Batch<'_>) -> Result<()> {
    ours.verify_crc()?;
    if theirs.header().attributes().codec() == Some(Codec::None) {
        return same_bytes(ours.bytes(), theirs.bytes());
    }
    let (our, their) = (without_size(ours.header()), without_size(theirs.header()));
    ensure!(our == their, "header {our:02x?}, Kafka's {their:02x?}");
    same_bytes(&inflate(ours)?, &inflate(theirs)?)
}

/// A header without length and checksum.
fn without_size(header: &BatchHeader) -> Vec<u8> {
    let bytes = header.as_bytes();
    [&bytes[..8], &bytes[12..17], &bytes[21..]].concat()
}

fn inflate(batch: &Batch<'_>) -> Result<Vec<u8>> {
    let codec = batch.header().attributes().codec().context("an unknown codec")?;
    let mut inflated = Vec::new();
    Decompressor::new().decompress(codec, batch.payload(), 64 << 20, &mut inflated)?;
    Ok(inflated)
}

/// Checks that every entry of an offset index names the last offset and the place of a batch.
fn fits(base: Offset, index: &[u8], log: &[u8]) -> Result<()> {
    let batches = batches(log)?;
    for entry in &OffsetIndex::new(base, index) {
        let found = batches.iter().any(|batch| {
            batch.position() == entry.position && batch.header().last_offset() == entry.offset
        });
        ensure!(found, "no batch ends at offset {} from {} on", entry.offset, entry.position);
    }
    Ok(())
}
