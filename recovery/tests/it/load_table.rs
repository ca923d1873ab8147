//! Start states that were run against Kafka 4.4.0, and what it made of them.
//!
//! Four segments of three batches of 172 bytes, base offsets 0, 3, 6 and 9, log end 12, or one
//! segment of six such batches. Where a field report asks for another outcome than Kafka's, the
//! test says so.

use alluvium_record_format::{
    BatchBuilder, BatchSettings, LeaderEpoch, Offset, SimpleRecord, Timestamp,
};
use alluvium_recovery::{LoadConfig, Warning};

use crate::directory::Disk;
use crate::logs::{NOW, batches, clean, epochs, segments, snapshots, unclean};

/// One record in 172 bytes.
fn batch(offset: i64) -> Vec<u8> {
    let settings = BatchSettings::new(Offset::new(offset)).leader_epoch(LeaderEpoch::new(0));
    let mut builder = BatchBuilder::new(settings);
    let value = [b'v'; 101];
    let record = SimpleRecord::new().timestamp(NOW).key(b"k").value(&value);
    builder.append(&record).unwrap();
    let bytes = builder.finish().unwrap().to_vec();
    assert_eq!(bytes.len(), 172);
    bytes
}

fn range(offsets: std::ops::Range<i64>) -> Vec<u8> {
    offsets.flat_map(batch).collect()
}

/// The index of a segment of three batches at 172 bytes each, all but the first indexed.
const INDEX: [u8; 16] = [0, 0, 0, 1, 0, 0, 0, 172, 0, 0, 0, 2, 0, 0, 1, 88];

fn four_segments() -> Disk {
    let disk = Disk::new();
    for base in [0, 3, 6, 9] {
        disk.segment_with_indexes(base, &range(base..base + 3));
        disk.write(&format!("{base:020}.index"), &INDEX);
    }
    for base in [3, 6, 9, 12] {
        disk.write(&format!("{base:020}.snapshot"), &alluvium_recovery::encode_snapshot([]));
    }
    disk.write("leader-epoch-checkpoint", b"0\n1\n0 0\n");
    disk
}

fn one_segment(tail: &[u8]) -> Disk {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &[&range(0..6), tail].concat());
    disk
}

#[test]
fn zeros_behind_the_last_batch_are_cut_after_an_unclean_stop() {
    for zeros in [10, 17, 18, 500] {
        let disk = one_segment(&vec![0; zeros]);
        let log = disk.load(&unclean());
        assert_eq!(segments(&log), [(0, 1032)], "{zeros} zeros");
        assert_eq!((log.log_end_offset.get(), log.recovery_point.get()), (6, 0));
    }
}

/// FR-063: Kafka throws for 500 zeros, and leaves 10 in the file to append behind them.
#[test]
fn zeros_behind_the_last_batch_are_cut_after_a_clean_stop_too() {
    for zeros in [10, 17, 18, 500] {
        let disk = one_segment(&vec![0; zeros]);
        let log = disk.load(&clean(6));
        assert_eq!(segments(&log), [(0, 1032)], "{zeros} zeros");
        assert_eq!((log.log_end_offset.get(), log.recovery_point.get()), (6, 6));
    }
}

#[test]
fn a_flipped_byte_cuts_the_log_at_its_batch() {
    let mut bytes = range(0..6);
    bytes[3 * 172 + 100] ^= 1;
    let disk = Disk::new();
    disk.segment(0, &bytes);
    let log = disk.load(&unclean());
    assert_eq!(segments(&log), [(0, 516)]);
    assert_eq!(log.log_end_offset.get(), 3);
}

/// FR-067: Kafka accepts any magic in a file, which its consumers then refuse.
#[test]
fn a_changed_magic_cuts_the_log_at_its_batch() {
    let mut bytes = range(0..6);
    bytes[3 * 172 + 16] = 5;
    let disk = Disk::new();
    disk.segment(0, &bytes);
    let log = disk.load(&unclean());
    assert_eq!(segments(&log), [(0, 516)]);
}

