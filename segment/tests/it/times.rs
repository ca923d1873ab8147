//! From timestamps to records.

use std::fs::{File, FileTimes};
use std::time::{Duration, SystemTime};

use alluvium_record_format::{
    BatchBuilder, BatchSettings, Codec, CorruptKind, LeaderEpoch, Offset, SimpleRecord, Timestamp,
};
use alluvium_segment::{Segment, SegmentError};

use crate::support::{Fixture, batch_at, every_batch, hex, moved, recover, three};

const LOG: &str = "00000000000000000000.log";

fn find(segment: &Segment, target: i64, start: i64) -> Option<(i64, i64)> {
    let found = segment.find_by_timestamp(Timestamp::new(target), Offset::new(start), usize::MAX);
    found.unwrap().map(|found| (found.offset.get(), found.timestamp.get()))
}

#[test]
fn the_first_record_at_or_after_a_time_is_found() {
    let fixture = Fixture::new();
    fixture.put(LOG, &three());
    let segment = fixture.open(0);
    assert_eq!(find(&segment, 0, 0), Some((0, 1000)));
    for offset in 0..9 {
        assert_eq!(find(&segment, 1000 + offset, 0), Some((offset, 1000 + offset)));
    }
    assert_eq!(find(&segment, 1009, 0), None);
    assert_eq!(find(&segment, 1002, 4), Some((4, 1004)), "not below the start");
    assert_eq!(find(&segment, 1002, 9), None);
    let found = segment.find_by_timestamp(Timestamp::new(1007), Offset::new(0), 99).unwrap();
    assert_eq!(found.unwrap().leader_epoch, Some(LeaderEpoch::new(1)));
}

/// A record that is late does not hide the one that came before it.
#[test]
fn times_that_go_back_give_the_first_record_by_offset() {
    let fixture = Fixture::new();
    let batches = [
        batch_at(0, &[100, 300, 200], 10),
        batch_at(3, &[250, 260], 10),
        batch_at(5, &[400, 10], 10),
        batch_at(7, &[390, 410], 10),
    ];
    fixture.put(LOG, &batches.concat());
    let segment = fixture.open(0);
    assert_eq!(find(&segment, 200, 0), Some((1, 300)));
    assert_eq!(find(&segment, 250, 2), Some((3, 250)));
    assert_eq!(find(&segment, 301, 0), Some((5, 400)));
    assert_eq!(find(&segment, 401, 0), Some((8, 410)));
    assert_eq!(find(&segment, 411, 0), None);
    let largest = segment.find_largest_timestamp(usize::MAX).unwrap().unwrap();
    assert_eq!((largest.offset.get(), largest.timestamp.get()), (8, 410));
}

/// FR-022: the batch's time counts with `LogAppendTime`, a missing maximum hides the batch's
/// records, and -1 everywhere means no entry and the age of the file.
#[test]
fn append_time_and_missing_times_are_as_the_header_says() {
    let append_time = "00000000000000000000003a0000000002fcfbdb4800080000000000000000000003e8\
        0000000000001388ffffffffffffffffffffffffffff0000000110000e00026b027600";
    let fixture = Fixture::new();
    fixture.put(LOG, &hex(append_time));
    assert_eq!(find(&fixture.open(0), 4000, 0), Some((0, 5000)));

    let max_missing = "00000000000000000000003a000000000277e482af00000000000000000000000003e8\
        ffffffffffffffffffffffffffffffffffffffffffff0000000110000000026b027600";
    let fixture = Fixture::new();
    fixture.put(LOG, &hex(max_missing));
    let segment = fixture.open(0);
    recover(&segment);
    assert_eq!(find(&segment, 0, 0), None);
    assert_eq!(segment.max_timestamp().unwrap(), None);
    assert_eq!(fixture.bytes("00000000000000000000.timeindex").len(), 0);
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_234_567);
    let file = File::options().write(true).open(fixture.path(LOG)).unwrap();
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    assert_eq!(segment.largest_timestamp().unwrap(), Timestamp::new(1_234_567_000));
}

