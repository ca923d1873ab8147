//! Headers of the active segment that say what cannot be, after a clean stop and after a crash.

use alluvium_record_format::Offset;
use alluvium_recovery::{LoadConfig, Reason, Warning};
use alluvium_segment::SegmentConfig;

use crate::directory::Disk;
use crate::logs::{
    HEX_A, append_and_read, at_offset, batches, bytes, clean, l3, segments, unclean,
};

/// A base offset that does not fit into segment 0.
const FAR: i64 = 3_000_000_000;

/// A batch whose header ends before it begins, under a checksum that does not match any more.
fn backwards(base_offset: i64) -> Vec<u8> {
    let mut batch = at_offset(l3(0), base_offset);
    batch[23..27].fill(0xff);
    batch
}

/// A batch with one bit of its last value flipped.
fn flipped(base_offset: i64) -> Vec<u8> {
    let mut batch = at_offset(l3(0), base_offset);
    batch[110] ^= 1;
    batch
}

/// An index entry every 4,096 bytes, as is the default: none in these logs.
fn sparse(config: LoadConfig) -> LoadConfig {
    config.segment(SegmentConfig::new().max_index_bytes(1024))
}

#[test]
fn a_log_of_one_batch_that_cannot_be_becomes_an_empty_segment_of_the_same_name() {
    for base in [0, 7] {
        for batch in [backwards(FAR), flipped(FAR), backwards(i64::MAX - 1), flipped(i64::MAX - 9)]
        {
            for config in [clean(base), unclean()] {
                let disk = Disk::new();
                disk.segment_with_indexes(base, &batch);
                let log = disk.load(&config);
                assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(base, 0)], base));
                assert!(disk.names().iter().all(|name| !name.contains("0000000003000000000")));
                drop(log);
                let appended = append_and_read(&disk, &clean(base));
                assert_eq!(appended, [(base, base)]);
            }
        }
    }
}

#[test]
fn a_last_batch_with_an_offset_and_a_checksum_that_are_wrong_is_cut_and_not_split_off() {
    for batch in [backwards(FAR), flipped(FAR)] {
        for config in [clean(6), unclean()] {
            let disk = Disk::new();
            disk.segment_with_indexes(0, &[l3(0), l3(1), batch.clone()].concat());
            let log = disk.load(&config);
            assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 236)], 6));
            assert_eq!(disk.files()["00000000000000000000.index"].len(), 8);
            drop(log);
            assert_eq!(append_and_read(&disk, &clean(6)), [(0, 2), (3, 5), (6, 6)]);
        }
    }
}

#[test]
fn a_part_of_a_split_takes_no_other_segments_place() {
    let wide = [l3(0), at_offset(l3(1), FAR)].concat();
    let next = at_offset(l3(2), FAR);
    for config in [clean(FAR + 3), unclean().recovery_point(Offset::new(FAR))] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &wide);
        disk.segment_with_indexes(FAR, &next);
        let log = disk.load(&config);
        assert_eq!(segments(&log), [(0, 236), (FAR, 118)]);
        assert_eq!(disk.files()["00000000003000000000.log"], next);
        let kept = |it: &Warning| matches!(it, Warning::DamageKept { base_offset, .. } if base_offset.get() == 0);
        assert!(log.report.warnings.iter().any(kept));
    }
}

/// The checksum does not cover the base offset, and the indexes know only some of the batches.
#[test]
fn the_log_end_never_falls_behind_a_batch_that_is_there() {
    for tail in [vec![], bytes(HEX_A)] {
        for falling in [l3(0), at_offset(l3(2), 1), at_offset(l3(2), 3)] {
            let log = [l3(0), l3(1), falling, tail.clone()].concat();
            for config in [clean(6), unclean(), sparse(clean(6)), sparse(unclean())] {
                let disk = Disk::new();
                disk.segment_with_indexes(0, &log);
                let loaded = disk.load(&config);
                let end = loaded.log_end_offset.get();
                assert_eq!((segments(&loaded), end), (vec![(0, 236)], 6));
                assert_eq!(batches(&loaded), [(0, 2), (3, 5)]);
                let cut = |reason: &Reason| matches!(reason, Reason::OutOfOrder { last, .. } if last.get() == 5);
                assert!(loaded.report.steps.iter().any(|step| cut(&step.reason)));
                drop(loaded);
                assert_eq!(append_and_read(&disk, &config), [(0, 2), (3, 5), (6, 6)]);
            }
        }
    }
}

/// Where the batch that falls back had the largest time, both indexes came out empty.
#[test]
fn a_kept_batch_that_falls_back_costs_the_indexes_no_entry_but_its_own() {
    let filler = |n: i64| at_offset(l3(0), 3 * n);
    let sound: Vec<u8> = (0..50).flat_map(filler).collect();
    let late = at_offset(l3(2), 60);
    let disk = Disk::new();
    disk.segment(0, &[sound, late, at_offset(l3(0), 150)].concat());
    disk.segment_with_indexes(153, &at_offset(l3(1), 153));
    let log = disk.load(&sparse(clean(156)));
    assert_eq!((segments(&log).len(), log.log_end_offset.get()), (2, 156));
    assert_eq!(disk.files()["00000000000000000000.index"].len(), 8);
    assert_eq!(log.report.recovered[0].next_offset.get(), 153);
    let kept = |it: &Warning| matches!(it, Warning::DamageKept { damage, .. } if damage.position().get() == 50 * 118);
    assert!(log.report.warnings.iter().any(kept), "{:?}", log.report.warnings);
}
