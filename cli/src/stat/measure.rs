//! Measures segments, and adds them up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use alluvium_record_format::{Codec, Entry, Offset, ProducerId, Timestamp, TimestampType};
use alluvium_sparse_index::OffsetIndex;

use crate::cleaning_range::CleaningRange;
use crate::error::CliError;
use crate::inflate::Inflater;
use crate::log_file::LogFile;
use crate::partition::{Partition, SegmentFiles};
use crate::progress::Progress;
use crate::walk::{Head, Step, Walk};

/// A segment to measure.
#[derive(Clone, Debug)]
pub(super) struct SegmentJob {
    /// The partition that it belongs to, by its place in the list.
    pub(super) partition: usize,
    pub(super) files: SegmentFiles,
    pub(super) log: PathBuf,
    /// Look at the heads of batches alone.
    pub(super) is_quick: bool,
}

/// What was stored with one codec.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CodecStat {
    pub(super) batches: u64,
    /// Bytes of the payloads as stored.
    pub(super) stored: u64,
    /// Bytes of the payloads once inflated; 0 where that was not asked.
    pub(super) inflated: u64,
}

/// What a segment holds.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentStat {
    log_bytes: u64,
    batches: u64,
    records: u64,
    earliest: Option<Timestamp>,
    latest: Option<Timestamp>,
    codecs: BTreeMap<&'static str, CodecStat>,
    producers: BTreeSet<ProducerId>,
    index_entries: u64,
    /// Records with a key and no value.
    tombstones: u64,
    damage: u64,
}

/// What a partition holds, or all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionStat {
    pub(super) segments: u64,
    pub(super) log_bytes: u64,
    /// Indexes and snapshots.
    pub(super) other_bytes: u64,
    pub(super) batches: u64,
    pub(super) records: u64,
    pub(super) log_start: Offset,
    pub(super) log_end: Offset,
    pub(super) earliest: Option<Timestamp>,
    pub(super) latest: Option<Timestamp>,
    pub(super) codecs: BTreeMap<&'static str, CodecStat>,
    pub(super) producers: BTreeSet<ProducerId>,
    pub(super) open_txns: BTreeMap<ProducerId, Offset>,
    pub(super) index_entries: u64,
    pub(super) tombstones: u64,
    /// What the cleaner would find; for partitions that it knows alone.
    pub(super) cleaning: Option<CleaningRange>,
    /// Places with damage.
    pub(super) damage: u64,
}

impl PartitionStat {
    /// The files of a partition; what is in them comes with [`add`](Self::add).
    pub(super) fn new(partition: &Partition) -> Self {
        let logs = partition.logs();
        let beside = logs.map(|(files, log)| files.bytes() - log.bytes).sum::<u64>();
        let snapshots = partition.snapshots.iter().map(|(_, file)| file.bytes).sum::<u64>();
        Self { other_bytes: beside + snapshots, ..Self::default() }
    }

    /// Adds a segment.
    pub(super) fn add(&mut self, segment: &SegmentStat) {
        self.segments += 1;
        self.log_bytes += segment.log_bytes;
        self.batches += segment.batches;
        self.records += segment.records;
        self.widen(segment.earliest, segment.latest);
        self.codecs_of(&segment.codecs);
        self.producers.extend(&segment.producers);
        self.index_entries += segment.index_entries;
        self.tombstones += segment.tombstones;
        self.damage += segment.damage;
    }

    /// Adds another partition. Offsets of partitions have nothing in common, so they stay out.
    pub(super) fn merge(&mut self, other: &Self) {
        self.segments += other.segments;
        self.log_bytes += other.log_bytes;
        self.other_bytes += other.other_bytes;
        self.batches += other.batches;
        self.records += other.records;
        self.widen(other.earliest, other.latest);
        self.codecs_of(&other.codecs);
        self.producers.extend(&other.producers);
        self.open_txns.extend(&other.open_txns);
        self.index_entries += other.index_entries;
        self.tombstones += other.tombstones;
        self.damage += other.damage;
    }