/// The time of a message of magic 1 lies in its header; -1 there is none.
#[test]
fn messages_of_magic_1_are_found_by_their_times() {
    let times_missing_1000_and_900 = "\
        000000000000000000000018b82b07240100ffffffffffffffff000000016b0000000176\
        000000000000000100000018e4e321bc010000000000000003e8000000016b0000000176\
        000000000000000200000018be2d254301000000000000000384000000016b0000000176";
    let fixture = Fixture::new();
    fixture.put(LOG, &hex(times_missing_1000_and_900));
    let segment = fixture.open(0);
    assert_eq!(find(&segment, 0, 0), Some((1, 1000)));
    assert_eq!(find(&segment, 0, 2), Some((2, 900)));
    assert_eq!(find(&segment, 1001, 0), None);
    let largest = segment.max_timestamp().unwrap().unwrap();
    assert_eq!((largest.offset.get(), largest.timestamp.get()), (1, 1000));
}

/// A batch of one record whose value is `len` zeros.
fn zeros(codec: Codec, len: usize) -> Vec<u8> {
    let settings = BatchSettings::new(Offset::new(0)).codec(codec);
    let mut builder = BatchBuilder::new(settings);
    let value = vec![0; len];
    builder.append(&SimpleRecord::new().timestamp(Timestamp::new(5)).value(&value)).unwrap();
    builder.finish().unwrap().to_vec()
}

/// FR-018: a bomb is refused at the ceiling, and read under a higher one.
#[test]
fn a_record_above_the_ceiling_is_damage() {
    let fixture = Fixture::new();
    fixture.put(LOG, &zeros(Codec::Zstd, 64 << 20));
    let segment = fixture.open(0);
    let with_limit =
        |limit| segment.find_by_timestamp(Timestamp::new(1), Offset::new(0), limit).map(|_| ());
    let Err(SegmentError::Corrupt { source, .. }) = with_limit(1 << 20) else {
        panic!("1 MiB is not enough")
    };
    assert!(matches!(source.kind(), CorruptKind::RecordTooLarge { .. }), "{source}");
    with_limit(80 << 20).unwrap();
}

#[test]
fn every_codec_is_searched() {
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let fixture = Fixture::new();
        let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)).codec(codec));
        for time in [10, 30, 20] {
            let record = SimpleRecord::new().timestamp(Timestamp::new(time)).value(b"value");
            builder.append(&record).unwrap();
        }
        fixture.put(LOG, builder.finish().unwrap());
        let segment = fixture.open(0);
        assert_eq!(find(&segment, 11, 0), Some((1, 30)), "{codec}");
        assert_eq!(find(&segment, 11, 2), Some((2, 20)), "{codec}");
    }
}

/// An empty time index beside a log with times: Kafka then goes by the age of the file.
#[test]
fn a_lost_time_index_does_not_lose_the_largest_timestamp() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    drop(active.seal().unwrap());
    fixture.put("00000000000000000000.timeindex", b"");
    let segment = fixture.open(0);
    assert_eq!(segment.largest_timestamp().unwrap(), Timestamp::new(1008));
    assert_eq!(find(&segment, 1004, 0), Some((4, 1004)));
    drop(segment);
    let mut active = fixture.reopen(0);
    active.append(&moved(&three()[..118], 9)).unwrap();
    active.seal().unwrap();
    let index = fixture.bytes("00000000000000000000.timeindex");
    assert_eq!(index, hex("00000000000003f0 00000008"), "the maximum and where it was first");
}

#[test]
fn a_set_time_is_that_of_the_log_and_both_indexes() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let segment = active.seal().unwrap();
    segment.set_modified(Timestamp::new(1_600_000_000_123)).unwrap();
    assert_eq!(segment.modified().unwrap(), Timestamp::new(1_600_000_000_123));
    for name in fixture.names() {
        let modified = std::fs::metadata(fixture.path(&name)).unwrap().modified().unwrap();
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since, Duration::from_millis(1_600_000_000_123), "{name}");
    }
}
