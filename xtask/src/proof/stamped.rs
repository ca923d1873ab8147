//! Records that say who wrote them, so that each can be told from every other.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use alluvium_log_manager::{Isolation, Log};
use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Codec, Decompressor, EndTxnMarker, Entries, Entry, Offset,
    Position, Record, SimpleRecord, Timestamp, TxnOutcome,
};
use anyhow::{Context, Result, bail, ensure};

use super::{Kind, Writer};

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
    let settings = BatchSettings::new(Offset::new(0)).codec(codec);
    stamped_batch_as(settings, first..first + count, padding, time)
}

/// As [`stamped_batch`], with these settings and stamps.
pub(crate) fn stamped_batch_as(
    settings: BatchSettings,
    stamps: Range<u64>,
    padding: usize,
    time: i64,
) -> Result<Vec<u8>> {
    let mut builder = BatchBuilder::new(settings);
    for stamp in stamps {
        let value = value_of(stamp, padding);
        let key = (stamp % 7).to_be_bytes();
        let record = SimpleRecord::new().key(&key).value(&value).timestamp(Timestamp::new(time));
        builder.append(&record)?;
    }
    Ok(builder.finish()?.to_vec())
}

/// The batch that ends a transaction of this writer.
pub(crate) fn marker_batch(writer: Writer, time: i64) -> Result<Vec<u8>> {
    let outcome = if writer.kind == Kind::Commit { TxnOutcome::Commit } else { TxnOutcome::Abort };
    let mut builder = BatchBuilder::new(writer.settings());
    let marker = EndTxnMarker::new(outcome, 0);
    builder.append_control(Some(Timestamp::new(time)), &marker.into())?;
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

/// A batch as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundBatch {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) writer: Option<Writer>,
}

/// What a log holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    pub(crate) records: Vec<Found>,
    pub(crate) batches: Vec<FoundBatch>,
}

/// Reads a log from its start to its end: checksums, rising offsets, the bytes of every stamped
/// record. With `dense`, an offset that is left out is an error.
///
/// # Errors
///
/// When something is not as it was written.
pub(crate) fn read_all(log: &Log, dense: bool) -> Result<Vec<Found>> {
    Ok(read_contents(log, dense)?.records)
}

/// As [`read_all`], with the batches.
///
/// # Errors
///
/// As [`read_all`].
pub(crate) fn read_contents(log: &Log, dense: bool) -> Result<Contents> {
    let mut reader = Reader { dense, ..Reader::default() };
    let end = log.log_end_offset();
    let next = reader.read(log, Isolation::LogEnd, end)?;
    // Nothing behind it: a truncation inside a batch, or compaction, left the end free.
    ensure!(next == end || !dense, "nothing is read at {next}, the log ends at {end}");
    Ok(reader.contents)
}

/// As [`read_all`], the records that a reader of committed ones sees.
///
/// # Errors
///
/// As [`read_all`].
pub(crate) fn read_committed(log: &Log) -> Result<Vec<Found>> {
    let mut reader = Reader::default();
    reader.read(log, Isolation::TxnCommitted, log.last_stable_offset())?;
    Ok(reader.contents.records)
}

/// Takes batches apart, and leaves out what was aborted.
#[derive(Default)]
struct Reader {
    dense: bool,
    decompressor: Decompressor,
    buffer: Vec<u8>,
    /// Producers by the first offset of their transaction.
    aborted: BTreeMap<i64, BTreeSet<i64>>,
    /// Producers inside a transaction that was aborted.
    dropping: BTreeSet<i64>,
    contents: Contents,
}

impl Reader {
    /// Reads up to `end`, or to where nothing more comes; returns that.
    fn read(&mut self, log: &Log, isolation: Isolation, end: Offset) -> Result<Offset> {
        let mut next = log.log_start_offset();
        let mut bytes = Vec::new();
        while next < end {
            let fetched = log
                .read(next, 1 << 20, isolation, true)
                .with_context(|| format!("cannot read offset {next}"))?;
            bytes.clear();
            if let Some(slice) = &fetched.slice {
                slice.read_to(&mut bytes)?;
            }
            self.aborted.clear();
            for txn in fetched.aborted.iter().flatten() {
                let first = self.aborted.entry(txn.first_offset.get()).or_default();
                first.insert(txn.producer_id.get());
            }
            let before = next;
            for entry in Entries::new(&bytes, Position::new(0)) {
                // A fetch may end inside a batch: the next one begins with it.
                let Ok(Entry::Batch(batch)) = entry else { break };
                let base = batch.header().base_offset();
                ensure!(!self.dense || base <= next, "a hole from {next} to {base}");
                self.take(&batch)?;
                ensure!(batch.header().next_offset() > next, "offset {next} comes twice");
                next = batch.header().next_offset();
            }
            if next == before {
                break;
            }
        }
        let start = log.log_start_offset().get();
        self.contents.records.retain(|record| record.offset >= start);
        Ok(next)
    }

    fn take(&mut self, batch: &Batch<'_>) -> Result<()> {
        batch.verify_crc()?;
        let header = batch.header();
        let later = self.aborted.split_off(&header.next_offset().get());
        self.dropping.extend(std::mem::replace(&mut self.aborted, later).into_values().flatten());
        let attributes = header.attributes();
        let id = header.producer_id_raw();
        let is_dropped = attributes.is_transactional() && self.dropping.contains(&id);
        let mut key = None;
        for record in self.decompressor.inflate(batch, 1 << 20, &mut self.buffer)? {
            let record = record?;
            if attributes.is_control() {
                self.dropping.remove(&id);
                key = key.or_else(|| record.key().map(<[u8]>::to_vec));
                let offset = record.offset().get();
                self.contents.records.push(Found { offset, stamp: 0 });
            } else {
                let found = stamped(&record)?;
                self.contents.records.extend((!is_dropped).then_some(found));
            }
        }
        self.contents.batches.push(FoundBatch {
            first: header.base_offset().get(),
            last: header.last_offset().get(),
            leader_epoch: header.leader_epoch_raw(),
            writer: Writer::of(batch, key.as_deref())?,
        });
        Ok(())
    }
}

fn stamped(record: &Record<'_>) -> Result<Found> {
    let offset = record.offset().get();
    let Some((stamp, padding)) = record.value().and_then(<[u8]>::split_first_chunk) else {
        bail!("the record at {offset} has no stamp");
    };
    let stamp = u64::from_be_bytes(*stamp);
    let is_sound = padding.iter().enumerate().all(|(at, byte)| *byte == filler(stamp, at));
    ensure!(is_sound, "the record at {offset} is not as it was written");
    Ok(Found { offset, stamp })
}
