//! Records that say who wrote them, so that each can be told from every other.

use alluvium_log_manager::{Isolation, Log};
use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Codec, Decompressor, Entries, Entry, Offset, Position,
    SimpleRecord, Timestamp,
};
use anyhow::{Context, Result, bail, ensure};

/// A record as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its offset.
    pub(crate) offset: i64,
    /// Who wrote it; 0 for records that no stamp is in.
    pub(crate) stamp: u64,
}

/// A batch of `count` records with the stamps `first`, `first + 1` and so on, at the time that
/// is given. The value is the stamp and `padding` bytes that follow from it.
pub(crate) fn stamped_batch(
    first: u64,
    count: u64,
    padding: usize,
    codec: Codec,
    time: i64,
) -> Result<Vec<u8>> {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)).codec(codec));
    for stamp in first..first + count {
        let value = value_of(stamp, padding);
        let key = (stamp % 7).to_be_bytes();
        let record = SimpleRecord::new().key(&key).value(&value).timestamp(Timestamp::new(time));
        builder.append(&record)?;
    }
    Ok(builder.finish()?.to_vec())
}

fn value_of(stamp: u64, padding: usize) -> Vec<u8> {
    let mut value = stamp.to_be_bytes().to_vec();
    value.extend((0..padding).map(|at| filler(stamp, at)));
    value
}

fn filler(stamp: u64, at: usize) -> u8 {
    let [.., last] = (u64::try_from(at).unwrap_or(0) ^ stamp).to_be_bytes();
    last
}

/// Reads a log from its start to its end: checksums, rising offsets, the bytes of every stamped
/// record. With `dense`, an offset that is left out is an error.
///
/// # Errors
///
/// When something is not as it was written.
pub(crate) fn read_all(log: &Log, dense: bool) -> Result<Vec<Found>> {
    let mut next = log.log_start_offset();
    let (mut found, mut bytes, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
    let mut decompressor = Decompressor::new();
    while next < log.log_end_offset() {
        let fetched = log
            .read(next, 1 << 20, Isolation::LogEnd, true)
            .with_context(|| format!("cannot read offset {next}"))?;
        bytes.clear();
        if let Some(slice) = &fetched.slice {
            slice.read_to(&mut bytes)?;
        }
        let before = next;
        for entry in Entries::new(&bytes, Position::new(0)) {
            // A fetch may end inside a batch: the next one begins with it.
            let Ok(Entry::Batch(batch)) = entry else { break };
            let base = batch.header().base_offset();
            ensure!(!dense || base <= next, "a hole from {next} to {base}");
            read_batch(&batch, &mut decompressor, &mut buffer, &mut found)?;
            ensure!(batch.header().next_offset() > next, "offset {next} comes twice");
            next = batch.header().next_offset();
        }
        if next == before {
            // Nothing behind it: a truncation inside a batch, or compaction, left the end free.
            ensure!(!dense, "nothing is read at {next}, the log ends at {}", log.log_end_offset());
            break;
        }
    }
    let start = log.log_start_offset().get();
    found.retain(|record| record.offset >= start);
    Ok(found)
}

fn read_batch(
    batch: &Batch<'_>,
    decompressor: &mut Decompressor,
    buffer: &mut Vec<u8>,
    found: &mut Vec<Found>,
) -> Result<()> {
    batch.verify_crc()?;
    let is_control = batch.header().attributes().is_control();
    for record in decompressor.inflate(batch, 1 << 20, buffer)? {
        let record = record?;
        let offset = record.offset().get();
        if is_control {
            found.push(Found { offset, stamp: 0 });
            continue;
        }
        let Some((stamp, padding)) = record.value().and_then(<[u8]>::split_first_chunk) else {
            bail!("the record at {offset} has no stamp");
        };
        let stamp = u64::from_be_bytes(*stamp);
        let is_sound = padding.iter().enumerate().all(|(at, byte)| *byte == filler(stamp, at));
        ensure!(is_sound, "the record at {offset} is not as it was written");
        found.push(Found { offset, stamp });
    }
    Ok(())
}
