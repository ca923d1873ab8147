//! What several modules need.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::{
    BatchBuilder, BatchSettings, Offset, Position, SimpleRecord, Timestamp,
};
use alluvium_segment::{
    ActiveSegment, Birth, DirLock, FilePool, Io, PartitionDir, Scan, Segment, SegmentConfig,
    SegmentSlice,
};
use tempfile::TempDir;

/// A log directory with one partition, locked.
pub(crate) struct Fixture {
    pub(crate) dir: Arc<PartitionDir>,
    pub(crate) lock: DirLock,
    pub(crate) log_dir: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_pool(&FilePool::new(100))
    }

    pub(crate) fn with_io(io: Io) -> Self {
        Self::with_pool(&FilePool::with_io(100, io))
    }

    pub(crate) fn with_pool(pool: &Arc<FilePool>) -> Self {
        Self::below(tempfile::tempdir().unwrap(), pool)
    }

    /// Below the build directory: on a disk, and not in memory.
    pub(crate) fn on_disk() -> Self {
        Self::on_disk_with(&FilePool::new(100))
    }

    pub(crate) fn on_disk_with(pool: &Arc<FilePool>) -> Self {
        Self::below(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), pool)
    }

    fn below(log_dir: TempDir, pool: &Arc<FilePool>) -> Self {
        let lock = DirLock::acquire(log_dir.path()).unwrap();
        let path = log_dir.path().join("t-0");
        fs::create_dir(&path).unwrap();
        let dir = PartitionDir::open(&path, &lock, pool).unwrap();
        Self { dir, lock, log_dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn create(&self, base: i64, config: SegmentConfig) -> ActiveSegment {
        ActiveSegment::create(&self.dir, Offset::new(base), config, birth()).unwrap()
    }

    /// Opens a segment of which nobody holds an object.
    pub(crate) fn open(&self, base: i64) -> Arc<Segment> {
        self.open_with(base, every_batch())
    }

    pub(crate) fn open_with(&self, base: i64, config: SegmentConfig) -> Arc<Segment> {
        Segment::open(&self.dir, Offset::new(base), config).unwrap()
    }

    pub(crate) fn reopen(&self, base: i64) -> ActiveSegment {
        ActiveSegment::open(&self.dir, Offset::new(base), every_batch(), birth()).unwrap()
    }

    /// The names in the directory, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// An index entry for each batch but the first, small indexes: as the reports were made.
pub(crate) const fn every_batch() -> SegmentConfig {
    SegmentConfig::new().index_interval_bytes(1).max_index_bytes(1024)
}

pub(crate) const fn birth() -> Birth {
    Birth::at(Timestamp::new(0))
}

/// A batch of `count` records from `base` on, all of them at `time`.
pub(crate) fn batch(base: i64, count: i64, time: i64) -> Vec<u8> {
    let records: Vec<_> = (0..count).map(|_| time).collect();
    batch_at(base, &records, 10)
}

/// A batch of records with these times and values of `value_bytes`.
pub(crate) fn batch_at(base: i64, times: &[i64], value_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(base)));
    let value = vec![b'v'; value_bytes];
    for time in times {
        let record = SimpleRecord::new().key(b"k").value(&value);
        let record = match time {
            -1 => record,
            time => record.timestamp(Timestamp::new(*time)),
        };
        builder.append(&record).unwrap();
    }
    builder.finish().unwrap().to_vec()
}

pub(crate) fn read(segment: &Segment, offset: i64) -> Option<SegmentSlice> {
    let end = Some(Position::new(segment.size_bytes()));
    segment.read(Offset::new(offset), 1, end, true).unwrap()
}

/// The base offset of the batch that a read at `offset` begins with.
pub(crate) fn base_at(segment: &Segment, offset: i64) -> Option<i64> {
    read(segment, offset).map(|slice| slice.base_offset().get())
}

/// First and last offset of each batch in the log.
pub(crate) fn ranges(segment: &Segment) -> Vec<(i64, i64)> {
    let mut walker = segment.walk(Position::new(0)).unwrap().verifying();
    let mut ranges = Vec::new();
    while let Some(entry) = walker.next_entry().unwrap() {
        let alluvium_record_format::Entry::Batch(batch) = entry else { panic!("magic 2") };
        ranges.push((batch.header().base_offset().get(), batch.header().last_offset().get()));
    }
    ranges
}

pub(crate) fn recover(segment: &Segment) -> Scan {
    segment.recover(&mut |_| ControlFlow::Continue(())).unwrap()
}

/// The bytes of a hexadecimal text; spaces and bars are for the reader.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks_exact(2).map(pair).collect()
}

/// One batch of 70 bytes: offset 0, one record, time 1000. Written by Kafka 4.4.0.
pub(crate) fn one() -> Vec<u8> {
    hex("00000000000000000000003a0000000002716a618900000000000000000000000003e80000000000\
         0003e8ffffffffffffffffffffffffffff0000000110000000026b027600")
}

/// Three batches of 118 bytes: offsets 0-2, 3-5, 6-8; leader epochs 0, 0, 1; times 1000 to 1008.
/// Written by Kafka 4.4.0.
pub(crate) fn three() -> Vec<u8> {
    hex("00000000000000000000006a000000000206742cbf00000000000200000000000003e80000000000\
         0003eaffffffffffffffffffffffffffff0000000324000000046b301476767676767676767676002400\
         0202046b3114767676767676767676760024000404046b32147676767676767676767600\
         00000000000000030000006a0000000002359cfb7500000000000200000000000003eb0000000000\
         0003edffffffffffffffffffffffffffff0000000324000000046b331476767676767676767676002400\
         0202046b3414767676767676767676760024000404046b35147676767676767676767600\
         00000000000000060000006a0000000102cb8a8a8d00000000000200000000000003ee0000000000\
         0003f0ffffffffffffffffffffffffffff0000000324000000046b361476767676767676767676002400\
         0202046b3714767676767676767676760024000404046b38147676767676767676767600")
}

/// The batch with another base offset. The checksum does not cover it.
pub(crate) fn moved(batch: &[u8], base: i64) -> Vec<u8> {
    let mut moved = batch.to_vec();
    moved[..8].copy_from_slice(&base.to_be_bytes());
    moved
}