#[test]
fn an_entry_that_is_too_short_for_a_batch_is_cut() {
    let mut entry = vec![0; 32];
    entry[7] = 6;
    entry[11] = 20;
    entry[16] = 2;
    for tail in [entry.clone(), [entry, vec![0; 300]].concat()] {
        let disk = one_segment(&tail);
        let log = disk.load(&unclean());
        assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 1032)], 6));
    }
}

/// Kafka empties the segment.
#[test]
fn offsets_that_fall_back_below_the_index_are_cut_there() {
    let disk = one_segment(&batch(0).repeat(4));
    let config = unclean();
    let log = disk.load(&config);
    assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 1032)], 6));
}

#[test]
fn a_missing_offset_index_is_rebuilt_after_a_clean_stop() {
    let disk = four_segments();
    for base in [3, 9] {
        std::fs::remove_file(disk.path().join(format!("{base:020}.index"))).unwrap();
    }
    let log = disk.load(&clean(12));
    assert_eq!(log.log_end_offset.get(), 12);
    let files = disk.files();
    for base in [3, 9] {
        assert_eq!(files[&format!("{base:020}.index")], INDEX);
    }
    assert_eq!(segments(&log).len(), 4);
}

#[test]
fn a_missing_time_index_is_no_reason_to_read_the_log() {
    let disk = four_segments();
    std::fs::remove_file(disk.path().join("00000000000000000003.timeindex")).unwrap();
    let log = disk.load(&clean(12));
    assert_eq!((log.log_end_offset.get(), log.report.scanned_bytes()), (12, 0));
}

#[test]
fn cleaned_files_go() {
    let disk = four_segments();
    disk.write("00000000000000000000.log.cleaned", &range(0..2));
    disk.write("00000000000000000000.index.cleaned", b"");
    let log = disk.load(&unclean());
    assert_eq!(segments(&log), [(0, 516), (3, 516), (6, 516), (9, 516)]);
    assert!(disk.names().iter().all(|name| !name.ends_with(".cleaned")));
}

#[test]
fn a_swap_takes_the_place_of_the_segments_that_it_covers() {
    let disk = four_segments();
    disk.write("00000000000000000000.log.swap", &range(0..6));
    let log = disk.load(&clean(12));
    assert_eq!(segments(&log), [(0, 1032), (6, 516), (9, 516)]);
    assert_eq!(snapshots(&log), [6, 9, 12]);
    assert_eq!(batches(&log).len(), 12);
}

#[test]
fn a_swap_whose_index_is_still_cleaned_goes_and_the_originals_stay() {
    let disk = four_segments();
    disk.write("00000000000000000003.log.swap", &range(3..5));
    disk.write("00000000000000000003.index.cleaned", b"");
    let log = disk.load(&clean(12));
    assert_eq!(segments(&log), [(0, 516), (3, 516), (6, 516), (9, 516)]);
    assert!(disk.names().iter().all(|name| !name.contains(".swap")));
}

#[test]
fn a_swap_above_a_cleaned_file_goes_and_the_originals_stay() {
    let disk = four_segments();
    disk.write("00000000000000000000.log.cleaned", &range(0..2));
    disk.write("00000000000000000003.log.swap", &range(3..5));
    let log = disk.load(&unclean());
    assert_eq!(segments(&log), [(0, 516), (3, 516), (6, 516), (9, 516)]);
}

#[test]
fn an_index_swap_alone_is_renamed_and_nothing_goes() {
    let disk = four_segments();
    std::fs::remove_file(disk.path().join("00000000000000000003.index")).unwrap();
    disk.write("00000000000000000003.index.swap", &INDEX);
    let log = disk.load(&clean(12));
    assert_eq!(segments(&log).len(), 4);
    assert_eq!(disk.files()["00000000000000000003.index"], INDEX);
    assert_eq!(snapshots(&log), [3, 6, 9, 12]);
}

#[test]
fn an_index_without_log_and_a_deleted_log_go() {
    let disk = four_segments();
    disk.write("00000000000000000001.index", b"");
    disk.write("00000000000000000000.log.deleted", b"");
    let log = disk.load(&clean(12));
    assert!(!disk.has("00000000000000000001.index"));
    assert!(!disk.has("00000000000000000000.log.deleted"));
    assert_eq!(segments(&log).len(), 4);
}

