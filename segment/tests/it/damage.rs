//! Damaged files: nothing panics, nothing hangs, and memory stays within bounds.

use std::fs::File;
use std::ops::ControlFlow;

use alluvium_record_format::{CorruptKind, Offset, Position, Timestamp};
use alluvium_segment::{
    ActiveSegment, BatchWalker, FilePool, PartitionDir, ScanStop, Segment, SegmentConfig,
    SegmentError,
};

use crate::heap::peak_of;
use crate::support::{Fixture, birth, every_batch, hex, three};

const LOG: &str = "00000000000000000000.log";
const INDEX: &str = "00000000000000000000.index";

/// Uses a segment in every way and shrugs at errors.
fn use_all(segment: &Segment) {
    let _ = segment.tail();
    let _ = segment.max_timestamp();
    for raw in -1..11 {
        let offset = Offset::new(raw);
        let end = Some(Position::new(segment.size_bytes()));
        if let Ok(Some(slice)) = segment.read(offset, 100, end, raw % 2 == 0) {
            slice.read_to(&mut Vec::new()).unwrap();
        }
        let _ = segment.find_by_timestamp(Timestamp::new(998 + raw), offset, 1000);
    }
    let _ = segment.find_largest_timestamp(1000);
    let _ = segment.collect_aborted(Offset::new(0), Offset::new(9));
    let _ = segment.scan(&mut |_| ControlFlow::Continue(()));
}

/// Any byte of a small segment changed, and any prefix of it: reads and recovery come to an end,
/// and what recovery keeps is a prefix of the old batches or the byte is outside the checksum.
#[test]
fn any_changed_byte_and_any_cut_is_survived() {
    let log = three();
    let changes = (0..log.len()).flat_map(|byte| {
        [1 << (byte % 8), 0xff].map(|mask| {
            let mut changed = three();
            changed[byte] ^= mask;
            (changed, Some(byte))
        })
    });
    let cuts = (0..log.len()).map(|len| (log[..len].to_vec(), None));
    let fixture = Fixture::new();
    for (damaged, byte) in changes.chain(cuts) {
        fixture.put(LOG, &damaged);
        for end in ["index", "timeindex"] {
            fixture.put(&format!("00000000000000000000.{end}"), b"");
        }
        let segment = fixture.open(0);
        use_all(&segment);
        let scan = segment.recover(&mut |_| ControlFlow::Continue(())).unwrap();
        if matches!(scan.stop, Some(ScanStop::OffsetOverflow(_))) {
            // To be split, not to be cut.
            assert!(byte.is_some_and(|byte| byte % 118 < 8));
            continue;
        }
        let kept = fixture.bytes(LOG);
        assert_eq!(kept.len() as u64, u64::from(scan.valid_bytes));
        let unprotected = byte.is_some_and(|byte| UNPROTECTED.contains(&(byte % 118)));
        assert!(unprotected || log.starts_with(&kept), "{byte:?}");
        use_all(&segment);
        if let Ok(mut active) = ActiveSegment::reopen(segment, every_batch(), birth()) {
            let _ = active.truncate_to(Offset::new(4), Timestamp::new(0));
        }
    }
}

/// Bytes of a batch that neither its checksum nor its shape protects: the base offset and the
/// leader epoch.
const UNPROTECTED: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15];

/// Any bytes as an index: every offset is found all the same.
#[test]
fn any_bytes_as_an_index_leave_every_offset_readable() {
    let mut state = 12345_u64;
    for round in 0..300 {
        let len = round % 50;
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                u8::try_from(state >> 33 & 0x07).unwrap()
            })
            .collect();
        let fixture = Fixture::new();
        fixture.put(LOG, &three());
        fixture.put(INDEX, &bytes);
        let segment = fixture.open(0);
        for offset in 0..9 {
            let found = crate::support::base_at(&segment, offset);
            assert_eq!(found, Some(offset / 3 * 3), "{bytes:?}");
        }
        assert_eq!(segment.next_offset().unwrap(), Offset::new(9), "{bytes:?}");
    }
}

