//! What several modules need.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use alluvium_cleaner::{CleanError, CleanOptions, CleanReport, Cleaner, CleanerConfig, Offline};
use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Decompressor, EndTxnMarker, Entry, Offset, Position,
    ProducerEpoch, ProducerId, Sequence, SimpleRecord, Timestamp, TxnOutcome,
};
use alluvium_segment::{
    ActiveSegment, Birth, DirLock, FileKind, FilePool, Io, PartitionDir, Segment, SegmentConfig,
    SegmentFileName, Suffix,
};
use alluvium_sparse_index::AbortedTxn;
use tempfile::TempDir;

pub(crate) const NOW: i64 = 1_700_000_000_000;
pub(crate) const RETENTION: i64 = 60_000;

/// A log directory with one partition, locked.
pub(crate) struct Fixture {
    pub(crate) dir: Arc<PartitionDir>,
    _lock: DirLock,
    log_dir: Option<TempDir>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_io(Io::new())
    }

    pub(crate) fn with_io(io: Io) -> Self {
        let log_dir = tempfile::tempdir().unwrap();
        let path = log_dir.path().join("t-0");
        fs::create_dir(&path).unwrap();
        let mut fixture = Self::at(log_dir.path(), io);
        fixture.log_dir = Some(log_dir);
        fixture
    }

    /// The partition of a log directory that exists.
    pub(crate) fn at(log_dir: &std::path::Path, io: Io) -> Self {
        let lock = DirLock::acquire(log_dir).unwrap();
        let pool = FilePool::with_io(100, io);
        let dir = PartitionDir::open(&log_dir.join("t-0"), &lock, &pool).unwrap();
        Self { dir, _lock: lock, log_dir: None }
    }

    /// A sealed segment of these batches.
    pub(crate) fn sealed(&self, base: i64, batches: &[Vec<u8>]) -> Arc<Segment> {
        let at = Offset::new(base);
        let mut active = ActiveSegment::create(&self.dir, at, config(), Birth::default()).unwrap();
        for batch in batches {
            active.append(batch).unwrap();
        }
        active.seal().unwrap()
    }

    /// All segments, as a start finds them.
    pub(crate) fn segments(&self) -> Vec<Arc<Segment>> {
        let mut bases: Vec<_> = self
            .names()
            .iter()
            .filter_map(|name| SegmentFileName::parse(name))
            .filter(|name| name.kind == FileKind::Log && name.suffix == Suffix::None)
            .map(|name| name.offset)
            .collect();
        bases.sort();
        let open = |base| Segment::open(&self.dir, base, config()).unwrap();
        bases.into_iter().map(open).collect()
    }

    pub(crate) fn bases(&self) -> Vec<i64> {
        self.segments().iter().map(|segment| segment.base_offset().get()).collect()
    }

    /// The names in the directory, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Every file with its bytes.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let read = |name: &String| fs::read(self.dir.path().join(name)).unwrap();
        self.names().iter().map(|name| (name.clone(), read(name))).collect()
    }

    pub(crate) fn clean(&self, options: &CleanOptions) -> Result<CleanReport, CleanError> {
        self.clean_with(CleanerConfig::new().map_bytes(1 << 16), options)
    }

    pub(crate) fn clean_with(
        &self,
        memory: CleanerConfig,
        options: &CleanOptions,
    ) -> Result<CleanReport, CleanError> {
        Cleaner::new(memory).clean(&self.segments(), options, &mut Offline)
    }

    /// Every record that is there, with the end of its log.
    pub(crate) fn records(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for segment in self.segments() {
            each_batch(&segment, |batch| found.extend(records_of(batch)));
        }
        found
    }

    /// What a consumer sees that reads what is committed.
    pub(crate) fn committed(&self) -> Vec<Found> {
        let segments = self.segments();
        let aborted: Vec<AbortedTxn> =
            segments.iter().flat_map(|segment| segment.aborted().unwrap()).collect();
        let mut found = Vec::new();
        for segment in &segments {
            each_batch(segment, |batch| {
                let header = batch.header();
                let attributes = header.attributes();
                let is_aborted = attributes.is_transactional()
                    && aborted.iter().any(|txn| {
                        Some(txn.producer_id) == header.producer_id()
                            && (txn.first_offset..=txn.last_offset).contains(&header.last_offset())
                    });
                if !attributes.is_control() && !is_aborted {
                    found.extend(records_of(batch));
                }
            });
        }
        found
    }

    /// The last committed value of every key that has one.
    pub(crate) fn values(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut values = BTreeMap::new();
        for Found { key, value, .. } in self.committed() {
            let Some(key) = key else { continue };
            match value {
                Some(value) => values.insert(key, value),
                None => values.remove(&key),
            };
        }
        values
    }

    /// First offset, last offset and number of records of every batch.
    pub(crate) fn batches(&self) -> Vec<(i64, i64, i32)> {
        let mut found = Vec::new();
        for segment in self.segments() {
            each_batch(&segment, |batch| {
                let header = batch.header();
                let ends = (header.base_offset().get(), header.last_offset().get());
                found.push((ends.0, ends.1, header.record_count()));
            });
        }
        found
    }
}

