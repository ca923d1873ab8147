//! Segments that somebody put between others: the log ends where its records do.

use alluvium_record_format::Offset;
use alluvium_recovery::{LoadConfig, Warning};
use alluvium_segment::{ActiveSegment, Birth};

use crate::batches::TestBatch;
use crate::directory::Disk;
use crate::logs::{HEX_A, NOW, all_l3, at_offset, batches, bytes, clean, l3, unclean};

#[test]
fn an_empty_last_segment_that_begins_where_the_one_before_it_ends_is_no_overlap() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &TestBatch::new(0, 1).bytes());
    disk.segment_with_indexes(1, b"");
    for config in [unclean(), clean(1)] {
        let log = disk.load(&config);
        assert_eq!((log.log_end_offset.get(), log.report.warnings.len()), (1, 0));
    }
}

/// An append at offset 1 would be acknowledged, and hidden behind the old record of that offset.
#[test]
fn a_stray_segment_does_not_take_the_log_end_back_into_the_one_before_it() {
    for (config, stray) in
        [(clean(1), vec![]), (unclean(), vec![]), (clean(2), at_offset(l3(0), 1))]
    {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &all_l3());
        disk.segment_with_indexes(1, &stray);
        let config = config.recovery_point(Offset::new(9));
        let log = disk.load(&config);
        assert_eq!(log.log_end_offset.get(), 9);
        assert_eq!(log.report.cut_bytes(), 0);
        let found = |warning: &Warning| matches!(warning, Warning::Overlap { reaches, .. } if reaches.get() == 9);
        assert_eq!(log.report.warnings.iter().filter(|it| found(it)).count(), 1);
        drop(log);
        let last = append_at(&disk, &config, 9);
        assert_eq!(last, Some((9, 9)));
        assert_eq!(disk.load(&config).log_end_offset.get(), 10);
    }
}

#[test]
fn stray_segments_without_a_record_hide_no_end_however_many_there_are() {
    for strays in [&[3, 5][..], &[1, 3, 4, 5, 8]] {
        for config in [clean(1), unclean()] {
            let disk = Disk::new();
            disk.segment_with_indexes(0, &all_l3());
            for base in strays {
                disk.segment_with_indexes(*base, b"");
            }
            let config = config.recovery_point(Offset::new(9));
            let log = disk.load(&config);
            assert_eq!(log.log_end_offset.get(), 9);
            let found = |warning: &Warning| matches!(warning, Warning::Overlap { base_offset, reaches, .. } if (base_offset.get(), reaches.get()) == (0, 9));
            assert_eq!(log.report.warnings.iter().filter(|it| found(it)).count(), 1);
            drop(log);
            assert_eq!(append_at(&disk, &config, 9), Some((9, 9)));
        }
    }
}

/// The stray that ends below the last segment's end was taken for the one that says where the log
/// ends: an append at 5 would be hidden behind the old record of that offset.
#[test]
fn a_stray_segment_with_records_does_not_hide_where_the_one_before_it_ends() {
    for strays in [&[1][..], &[1, 3]] {
        for config in [clean(5), unclean(), unclean().recovery_point(Offset::new(9))] {
            let disk = Disk::new();
            disk.segment_with_indexes(0, &all_l3());
            for base in strays {
                disk.segment_with_indexes(*base, &TestBatch::new(*base, 1).bytes());
            }
            disk.segment_with_indexes(5, b"");
            let log = disk.load(&config);
            assert_eq!((log.log_end_offset.get(), log.report.cut_bytes()), (9, 0));
            let found = |warning: &Warning| matches!(warning, Warning::Overlap { base_offset, reaches, end, .. } if (base_offset.get(), reaches.get(), end.get()) == (0, 9, 5));
            assert_eq!(log.report.warnings.iter().filter(|it| found(it)).count(), 1);
            drop(log);
            assert_eq!(append_at(&disk, &config, 9), Some((9, 9)));
        }
    }
}

#[test]
fn a_segment_that_reaches_into_the_next_one_is_reported_where_the_log_ends_behind_both() {
    for config in [clean(12), unclean(), unclean().recovery_point(Offset::new(9))] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &all_l3());
        disk.segment_with_indexes(4, &TestBatch::new(4, 2).bytes());
        disk.segment_with_indexes(9, &at_offset(l3(0), 9));
        let mut before = disk.files();
        before.retain(|name, _| name.contains(".log"));
        let log = disk.load(&config);
        assert_eq!((log.log_end_offset.get(), log.report.cut_bytes()), (12, 0));
        let found: Vec<_> = log
            .report
            .warnings
            .iter()
            .filter_map(|warning| match warning {
                Warning::Covered { base_offset, reaches, next, .. } => {
                    Some([base_offset.get(), reaches.get(), next.get()])
                }
                _ => None,
            })
            .collect();
        assert_eq!(found, [[0, 9, 4]]);
        for name in before.keys() {
            assert_eq!(disk.files()[name], before[name], "{name}");
        }
    }
}

/// A compacted log: no segment ends where the next one begins.
#[test]
fn gaps_between_segments_are_no_overlap() {
    let disk = Disk::new();
    for base in (0..200).step_by(10) {
        disk.segment_with_indexes(base, &TestBatch::new(base, 1).bytes());
    }
    let log = disk.load(&clean(191));
    assert_eq!((log.log_end_offset.get(), log.report.warnings.len()), (191, 0));
    assert_eq!(disk.load(&unclean()).report.warnings.len(), 0);
}

/// Appends one record at an offset; returns the last batch that a reader of all sees.
fn append_at(disk: &Disk, config: &LoadConfig, offset: i64) -> Option<(i64, i64)> {
    let log = disk.load(config);
    let last = log.segments.last().unwrap().clone();
    let mut active = ActiveSegment::reopen(last, config.segment, Birth::at(NOW)).unwrap();
    active.append(&at_offset(bytes(HEX_A), offset)).unwrap();
    active.seal().unwrap();
    batches(&log).last().copied()
}