/// A length field that claims most of a sparse file costs a block of memory.
#[test]
fn a_length_that_lies_costs_no_memory() {
    for magic in [0_u8, 1, 2] {
        let fixture = Fixture::new();
        let mut log = three()[..118].to_vec();
        let mut giant = three()[118..].to_vec();
        giant[8..12].copy_from_slice(&200_000_000_i32.to_be_bytes());
        giant[16] = magic;
        if magic != 2 {
            log.clear();
        }
        log.extend_from_slice(&giant);
        fixture.put(LOG, &log);
        File::options()
            .write(true)
            .open(fixture.path(LOG))
            .and_then(|file| file.set_len(1 << 28))
            .unwrap();
        let (peak, ()) = peak_of(|| {
            let mut walker = BatchWalker::open(&fixture.path(LOG)).unwrap();
            let damage = loop {
                match walker.next_entry() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{:?}", walker.tail()),
                    Err(SegmentError::Corrupt { source, .. }) => break source.kind(),
                    Err(error) => panic!("{error}"),
                }
            };
            let expected =
                matches!(damage, CorruptKind::Crc { .. } | CorruptKind::BatchTooLarge { .. });
            assert!(expected, "{damage}");
            let segment = fixture.open(0);
            let _ = segment.find_by_timestamp(Timestamp::new(1007), Offset::new(3), 1000);
            segment.recover(&mut |_| ControlFlow::Continue(())).unwrap();
        });
        assert!(peak < 2 << 20, "{peak} bytes for magic {magic}");
    }
}

/// An index of a directory that is not ours may have any length: what is read is bounded by the
/// log.
#[test]
fn a_giant_index_beside_a_small_log_costs_no_memory() {
    let fixture = Fixture::new();
    fixture.put(LOG, &three());
    for end in ["index", "timeindex"] {
        let file = File::create(fixture.path(&format!("00000000000000000000.{end}"))).unwrap();
        file.set_len(1 << 40).unwrap();
    }
    let dir = PartitionDir::read_only(&fixture.dir.path(), &FilePool::new(1));
    let segment = Segment::open(&dir, Offset::new(0), SegmentConfig::new()).unwrap();
    let (peak, ()) = peak_of(|| use_all(&segment));
    assert!(peak < 2 << 20, "{peak} bytes");
    assert_eq!(segment.next_offset().unwrap(), Offset::new(9));
}

/// The same in a directory that is ours: the index is made again.
#[test]
fn a_giant_index_of_ours_is_made_again() {
    let fixture = Fixture::new();
    fixture.put(LOG, &three());
    let file = File::create(fixture.path(INDEX)).unwrap();
    file.set_len(1 << 40).unwrap();
    let segment = fixture.open(0);
    assert_eq!(crate::support::base_at(&segment, 8), Some(6));
    assert_eq!(fixture.bytes(INDEX), hex("00000005 00000076 | 00000008 000000ec"));
}

#[test]
fn a_log_above_two_gigabytes_is_not_opened() {
    let fixture = Fixture::new();
    let file = File::create(fixture.path(LOG)).unwrap();
    file.set_len(1 << 31).unwrap();
    let result = Segment::open(&fixture.dir, Offset::new(0), every_batch());
    assert!(matches!(result, Err(SegmentError::TooLarge { .. })));
    file.set_len((1 << 31) - 1).unwrap();
    let segment = fixture.open(0);
    assert_eq!(segment.tail().unwrap().end, Position::new(0));
}

/// FR-071: a directory with the name of a file is an error for this segment alone.
#[test]
fn a_directory_in_the_place_of_a_file_is_an_error() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("00000000000000000003.log")).unwrap();
    let result = Segment::open(&fixture.dir, Offset::new(3), every_batch());
    assert!(matches!(result, Err(SegmentError::Io { .. })));
    fixture.put(LOG, &three());
    std::fs::create_dir(fixture.path(INDEX)).unwrap();
    let segment = fixture.open(0);
    let end = Some(Position::new(354));
    let result = segment.read(Offset::new(3), 100, end, true);
    assert!(matches!(result, Err(SegmentError::Index { .. })), "{result:?}");
}
