//! Recovery of one segment: what is kept, what is cut, what the indexes are afterwards.

use std::ops::ControlFlow;

use alluvium_record_format::{
    CorruptClass, CorruptKind, Entries, Entry, Offset, Position, Timestamp,
};
use alluvium_segment::{ActiveSegment, BatchWalker, ScanStop, SegmentConfig, SegmentError};
use alluvium_sparse_index::TimeEntry;

use crate::support::{
    Fixture, batch_at, birth, every_batch, hex, moved, one, ranges, recover, three,
};

const INDEX: &str = "00000000000000000000.index";
const LOG: &str = "00000000000000000000.log";
const TIME_INDEX: &str = "00000000000000000000.timeindex";

/// FR-062: zeros behind the last batch, or a batch cut short; with index files and without.
#[test]
fn a_torn_tail_is_cut_and_the_indexes_are_made_again() {
    let with_zeros = |count| [three(), vec![0; count]].concat();
    let cases = [
        (with_zeros(4096), 354, 3),
        (with_zeros(16), 354, 3),
        (with_zeros(17), 354, 3),
        (with_zeros(18), 354, 3),
        (three()[..353].to_vec(), 236, 2),
        (three()[..294].to_vec(), 236, 2),
        (three()[..244].to_vec(), 236, 2),
    ];
    for (log, len, batches) in cases {
        for stale in [None, Some(vec![7; 24])] {
            let fixture = Fixture::new();
            fixture.put(LOG, &log);
            if let Some(stale) = stale {
                fixture.put(INDEX, &stale);
                fixture.put(TIME_INDEX, &stale);
            }
            let segment = fixture.open(0);
            let scan = recover(&segment);
            let next = i64::try_from(batches * 3).unwrap();
            assert_eq!((scan.valid_bytes, scan.next_offset.get()), (len, next));
            assert_eq!(scan.truncated_bytes(), log.len() as u64 - u64::from(len));
            assert_eq!(fixture.bytes(LOG), three()[..len as usize]);
            let expected = "00000005 00000076 | 00000008 000000ec".split(" | ");
            let expected: Vec<_> = expected.take(batches - 1).map(hex).collect();
            assert_eq!(fixture.bytes(INDEX), expected.concat());
            // A second time changes nothing.
            let again = recover(&segment);
            assert_eq!((again.truncated_bytes(), again.stop), (0, None));
        }
    }
}

/// FR-065 (a): damage in the middle; the layer above removes the segments behind.
#[test]
fn everything_behind_a_damaged_batch_goes() {
    let mut log = three();
    log[234] ^= 1;
    let fixture = Fixture::new();
    fixture.put(LOG, &log);
    let scan = recover(&fixture.open(0));
    assert_eq!((scan.valid_bytes, scan.next_offset.get(), scan.batch_count), (118, 3, 1));
    let Some(ScanStop::Damaged(damage)) = scan.stop else { panic!("{:?}", scan.stop) };
    assert_eq!(damage.position(), Position::new(118 + 17));
    assert!(matches!(damage.kind(), CorruptKind::Crc { .. }));
    assert_eq!(fixture.bytes(LOG).len(), 118);
}

/// FR-067: the magic byte is outside the checksum; one rule for files and buffers.
#[test]
fn a_flipped_magic_byte_is_damage() {
    for magic in [3, 0, 1, 0xff] {
        let mut log = three();
        log[118 + 16] = magic;
        let fixture = Fixture::new();
        fixture.put(LOG, &log);
        let segment = fixture.open(0);
        let walked = segment.walk(Position::new(0)).unwrap();
        assert_eq!(count_and_damage(walked), (1, Some(CorruptClass::Corrupt)), "magic {magic}");
        let scan = recover(&segment);
        assert_eq!((scan.valid_bytes, scan.next_offset.get()), (118, 3), "magic {magic}");
    }
}