/// FR-074.
#[test]
fn a_log_start_beyond_the_end_leaves_one_empty_segment_there() {
    for clean_stop in [true, false] {
        let disk = four_segments();
        let config = if clean_stop { clean(12) } else { unclean() };
        let log = disk.load(&config.log_start_offset(Offset::new(50)));
        assert_eq!(segments(&log), [(50, 0)]);
        let offsets = [log.log_start_offset, log.log_end_offset, log.recovery_point];
        assert_eq!(offsets, [Offset::new(50); 3]);
        assert_eq!(snapshots(&log), if clean_stop { vec![50] } else { vec![] });
        assert_eq!(epochs(&log), []);
        assert_eq!(log.producers.producers().len(), 0);
        // The data stays until the delay for files has passed.
        for base in [0, 3, 6, 9] {
            assert!(disk.has(&format!("{base:020}.log.deleted")), "{base}");
        }
        assert_eq!(log.deleted.len(), 12);
    }
}

#[test]
fn damage_in_the_middle_takes_all_later_segments_with_it() {
    let disk = four_segments();
    let mut bytes = range(3..6);
    bytes[172 + 100] ^= 1;
    disk.segment(3, &bytes);
    let log = disk.load(&unclean());
    assert_eq!(segments(&log), [(0, 516), (3, 172)]);
    assert_eq!((log.log_end_offset.get(), snapshots(&log)), (4, vec![3, 4]));
    for base in [6, 9] {
        assert!(disk.has(&format!("{base:020}.log.deleted")), "{base}");
    }
}

/// FR-079: below the recovery point nothing is read.
#[test]
fn damage_below_the_recovery_point_is_left_alone() {
    let disk = four_segments();
    let mut bytes = range(3..6);
    bytes[172 + 100] ^= 1;
    disk.segment(3, &bytes);
    let log = disk.load(&unclean().recovery_point(Offset::new(6)));
    assert_eq!(segments(&log), [(0, 516), (3, 516), (6, 516), (9, 516)]);
    assert_eq!(log.log_end_offset.get(), 12);
    let scanned: Vec<_> = log.report.recovered.iter().map(|it| it.base_offset.get()).collect();
    assert_eq!(scanned, [6, 9]);
}

/// Kafka cuts such a segment, and leaves a hole before the next one.
#[test]
fn damage_in_a_sealed_segment_without_index_is_reported_and_kept() {
    let disk = four_segments();
    let mut bytes = range(3..6);
    bytes[172 + 100] ^= 1;
    disk.segment(3, &bytes);
    std::fs::remove_file(disk.path().join("00000000000000000003.index")).unwrap();
    let log = disk.load(&clean(12));
    assert_eq!(segments(&log), [(0, 516), (3, 516), (6, 516), (9, 516)]);
    assert_eq!(disk.files()["00000000000000000003.index"], INDEX);
    let kept = |warning: &Warning| matches!(warning, Warning::DamageKept { base_offset, .. } if base_offset.get() == 3);
    assert!(log.report.warnings.iter().any(kept), "{:?}", log.report.warnings);
}

#[test]
fn an_empty_directory_becomes_a_log_of_one_empty_segment() {
    for config in [clean(0), unclean(), LoadConfig::new(Timestamp::new(0))] {
        let disk = Disk::new();
        let log = disk.load(&config);
        assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 0)], 0));
        assert_eq!((log.log_start_offset.get(), log.recovery_point.get()), (0, 0));
    }
    let disk = Disk::new();
    let log = disk.load(&unclean().log_start_offset(Offset::new(7)));
    assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(7, 0)], 7));
}

#[test]
fn a_load_of_a_sound_directory_changes_nothing() {
    for config in [clean(12), unclean()] {
        let disk = four_segments();
        disk.load(&config);
        let before = disk.files();
        let log = disk.load(&config);
        assert_eq!(log.report.steps, [], "after the first load everything is in order");
        assert_eq!(disk.files(), before);
    }
}
