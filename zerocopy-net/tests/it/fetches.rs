//! From an offset to what arrives: segments read and sent.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use alluvium_record_format::{
    BatchBuilder, BatchHeader, BatchSettings, Offset, Position, SimpleRecord, Timestamp,
};
use alluvium_segment::{
    ActiveSegment, Birth, DirLock, FilePool, PartitionDir, Segment, SegmentConfig, SegmentSlice,
    Suffix,
};
use alluvium_zerocopy_net::{Progress, Response, SocketSender};
use tempfile::TempDir;

use crate::support::{narrow, reader};

/// A partition with segments.
struct Partition {
    dir: Arc<PartitionDir>,
    _lock: DirLock,
    _log_dir: TempDir,
}

impl Partition {
    fn new() -> Self {
        let log_dir = tempfile::tempdir().unwrap();
        let lock = DirLock::acquire(log_dir.path()).unwrap();
        let path = log_dir.path().join("t-0");
        std::fs::create_dir(&path).unwrap();
        let dir = PartitionDir::open(&path, &lock, &FilePool::new(10)).unwrap();
        Self { dir, _lock: lock, _log_dir: log_dir }
    }

    fn segment(&self, base: i64, batches: &[Vec<u8>]) -> Arc<Segment> {
        let birth = Birth::at(Timestamp::new(0));
        let config = SegmentConfig::new().index_interval_bytes(1).max_index_bytes(1024);
        let mut active =
            ActiveSegment::create(&self.dir, Offset::new(base), config, birth).unwrap();
        for batch in batches {
            active.append(batch).unwrap();
        }
        active.seal().unwrap()
    }
}

/// A batch of `count` records from `base` on.
fn batch(base: i64, count: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(base)));
    for _ in 0..count {
        builder.append(&SimpleRecord::new().key(b"k").value(b"0123456789")).unwrap();
    }
    builder.finish().unwrap().to_vec()
}

fn read(segment: &Segment, offset: i64, max_bytes: u32) -> Option<SegmentSlice> {
    let end = Some(Position::new(segment.size_bytes()));
    segment.read(Offset::new(offset), max_bytes, end, false).unwrap()
}

/// What arrives of a slice.
fn sent(slice: SegmentSlice) -> Vec<u8> {
    let (server, client) = UnixStream::pair().unwrap();
    let received = reader(client);
    SocketSender::new().send(&server, &mut Response::new().slice(slice)).unwrap();
    server.shutdown(Shutdown::Both).unwrap();
    received.join().unwrap()
}

/// First and last offset of the batch at the start.
fn range(bytes: &[u8]) -> (i64, i64) {
    let header = BatchHeader::parse(bytes, Position::new(0)).unwrap();
    (header.base_offset().get(), header.last_offset().get())
}

/// FR-020.
#[test]
fn a_reader_goes_on_behind_the_range_of_a_batch_whose_last_records_were_compacted_away() {
    // Offsets 0 to 9, of which only 3 is left, as compaction leaves it.
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let record = SimpleRecord::new().key(b"k").value(b"v");
    builder.append_with_offset(Offset::new(3), &record).unwrap();
    builder.set_last_offset(Offset::new(9)).unwrap();
    let first = builder.finish().unwrap().to_vec();
    let partition = Partition::new();
    let segment = partition.segment(0, &[first.clone(), batch(10, 2)]);
    for offset in [0, 4, 9] {
        let bytes = sent(read(&segment, offset, 1_000).unwrap());
        assert_eq!(range(&bytes), (0, 9));
        assert_eq!(range(&bytes[first.len()..]), (10, 11));
    }
    assert_eq!(range(&sent(read(&segment, 10, 1_000).unwrap())), (10, 11));
}

/// FR-025.
#[test]
fn a_slice_cut_anywhere_sends_what_it_has_and_nothing_behind_it() {
    let batches = [batch(0, 3), batch(3, 3), batch(6, 3)];
    let whole = batches.concat();
    let partition = Partition::new();
    let segment = partition.segment(0, &batches);
    for max_bytes in 1..whole.len() {
        let slice = read(&segment, 0, u32::try_from(max_bytes).unwrap()).unwrap();
        assert_eq!(slice.first_entry_incomplete(), max_bytes < batches[0].len());
        assert_eq!(sent(slice), &whole[..max_bytes]);
    }
}

/// FR-050.
#[test]
fn a_read_in_a_gap_sends_the_batch_behind_it() {
    let partition = Partition::new();
    let segments = [partition.segment(0, &[batch(0, 3)]), partition.segment(6, &[batch(6, 3)])];
    let arrives = |offset| {
        segments.iter().find_map(|segment| read(segment, offset, 10)).map(|slice| {
            assert_eq!(slice.position(), Position::new(0));
            let from = slice.segment_base().get();
            let whole = read(&segments[usize::from(from == 6)], from, 1_000).unwrap();
            range(&sent(whole))
        })
    };
    assert_eq!(arrives(0), Some((0, 2)));
    assert_eq!([arrives(3), arrives(4), arrives(6), arrives(8)], [Some((6, 8)); 4]);
    assert_eq!(arrives(9), None);
}

/// FR-104.
#[test]
fn a_slow_send_ends_with_the_old_bytes_though_its_segment_is_renamed_and_removed() {
    let batches: Vec<_> = (0..2_000).map(|index| batch(index * 3, 3)).collect();
    let whole = batches.concat();
    let partition = Partition::new();
    let segment = partition.segment(0, &batches);
    let slice = read(&segment, 0, segment.size_bytes()).unwrap();
    let descriptor = Arc::downgrade(slice.file());
    let (server, client) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    narrow(&server);
    let mut sender = SocketSender::new();
    let mut response = Response::new().slice(slice);
    assert_eq!(sender.send_turn(&server, &mut response).unwrap(), Progress::Blocked);

    segment.rename(Suffix::Deleted).unwrap();
    segment.delete_files().unwrap();
    drop(segment);
    let replaced = partition.segment(0, &[batch(0, 1)]);
    let received = reader(client);
    server.set_nonblocking(false).unwrap();
    sender.send(&server, &mut response).unwrap();
    drop(server);
    assert!(received.join().unwrap() == whole);
    drop(response);
    assert!(descriptor.upgrade().is_none(), "the descriptor of the old segment is still open");
    assert_eq!(range(&sent(read(&replaced, 0, 1_000).unwrap())), (0, 0));
}