/// FR-008: the verdicts on a lying length field are those of the memory reader.
#[test]
fn a_file_and_a_buffer_get_the_same_verdict_on_a_lying_length() {
    for length in [
        "00000000", "0000000d", "0000000e", "00000030", "00000031", "ffffffff", "7fffffff",
        "7ffffff4",
    ] {
        let mut bytes = one();
        bytes[8..12].copy_from_slice(&hex(length));
        let in_memory = match Entries::new(&bytes, Position::new(0)).next().unwrap() {
            Ok(Entry::Batch(batch)) => batch.verify_crc().unwrap_err().class(),
            Ok(_) => panic!("magic 2"),
            Err(damage) => damage.class(),
        };
        let fixture = Fixture::new();
        fixture.put(LOG, &bytes);
        let walker = fixture.open(0).walk(Position::new(0)).unwrap().verifying();
        assert_eq!(count_and_damage(walker), (0, Some(in_memory)), "length {length}");
        let incomplete = length.starts_with("7f");
        assert_eq!(in_memory == CorruptClass::Incomplete, incomplete, "length {length}");
    }
}

fn count_and_damage(mut walker: BatchWalker) -> (u32, Option<CorruptClass>) {
    let mut count = 0;
    loop {
        match walker.next_entry() {
            Ok(Some(_)) => count += 1,
            Ok(None) => return (count, walker.tail().map(|damage| damage.class())),
            Err(SegmentError::Corrupt { source, .. }) => return (count, Some(source.class())),
            Err(error) => panic!("{error}"),
        }
    }
}

/// FR-019: a segment that holds nothing but a batch without records.
#[test]
fn a_lone_batch_without_records_survives() {
    let fixture = Fixture::new();
    let empty = "0000000000000000000000310000000002c53ffb6b00000000000900000000000003e8\
        00000000000003e8ffffffffffffffffffffffffffff00000000";
    fixture.put(LOG, &hex(empty));
    let scan = recover(&fixture.open(0));
    assert_eq!((scan.valid_bytes, scan.next_offset.get(), scan.stop), (61, 10, None));
}

/// FR-032: recovery comes to the entries of the appends.
#[test]
fn recovery_makes_the_indexes_that_appends_make() {
    let config = SegmentConfig::new().index_interval_bytes(100).max_index_bytes(1024);
    let fixture = Fixture::new();
    let batches: Vec<_> = (0..6).map(|base| moved(&one(), base)).collect();
    fixture.put(LOG, &batches.concat());
    recover(&fixture.open_with(0, config));
    assert_eq!(fixture.bytes(INDEX), hex("00000002 0000008c | 00000004 00000118"));
    assert_eq!(fixture.bytes(TIME_INDEX), hex("00000000000003e8 00000000"));
}

/// FR-041: leader, follower and recovery write the same time index.
#[test]
fn the_largest_timestamp_gets_the_same_entry_on_every_path() {
    let batches = [batch_at(0, &[1, 9, 3], 10), batch_at(3, &[9, 2, 2], 10)];
    let written = Fixture::new();
    let mut active = written.create(0, every_batch());
    for batch in &batches {
        active.append(batch).unwrap();
    }
    active.seal().unwrap();
    let at_once = Fixture::new();
    let mut active = at_once.create(0, every_batch());
    active.append(&batches.concat()).unwrap();
    active.seal().unwrap();
    let recovered = Fixture::new();
    recovered.put(LOG, &batches.concat());
    let segment = recovered.open(0);
    let entry = Some(TimeEntry::new(Timestamp::new(9), Offset::new(2)));
    assert_eq!(recover(&segment).max_timestamp, entry);
    assert_eq!(segment.max_timestamp().unwrap(), entry);
    assert!(!segment.time_index().unwrap().is_empty());
    drop(segment);
    for fixture in [written, at_once, recovered] {
        assert_eq!(fixture.bytes(TIME_INDEX), hex("0000000000000009 00000002"));
        let found = fixture.open(0).find_largest_timestamp(usize::MAX).unwrap().unwrap();
        assert_eq!((found.offset.get(), found.timestamp.get()), (1, 9));
    }
}