    fn widen(&mut self, earliest: Option<Timestamp>, latest: Option<Timestamp>) {
        self.earliest = [self.earliest, earliest].into_iter().flatten().min();
        self.latest = self.latest.max(latest);
    }

    fn codecs_of(&mut self, codecs: &BTreeMap<&'static str, CodecStat>) {
        for (name, other) in codecs {
            let codec = self.codecs.entry(name).or_default();
            codec.batches += other.batches;
            codec.stored += other.stored;
            codec.inflated += other.inflated;
        }
    }
}

/// Measures one segment.
pub(super) fn segment(job: &SegmentJob, progress: &Progress) -> Result<SegmentStat, CliError> {
    let file = LogFile::open(&job.log)?;
    let mut stat = SegmentStat { log_bytes: file.len(), ..SegmentStat::default() };
    if let Some(index) = &job.files.index {
        let bytes = LogFile::open(&index.path)?.read_index()?;
        let real = OffsetIndex::new(job.files.base, &bytes).without_padding();
        stat.index_entries = real.len() as u64;
    }
    let mut inflater = Inflater::default();
    let mut walk = Walk::new(&file, 0);
    let mut counted = 0;
    loop {
        match walk.step()? {
            Step::Entry(head) => {
                stat.head(&head);
                if head.header.is_none() || !job.is_quick {
                    match walk.entry(&head)? {
                        Ok(entry) => stat.payload(&head, &entry, &mut inflater),
                        Err(_) => stat.damage += 1,
                    }
                }
            }
            Step::Damage { .. } | Step::Tail { .. } => stat.damage += 1,
            Step::End => break,
        }
        progress.add(walk.position() - counted);
        counted = walk.position();
    }
    progress.add(job.files.bytes() - stat.log_bytes.min(job.files.bytes()));
    Ok(stat)
}

impl SegmentStat {
    /// Counts what the head of an entry says.
    fn head(&mut self, head: &Head) {
        self.batches += 1;
        self.latest = self.latest.max(head.max_timestamp);
        let Some(header) = &head.header else { return };
        self.records += u64::try_from(header.record_count()).unwrap_or(0);
        let base = Timestamp::new(header.base_timestamp_raw());
        let first = match header.attributes().timestamp_type() {
            // The broker's time, which all records have; the base is the producer's.
            TimestampType::LogAppendTime => head.max_timestamp,
            _ if header.delete_horizon().is_some() => None,
            _ => Some(base).filter(|base| base.get() >= 0),
        };
        self.earliest = [self.earliest, first].into_iter().flatten().min();
        self.producers.extend(header.producer_id());
        let codec = self.codecs.entry(header.attributes().codec().map_or("unknown", Codec::name));
        let codec = codec.or_default();
        codec.batches += 1;
        codec.stored += head.size.saturating_sub(HEADER_BYTES);
    }

    /// Counts what is in the payload of an entry.
    fn payload(&mut self, head: &Head, entry: &Entry<'_>, inflater: &mut Inflater) {
        match entry {
            Entry::Batch(batch) => {
                let Some(codec) = batch.header().attributes().codec() else { return };
                match inflater.inflated_bytes(batch) {
                    Ok(bytes) => self.codecs.entry(codec.name()).or_default().inflated += bytes,
                    Err(_) => return self.damage += 1,
                }
                if !batch.header().attributes().is_control() {
                    self.tombstones += inflater.tombstones(batch);
                }
            }
            Entry::Legacy(entry) => {
                let name = entry.codec().map_or("unknown", Codec::name);
                let codec = self.codecs.entry(name).or_default();
                codec.batches += 1;
                codec.stored += head.size;
                match inflater.legacy_records(entry) {
                    Ok(records) => {
                        for record in records.flatten() {
                            self.records += 1;
                            let is_tombstone = record.key().is_some() && record.value().is_none();
                            self.tombstones += u64::from(is_tombstone);
                        }
                    }
                    Err(_) => self.damage += 1,
                }
            }
            _ => {}
        }
    }
}

/// Bytes of a batch before its payload.
const HEADER_BYTES: u64 = 61;
