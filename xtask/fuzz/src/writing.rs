//! Builders and rebuilds: our reader against our writer.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Codec, Decompressor, Header, LeaderEpoch, Offset, Position,
    ProducerEpoch, ProducerId, Sequence, SimpleRecord, Timestamp,
};
use alluvium_segment::{
    ActiveSegment, Birth, DirLock, FileKind, FilePool, PartitionDir, SegmentConfig,
};
use alluvium_sparse_index::{BatchInfo, IndexBuilder};
use arbitrary::Arbitrary;

use crate::loading::in_memory;

/// A batch to build.
#[derive(Arbitrary, Debug)]
pub struct Wanted {
    base: i64,
    epoch: i32,
    codec: u8,
    level: Option<i8>,
    append_time: Option<i64>,
    producer: Option<(i64, i16, i32)>,
    transactional: bool,
    records: Vec<WantedRecord>,
}

/// A record of it.
#[derive(Arbitrary, Debug)]
pub struct WantedRecord {
    time: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What the builder takes, the reader gives back.
pub fn builder(wanted: &Wanted) {
    let codec = Codec::from_id(wanted.codec % 5).unwrap();
    let mut settings = BatchSettings::new(Offset::new(wanted.base))
        .leader_epoch(LeaderEpoch::new(wanted.epoch))
        .codec(codec)
        .transactional(wanted.transactional);
    if let Some(level) = wanted.level.map(i32::from).filter(|level| codec.accepts_level(*level)) {
        settings = settings.level(Some(level));
    }
    if let Some(time) = wanted.append_time {
        settings = settings.log_append_time(Timestamp::new(time));
    }
    if let Some((id, epoch, sequence)) = wanted.producer {
        let sequence = Some(Sequence::new(sequence));
        settings = settings.producer(ProducerId::new(id), ProducerEpoch::new(epoch), sequence);
    }
    let mut builder = BatchBuilder::new(settings);
    let mut taken = Vec::new();
    for record in &wanted.records {
        let headers: Vec<_> =
            record.headers.iter().map(|(key, value)| Header::new(key, value.as_deref())).collect();
        let mut simple =
            SimpleRecord::new().timestamp(Timestamp::new(record.time)).headers(&headers);
        if let Some(key) = &record.key {
            simple = simple.key(key);
        }
        if let Some(value) = &record.value {
            simple = simple.value(value);
        }
        if let Ok(offset) = builder.append(&simple) {
            taken.push((offset, record));
        }
    }
    let Ok(bytes) = builder.finish() else { return };
    if bytes.is_empty() {
        // A builder without records writes no batch.
        assert!(taken.is_empty());
        return;
    }
    let batch = Batch::parse(bytes, Position::new(0)).unwrap();
    assert_eq!(batch.bytes().len(), bytes.len());
    batch.verify_crc().unwrap();
    let mut buffer = Vec::new();
    let mut decompressor = Decompressor::new();
    let read = decompressor.inflate(&batch, 1 << 24, &mut buffer).unwrap();
    let mut count = 0;
    for (record, (offset, wanted_record)) in read.zip(&taken) {
        let record = record.unwrap();
        count += 1;
        assert_eq!(record.offset(), *offset);
        assert_eq!(record.key(), wanted_record.key.as_deref());
        assert_eq!(record.value(), wanted_record.value.as_deref());
        let headers: Vec<_> = record.headers().collect();
        assert_eq!(headers.len(), wanted_record.headers.len());
        for (header, (key, value)) in headers.iter().zip(&wanted_record.headers) {
            assert_eq!((header.key, header.value), (&key[..], value.as_deref()));
        }
        if wanted.append_time.is_none() && wanted_record.time >= 0 {
            assert_eq!(record.timestamp(), Some(Timestamp::new(wanted_record.time)));
        }
    }
    assert_eq!(count, taken.len(), "every record that was taken is read");
}

/// A batch that is sound is built again from what was read: the same records, and the same bytes
/// where it is not compressed and written in the shortest form.
pub fn reader_writer(data: &[u8]) {
    let Ok(batch) = Batch::parse(data, Position::new(0)) else { return };
    let mut decompressor = Decompressor::new();
    let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
    let Some(once) = rebuilt(&batch, &mut decompressor, &mut first) else { return };
    let batch = Batch::parse(&once, Position::new(0)).expect("what the writer wrote is a batch");
    batch.verify_crc().expect("the writer's checksum fits");
    let twice = rebuilt(&batch, &mut decompressor, &mut second).expect("the reader takes it");
    assert_eq!(once, twice, "written again, it is the same");
    let batch = Batch::parse(&twice, Position::new(0)).unwrap();
    assert!(
        decompressor.inflate(&batch, 1 << 22, &mut third).unwrap().all(|record| record.is_ok())
    );
}

fn rebuilt(
    batch: &Batch<'_>,
    decompressor: &mut Decompressor,
    buffer: &mut Vec<u8>,
) -> Option<Vec<u8>> {
    let records = decompressor.inflate(batch, 1 << 20, buffer).ok()?;
    let mut builder = BatchBuilder::new(BatchSettings::of(batch.header()));
    for record in records {
        builder.append_record(&record.ok()?).ok()?;
    }
    builder.finish().ok().filter(|bytes| !bytes.is_empty()).map(<[u8]>::to_vec)
}

/// Batches of these sizes and times.
#[derive(Arbitrary, Debug)]
pub struct Appends {
    interval: u16,
    batches: Vec<(u8, u16, u16)>,
}

/// Indexes that grew with the appends are those that are built from the log afterwards.
pub fn index_rebuild(wanted: &Appends) {
    let root = in_memory();
    let path = root.path().join("t-0");
    std::fs::create_dir(&path).unwrap();
    let lock = DirLock::acquire(root.path()).unwrap();
    let dir = PartitionDir::open(&path, &lock, &FilePool::new(16)).unwrap();
    let config =
        SegmentConfig::new().index_interval_bytes(wanted.interval.into()).max_index_bytes(1 << 16);
    let base = Offset::new(5);
    let birth = Birth::at(Timestamp::new(0));
    let mut active = ActiveSegment::create(&dir, base, config, birth).unwrap();
    let mut builder = IndexBuilder::new(base, wanted.interval.into());
    let mut next = 5;
    for &(records, time, value_len) in wanted.batches.iter().take(200) {
        let mut batch = BatchBuilder::new(BatchSettings::new(Offset::new(next)));
        let value = vec![b'v'; usize::from(value_len % 2000)];
        for _ in 0..=records % 8 {
            let time = Timestamp::new(time.into());
            batch.append(&SimpleRecord::new().value(&value).timestamp(time)).unwrap();
        }
        let bytes = batch.finish().unwrap();
        let position = active.append(bytes).unwrap();
        let header = *Batch::parse(bytes, Position::new(0)).unwrap().header();
        builder.push(BatchInfo::from_header(&header, position)).unwrap();
        next = header.next_offset().get();
    }
    let segment = active.seal().unwrap();
    let read = |kind| std::fs::read(segment.path(kind)).unwrap_or_default();
    let appended = (read(FileKind::OffsetIndex), read(FileKind::TimeIndex));
    let built = builder.finish().unwrap();
    assert_eq!(appended, (built.offset_index, built.time_index), "as the builder says");
    assert!(segment.rebuild_indexes().unwrap());
    let rebuilt = (read(FileKind::OffsetIndex), read(FileKind::TimeIndex));
    assert_eq!(appended, rebuilt, "as a rebuild says");
}