#[test]
fn the_visitor_sees_every_sound_batch_and_can_refuse_one() {
    let fixture = Fixture::new();
    fixture.put(LOG, &three());
    let segment = fixture.open(0);
    let mut seen = Vec::new();
    let scan = segment
        .scan(&mut |entry| {
            let Entry::Batch(batch) = entry else { return ControlFlow::Break(()) };
            seen.push(batch.header().base_offset().get());
            if seen.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(seen, [0, 3]);
    assert_eq!((scan.valid_bytes, scan.stop), (118, Some(ScanStop::Refused)));
    assert_eq!(fixture.bytes(LOG), three(), "a scan changes nothing");
    assert_eq!(fixture.names(), [LOG]);
}

/// Whether the batches have index entries or, as with Kafka's interval, not one of them.
#[test]
fn offsets_that_go_back_stop_the_scan_at_the_first_batch_that_has_them() {
    for config in [every_batch(), SegmentConfig::new()] {
        let fixture = Fixture::new();
        let [first, second, third] = [0, 118, 236].map(|at| three()[at..at + 118].to_vec());
        fixture.put(LOG, &[first.clone(), second.clone(), first.clone(), third].concat());
        let segment = fixture.open_with(0, config);
        let scan = segment.scan(&mut |_| ControlFlow::Continue(())).unwrap();
        let (found, last) = (Offset::new(2), Offset::new(5));
        assert_eq!(scan.stop, Some(ScanStop::OutOfOrder { found, last }));
        assert_eq!((scan.batch_count, scan.next_offset), (2, Offset::new(6)));
        segment.apply_scan(&scan).unwrap();
        assert_eq!(fixture.bytes(LOG), [first, second].concat());
        assert_eq!(segment.next_offset().unwrap(), Offset::new(6));
        segment.apply_scan(&scan.emptied(Offset::new(0))).unwrap();
        assert!(fixture.bytes(LOG).is_empty());
        assert_eq!(segment.next_offset().unwrap(), Offset::new(0));
    }
}

#[test]
fn a_batch_below_the_base_offset_of_its_segment_is_damage() {
    let fixture = Fixture::new();
    fixture.put("00000000000000000005.log", &three());
    let segment = fixture.open(5);
    let scan = segment.recover(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(matches!(scan.stop, Some(ScanStop::Damaged(_))), "{:?}", scan.stop);
    assert_eq!(segment.size_bytes(), 0);
}

#[test]
fn a_segment_that_is_written_to_is_not_recovered() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let result = active.segment().recover(&mut |_| ControlFlow::Continue(()));
    assert!(matches!(result, Err(SegmentError::Busy { .. })));
}

/// FR-047: preallocated zeros go at the seal, and in recovery after a crash.
#[test]
fn a_preallocated_tail_is_cut_when_sealed_or_recovered() {
    let config = every_batch().preallocate_bytes(Some(1024 * 1024));
    let fixture = Fixture::new();
    let mut active = fixture.create(0, config);
    active.append(&three()).unwrap();
    assert_eq!(fixture.bytes(LOG).len(), 1024 * 1024);
    active.seal().unwrap();
    assert_eq!(fixture.bytes(LOG), three());

    let crashed = Fixture::new();
    let mut active = crashed.create(0, config);
    active.append(&three()).unwrap();
    drop(active);
    let segment = crashed.open_with(0, config);
    let scan = recover(&segment);
    assert_eq!((scan.truncated_bytes(), scan.next_offset.get()), (1024 * 1024 - 354, 9));
    assert_eq!(crashed.bytes(LOG), three());
    assert_eq!(crashed.bytes(INDEX), fixture.bytes(INDEX));
    assert_eq!(crashed.bytes(TIME_INDEX), fixture.bytes(TIME_INDEX));
}

/// FR-047: a checksum of 0 is a checksum.
#[test]
fn a_batch_whose_checksum_is_zero_is_sound() {
    let header = "00000000000000000000003d0000000002 00000000 0000 00000000";
    let times = "00000000000003e8 00000000000003e8";
    let rest = "ffffffffffffffff ffff ffffffff 00000001 16000000026b08606aada300";
    let zero_crc = [header, times, rest].map(hex).concat();
    assert_eq!((zero_crc.len(), &zero_crc[17..21]), (73, &[0; 4][..]));
    let fixture = Fixture::new();
    fixture.put(LOG, &[three(), moved(&zero_crc, 9), moved(&one(), 10)].concat());
    let segment = fixture.open(0);
    assert_eq!(recover(&segment).stop, None);
    assert_eq!(ranges(&segment), [(0, 2), (3, 5), (6, 8), (9, 9), (10, 10)]);
}

#[test]
fn a_recovered_segment_goes_on() {
    let fixture = Fixture::new();
    fixture.put(LOG, &[three(), vec![1; 30]].concat());
    let segment = fixture.open(0);
    recover(&segment);
    let mut active = ActiveSegment::reopen(segment, every_batch(), birth()).unwrap();
    active.append(&moved(&one(), 9)).unwrap();
    let segment = active.seal().unwrap();
    assert_eq!(ranges(&segment).last(), Some(&(9, 9)));
}