/// One record of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) offset: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
}

pub(crate) fn each_batch(segment: &Segment, mut visit: impl FnMut(&Batch<'_>)) {
    let mut walker = segment.walk(Position::new(0)).unwrap().verifying();
    while let Some(entry) = walker.next_entry().unwrap() {
        let Entry::Batch(batch) = entry else { panic!("a batch of magic 2") };
        visit(&batch);
    }
    assert_eq!(walker.tail(), None);
}

pub(crate) fn records_of(batch: &Batch<'_>) -> Vec<Found> {
    let mut buffer = Vec::new();
    let records = Decompressor::new().inflate(batch, 1 << 27, &mut buffer).unwrap();
    let found = records.map(|record| {
        let record = record.unwrap();
        let owned = |field: Option<&[u8]>| field.map(<[u8]>::to_vec);
        Found {
            offset: record.offset().get(),
            key: owned(record.key()),
            value: owned(record.value()),
        }
    });
    found.collect()
}

/// An index entry for each batch but the first.
pub(crate) const fn config() -> SegmentConfig {
    SegmentConfig::new().index_interval_bytes(1).max_index_bytes(4096)
}

/// Cleans `from..to`, at [`NOW`].
pub(crate) fn options(from: i64, to: i64) -> CleanOptions {
    options_at(from, to, NOW)
}

pub(crate) fn options_at(from: i64, to: i64, now: i64) -> CleanOptions {
    CleanOptions::new(Offset::new(from), Offset::new(to), Timestamp::new(now))
        .delete_retention_ms(RETENTION)
        .segment_bytes(1 << 20)
        .segment(config())
}

pub(crate) type Pair<'a> = (&'a str, Option<&'a str>);

/// A batch of these keys and values.
pub(crate) fn batch(base: i64, pairs: &[Pair<'_>]) -> Vec<u8> {
    batch_of(BatchSettings::new(Offset::new(base)), pairs)
}

pub(crate) fn batch_of(settings: BatchSettings, pairs: &[Pair<'_>]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(settings);
    for (key, value) in pairs {
        let record = SimpleRecord::new().timestamp(Timestamp::new(1000)).key(key.as_bytes());
        let record = value.map_or(record, |value| record.value(value.as_bytes()));
        builder.append(&record).unwrap();
    }
    builder.finish().unwrap().to_vec()
}

/// A batch of a producer without transactions.
pub(crate) fn idempotent(
    base: i64,
    id: i64,
    (epoch, sequence): (i16, i32),
    pairs: &[Pair<'_>],
) -> Vec<u8> {
    batch_of(
        BatchSettings::new(Offset::new(base)).producer(
            ProducerId::new(id),
            ProducerEpoch::new(epoch),
            Some(Sequence::new(sequence)),
        ),
        pairs,
    )
}

/// A batch in a transaction.
pub(crate) fn transactional(base: i64, id: i64, pairs: &[Pair<'_>]) -> Vec<u8> {
    let settings = BatchSettings::new(Offset::new(base))
        .producer(ProducerId::new(id), ProducerEpoch::new(0), Some(Sequence::new(0)))
        .transactional(true);
    batch_of(settings, pairs)
}

pub(crate) fn marker(base: i64, id: i64, outcome: TxnOutcome) -> Vec<u8> {
    let settings =
        BatchSettings::end_txn(Offset::new(base), ProducerId::new(id), ProducerEpoch::new(0));
    let mut builder = BatchBuilder::new(settings);
    let time = Some(Timestamp::new(1000));
    builder.append_control(time, &EndTxnMarker::new(outcome, 0).into()).unwrap();
    builder.finish().unwrap().to_vec()
}

pub(crate) fn aborted(id: i64, first: i64, last: i64, stable: i64) -> AbortedTxn {
    let [first, last, stable] = [first, last, stable].map(Offset::new);
    AbortedTxn::new(ProducerId::new(id), first, last, stable)
}

pub(crate) fn offsets(found: &[Found]) -> Vec<i64> {
    found.iter().map(|record| record.offset).collect()
}
