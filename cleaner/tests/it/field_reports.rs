//! Faults from the field.

use std::fs;

use alluvium_cleaner::{ActiveProducers, CleanError, CleanHost, Cleaner, CleanerConfig, Progress};
use alluvium_record_format::{
    BatchBuilder, BatchSettings, Codec, CorruptKind, Offset, ProducerEpoch, ProducerId,
    SimpleRecord, TxnOutcome::Abort,
};
use alluvium_segment::SegmentError;
use alluvium_segment::replace::Replacement;

use crate::support::{
    Fixture, aborted, batch, batch_of, config, idempotent, marker, offsets, options, transactional,
};

/// 64 MiB of zeros in about two kilobytes.
fn bomb() -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)).codec(Codec::Zstd));
    let value = vec![0; 64 << 20];
    builder.append(&SimpleRecord::new().key(b"k").value(&value)).unwrap();
    builder.finish().unwrap().to_vec()
}

/// FR-018: the ceiling holds for each record, and one below it is cleaned.
#[test]
fn a_record_above_the_ceiling_ends_the_cleaning_and_one_below_is_kept() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[bomb()]);
    fixture.sealed(1, &[]);
    let before = fixture.files();
    let error = fixture.clean(&options(0, 1).max_record_bytes(1 << 20)).unwrap_err();
    let CleanError::Corrupt { source, .. } = error else { panic!("{error:?}") };
    assert!(matches!(source.kind(), CorruptKind::RecordTooLarge { max: 1_048_576, .. }));
    assert_eq!(fixture.files(), before);
    let report = fixture.clean(&options(0, 1).max_record_bytes(80 << 20)).unwrap();
    assert_eq!(report.counts.records_written, 1);
}

/// FR-047, case 3.
#[test]
fn a_cleaned_file_has_no_zero_tail_where_segments_are_preallocated() {
    let fixture = Fixture::new();
    let kept = batch(0, &[("a", Some("1"))]);
    fixture.sealed(0, std::slice::from_ref(&kept));
    fixture.sealed(1, &[]);
    let preallocated = config().preallocate_bytes(Some(1 << 20));
    fixture.clean(&options(0, 1).segment(preallocated)).unwrap();
    assert_eq!(fixture.files()["00000000000000000000.log"], kept);
}

/// FR-069: what an interrupted cleaning left does not get into the next one.
#[test]
fn leftovers_of_an_earlier_cleaning_are_replaced() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(0, &[("a", Some("1"))])]);
    fixture.sealed(1, &[]);
    for kind in ["log", "index", "timeindex", "txnindex"] {
        let name = format!("{:020}.{kind}.cleaned", 0);
        fs::write(fixture.dir.path().join(name), [7; 100]).unwrap();
    }
    fixture.clean(&options(0, 1)).unwrap();
    assert_eq!(offsets(&fixture.records()), [0]);
    assert!(fixture.names().iter().all(|name| !name.contains("cleaned")), "{:?}", fixture.names());
    assert!(!fixture.names().contains(&"00000000000000000000.txnindex".into()));
}

/// FR-075: offsets that do not fit into one segment.
#[test]
fn a_segment_whose_offsets_overflow_splits_and_cleans() {
    let fixture = Fixture::new();
    let far = i64::from(i32::MAX) + 1;
    let log = [
        batch(0, &[("a", Some("1")), ("b", Some("2"))]),
        batch(far, &[("a", Some("3"))]),
        batch(far + 1, &[("c", Some("4"))]),
    ];
    fixture.sealed(0, &[]);
    fs::write(fixture.dir.path().join("00000000000000000000.log"), log.concat()).unwrap();
    fixture.sealed(far + 2, &[]);
    fixture.clean(&options(0, far + 2)).unwrap();
    assert_eq!(fixture.bases(), [0, far, far + 2]);
    assert_eq!(offsets(&fixture.records()), [1, far, far + 1]);
}

/// FR-075: not even the first batch fits.
#[test]
fn a_segment_whose_first_batch_overflows_moves_to_that_batch() {
    let fixture = Fixture::new();
    let far = i64::from(i32::MAX) + 1;
    fixture.sealed(0, &[]);
    let log = batch(far, &[("a", Some("3"))]);
    fs::write(fixture.dir.path().join("00000000000000000000.log"), log).unwrap();
    fixture.sealed(far + 1, &[]);
    fixture.clean(&options(0, far + 1)).unwrap();
    assert_eq!(fixture.bases(), [far, far + 1]);
    assert_eq!(offsets(&fixture.records()), [far]);
}

/// FR-079.
#[test]
fn damage_in_sealed_data_ends_the_cleaning_and_keeps_the_files() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(0, &[("a", Some("1"))]), batch(1, &[("a", Some("2"))])]);
    fixture.sealed(2, &[batch(2, &[("a", Some("3"))])]);
    fixture.sealed(3, &[]);
    let path = fixture.dir.path().join("00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 2;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let before = fixture.files();
    // In the dirty part, and before it.
    for first_dirty in [0, 2] {
        let error = fixture.clean(&options(first_dirty, 3)).unwrap_err();
        assert!(error.is_corruption(), "{error:?}");
        let CleanError::Segment { source: SegmentError::Corrupt { source, .. }, .. } = error else {
            panic!("{error:?}")
        };
        assert!(matches!(source.kind(), CorruptKind::Crc { .. }));
        assert_eq!(fixture.files(), before);
    }
}

/// FR-079: no checksum covers the base offset.
#[test]
fn offsets_that_fall_or_leave_the_segment_end_the_cleaning() {
    for (at, bit) in [(0, 0x40), (7, 0x08)] {
        let fixture = Fixture::new();
        fixture.sealed(0, &[batch(0, &[("a", Some("1"))]), batch(1, &[("b", Some("2"))])]);
        fixture.sealed(2, &[]);
        let path = fixture.dir.path().join("00000000000000000000.log");
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= bit;
        fs::write(&path, bytes).unwrap();
        let before = fixture.files();
        let error = fixture.clean(&options(0, 2)).unwrap_err();
        assert!(error.is_corruption(), "{error:?}");
        assert_eq!(fixture.files(), before);
    }
}

/// FR-090.
#[test]
fn a_producer_that_always_begins_at_sequence_0_leaves_one_batch() {
    let fixture = Fixture::new();
    let one = |offset: i64| {
        let epoch = i16::try_from(offset / 10).unwrap();
        idempotent(offset, 9, (epoch, 0), &[("k", Some("v"))])
    };
    fixture.sealed(0, &(0..100).map(one).collect::<Vec<_>>());
    fixture.sealed(100, &[]);
    let mut producers = ActiveProducers::default();
    producers.insert(ProducerId::new(9), ProducerEpoch::new(9), Some(Offset::new(99)));
    for _ in 0..2 {
        fixture.clean(&options(0, 100).active_producers(producers.clone())).unwrap();
        assert_eq!(fixture.batches(), [(99, 99, 1)]);
    }
    // Superseded by another producer: an empty batch until this one expires.
    fs::remove_file(fixture.dir.path().join(format!("{:020}.log", 100))).unwrap();
    fixture.sealed(100, &[idempotent(100, 10, (0, 0), &[("k", Some("w"))])]);
    fixture.sealed(101, &[]);
    for _ in 0..2 {
        fixture.clean(&options(0, 101).active_producers(producers.clone())).unwrap();
        assert_eq!(fixture.batches(), [(99, 99, 0), (100, 100, 1)]);
    }
    fixture.clean(&options(0, 101)).unwrap();
    assert_eq!(fixture.batches(), [(100, 100, 1)]);
}

/// FR-091: data and marker in groups of their own.
#[test]
fn a_marker_stays_while_data_in_another_group_is_left() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[transactional(0, 5, &[("a", Some("no"))])]);
    fixture.sealed(1, &[batch(1, &[("b", Some("1"))])]);
    let third = fixture.sealed(2, &[marker(2, 5, Abort)]);
    third.append_aborted(aborted(5, 0, 2, 3)).unwrap();
    drop(third);
    fixture.sealed(3, &[]);
    let before = fixture.committed();
    fixture.clean(&options(0, 3).segment_bytes(1)).unwrap();
    assert_eq!(fixture.bases(), [0, 1, 2, 3]);
    assert_eq!(offsets(&fixture.records()), [1, 2]);
    assert_eq!(fixture.segments()[2].aborted().unwrap(), [aborted(5, 0, 2, 3)]);
    assert_eq!(fixture.committed(), before);
}

/// FR-091: the map is full in the middle of a segment with an aborted transaction behind.
#[test]
fn aborted_data_beyond_a_full_map_does_not_turn_committed() {
    let fixture = Fixture::new();
    let first = fixture.sealed(
        0,
        &[
            batch(0, &[("k1", Some("1")), ("k2", Some("1")), ("k3", Some("1"))]),
            transactional(3, 5, &[("k4", Some("no")), ("k5", Some("no"))]),
            marker(5, 5, Abort),
        ],
    );
    first.append_aborted(aborted(5, 3, 5, 6)).unwrap();
    drop(first);
    fixture.sealed(6, &[]);
    let before = fixture.committed();
    let memory = CleanerConfig::new().map_bytes(48).load_factor(1.0);
    let report = fixture.clean_with(memory, &options(0, 6)).unwrap();
    assert_eq!(report.next_dirty_offset, Offset::new(2));
    assert_eq!(fixture.committed(), before);
    assert_eq!(fixture.segments()[0].aborted().unwrap(), [aborted(5, 3, 5, 6)]);
    fixture.clean_with(memory, &options(2, 6)).unwrap();
    assert_eq!(fixture.committed(), before);
}

/// FR-093.
#[test]
fn groups_stay_within_reach_of_their_base_and_empty_segments_vanish() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(0, &[("a", Some("1"))])]);
    fixture.sealed(2_147_483_647, &[]);
    fixture.sealed(2_147_483_700, &[batch(2_147_483_700, &[("b", Some("1"))])]);
    fixture.sealed(4_294_967_400, &[]);
    fixture.sealed(4_294_967_500, &[]);
    let report = fixture.clean(&options(0, 4_294_967_500)).unwrap();
    let groups: Vec<Vec<_>> = report
        .groups
        .iter()
        .map(|group| group.segments.iter().map(|old| old.base_offset.get()).collect())
        .collect();
    assert_eq!(groups, [[0, 2_147_483_647], [2_147_483_700, 4_294_967_400]]);
    assert_eq!(fixture.bases(), [0, 2_147_483_700, 4_294_967_500]);
}

/// FR-094: nothing is compressed again that loses no record, so nothing grows.
#[test]
fn batches_without_duplicates_keep_their_compressed_bytes() {
    let fixture = Fixture::new();
    let mut state = 1_u64;
    let mut noise = |len: usize| -> String {
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
        };
        (0..len).map(next).collect()
    };
    let packed = |offset: i64, key: &str, value: &str| {
        let settings = BatchSettings::new(Offset::new(offset)).codec(Codec::Gzip).level(Some(9));
        batch_of(settings, &[(key, Some(value))])
    };
    let mut batches: Vec<_> =
        (0..11).map(|offset| packed(offset, &format!("k{offset}"), &noise(7000))).collect();
    let kept = batches.concat();
    assert!((60 << 10..64 << 10).contains(&kept.len()), "{}", kept.len());
    batches.push(transactional(11, 5, &[("k1", Some("no"))]));
    batches.push(marker(12, 5, Abort));
    let first = fixture.sealed(0, &batches);
    first.append_aborted(aborted(5, 11, 12, 13)).unwrap();
    drop(first);
    fixture.sealed(13, &[]);
    let before = fixture.committed();
    fixture.clean(&options(0, 13).segment_bytes(64 << 10)).unwrap();
    let log = &fixture.files()["00000000000000000000.log"];
    assert_eq!(log[..kept.len()], kept);
    assert_eq!(fixture.committed(), before);
    assert_eq!(offsets(&fixture.records()), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]);
}

/// FR-096.
#[test]
fn the_end_offset_survives_a_cleaning_that_drops_the_last_records() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(0, &[("a", Some("1"))])]);
    fixture.sealed(1, &[batch(1, &[("a", None)])]);
    let pairs: Vec<_> = (0..15).map(|_| ("a", None)).collect();
    fixture.sealed(2, &[batch(2, &pairs)]);
    fixture.sealed(17, &[]);
    let end = Offset::new(17);
    fixture.clean(&options(0, 17).high_watermark(end)).unwrap();
    let later = crate::support::options_at(0, 17, crate::support::NOW + 60_000);
    fixture.clean(&later.high_watermark(end)).unwrap();
    assert_eq!(fixture.batches(), [(2, 16, 0)]);
    fs::remove_file(fixture.dir.path().join(format!("{:020}.log", 17))).unwrap();
    assert_eq!(fixture.segments().last().unwrap().next_offset().unwrap(), end);
}

/// FR-096: the last batch is known by its range, and not by the records that are left.
#[test]
fn a_last_batch_with_a_record_in_its_middle_keeps_its_range() {
    let fixture = Fixture::new();
    let keys: Vec<_> = (0..15).map(|n| if n == 5 { "only" } else { "a" }).collect();
    let pairs: Vec<_> = keys.iter().map(|key| (*key, Some("1"))).collect();
    fixture.sealed(15, &[batch(15, &pairs)]);
    fixture.sealed(30, &[batch(30, &[("a", Some("2"))])]);
    fixture.sealed(31, &[]);
    fixture.clean(&options(15, 31).high_watermark(Offset::new(30))).unwrap();
    assert_eq!(fixture.batches(), [(15, 29, 1), (30, 30, 1)]);
}

/// FR-097: nothing at or above the first uncleanable offset counts; an empty range is no work.
#[test]
fn records_above_the_range_replace_nothing() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(5, &[("k", Some("committed"))])]);
    fixture.sealed(10, &[batch(15, &[("k", Some("not yet"))])]);
    fixture.sealed(20, &[]);
    fixture.clean(&options(0, 10)).unwrap();
    assert_eq!(offsets(&fixture.records()), [5, 15]);
    for (first_dirty, first_uncleanable) in [(25, 20), (22, 20), (20, 20), (15, 15)] {
        let before = fixture.files();
        let report = fixture.clean(&options(first_dirty, first_uncleanable)).unwrap();
        assert_eq!(report.next_dirty_offset, Offset::new(first_dirty));
        assert!(report.groups.is_empty());
        assert_eq!(fixture.files(), before);
    }
}

/// Stops at the first report of progress that comes after a write.
struct Stopping(u32);

impl CleanHost for Stopping {
    fn progress(&mut self, _progress: Progress) -> Result<(), CleanError> {
        self.0 = self.0.checked_sub(1).ok_or(CleanError::Stopped)?;
        Ok(())
    }

    fn replace(&mut self, _replacement: Replacement) -> Result<(), CleanError> {
        panic!("it was stopped before")
    }
}

/// FR-099: a log that is deleted or no longer compacted ends the cleaning within a chunk.
#[test]
fn a_stopped_cleaning_removes_what_it_wrote() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(0, &[("a", Some("1"))]), batch(1, &[("a", Some("2"))])]);
    fixture.sealed(2, &[]);
    let before = fixture.files();
    for reports in 0..2 {
        let mut cleaner = Cleaner::new(CleanerConfig::new().map_bytes(1024));
        let stopped = cleaner.clean(&fixture.segments(), &options(0, 2), &mut Stopping(reports));
        assert!(matches!(stopped, Err(CleanError::Stopped)));
        assert_eq!(fixture.files(), before);
    }
}
