//! What no caller may ask for: refused before anything changes.

use alluvium_log_manager::{ErrorCode, Isolation, LogError, ManagerError, NewLog, OffsetQuery};
use alluvium_record_format::{LeaderEpoch, Offset, Timestamp};

use crate::batches::{NOW, batch, l3};
use crate::cluster::{Cluster, t};
use crate::disk::{Disk, append, bases, follow, read};

const EXTREMES: [i64; 6] = [i64::MIN, i64::MIN + 1, -2, -1, i64::MAX - 1, i64::MAX];

/// Was an endless loop that held the locks of the log.
#[test]
fn a_truncation_below_0_is_refused_and_the_log_goes_on() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    for offset in [i64::MIN, -1].map(Offset::new) {
        let refused = [
            log.truncate_to(offset).unwrap_err(),
            log.truncate_fully_and_start_at(offset, None).unwrap_err(),
            log.truncate_fully_and_start_at(Offset::new(5), Some(offset)).unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, LogError::IllegalOffset { .. }), "{error:?}");
            assert_eq!(error.code(), ErrorCode::UnknownServerError);
        }
        assert_eq!(read(&log, 0).unwrap().len(), 3);
    }
    log.flush(true).unwrap();
    assert_eq!(log.recovery_point(), Offset::new(9));
    assert!(log.truncate_to(Offset::new(0)).unwrap());
    assert_eq!(log.log_end_offset(), Offset::new(0));
}

#[test]
fn a_log_that_would_start_above_its_end_is_refused() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    let refused = log.truncate_fully_and_start_at(Offset::new(5), Some(Offset::new(6)));
    assert!(matches!(refused, Err(LogError::IllegalOffset { .. })), "{refused:?}");
    assert_eq!(read(&log, 0).unwrap().len(), 3);
    log.truncate_fully_and_start_at(Offset::new(5), Some(Offset::new(2))).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset::new(2), Offset::new(5)));
}

#[test]
fn a_closed_log_says_so_whatever_the_offset() {
    let disk = Disk::new();
    let log = disk.open_clean();
    log.close().unwrap();
    for offset in [-1, 0].map(Offset::new) {
        let refused = log.truncate_to(offset);
        assert!(matches!(refused, Err(LogError::Closed { .. })), "{refused:?}");
    }
}

/// The cleaner stayed paused for the partition.
#[test]
fn a_truncation_below_0_through_the_manager_is_refused_and_the_next_one_is_made() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    append(&log, &batch(&[(None, NOW.get())]));
    let refused = manager.truncate_to(&t(0), Offset::new(-1));
    assert!(
        matches!(refused, Err(ManagerError::Log { source: LogError::IllegalOffset { .. }, .. })),
        "{refused:?}"
    );
    assert!(manager.truncate_fully_and_start_at(&t(0), Offset::new(-1), None).is_err());
    assert!(manager.truncate_to(&t(0), Offset::new(0)).unwrap());
}

/// An illegal argument in Kafka, not a reader's offset: -1, not 1.
#[test]
fn a_high_watermark_above_the_log_end_is_a_fault_of_the_caller() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    let refused = log.increment_high_watermark(Offset::new(10)).unwrap_err();
    assert!(matches!(refused, LogError::IllegalOffset { .. }), "{refused:?}");
    assert_eq!(refused.code(), ErrorCode::UnknownServerError);
    assert_eq!(log.high_watermark(), Offset::new(0));
    assert_eq!(log.increment_high_watermark(Offset::new(9)).unwrap(), Some(Offset::new(0)));
}

#[test]
fn every_look_up_answers_offsets_and_times_at_the_edge_of_all_numbers() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    for number in EXTREMES {
        let offset = Offset::new(number);
        for isolation in [Isolation::LogEnd, Isolation::HighWatermark, Isolation::TxnCommitted] {
            let code = log.read(offset, 1, isolation, true).map_err(|error| error.code());
            assert_eq!(code.unwrap_err(), ErrorCode::OffsetOutOfRange, "{number}");
        }
        let deleted = log.delete_records(Some(offset)).unwrap_err();
        assert_eq!(deleted.code(), ErrorCode::OffsetOutOfRange, "{number}");
        let moved = log.increment_log_start_offset(offset);
        assert_eq!(moved.is_ok_and(|moved| !moved), number < 0, "{number}");
        let raised = log.increment_high_watermark(offset);
        assert_eq!(raised.is_ok_and(|raised| raised.is_none()), number < 0, "{number}");
        assert!(log.commit(offset).unwrap() <= Offset::new(9));
        let found = log.offset_for(OffsetQuery::AtOrAfter(Timestamp::new(number))).unwrap();
        assert_eq!(found.map(|found| found.offset.get()), (number < 0).then_some(0), "{number}");
        let epoch = LeaderEpoch::new(if number < 0 { i32::MIN } else { i32::MAX });
        assert_eq!(log.end_offset_for_epoch(epoch), None);
        let written_by = log.epoch_for_offset(offset).map(LeaderEpoch::get);
        assert_eq!(written_by, (number > 0).then_some(1), "{number}");
        let set = log.update_high_watermark(offset).unwrap();
        assert_eq!(set, Offset::new(if number < 0 { 0 } else { 9 }), "{number}");
        log.update_high_watermark(Offset::new(0)).unwrap();
    }
    assert_eq!(log.log_start_offset(), Offset::new(0));
    assert_eq!(read(&log, 0).unwrap().len(), 3);
}

#[test]
fn a_log_can_be_started_at_the_largest_of_all_offsets() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    assert!(!log.truncate_to(Offset::MAX).unwrap());
    log.truncate_fully_and_start_at(Offset::MAX, None).unwrap();
    assert_eq!((log.log_end_offset(), bases(&log)), (Offset::MAX, vec![i64::MAX]));
    log.flush(true).unwrap();
    assert!(log.truncate_to(Offset::new(3)).unwrap());
    follow(&log, &l3()[1]);
    assert_eq!(read(&log, 3).unwrap(), [(3, 5)]);
}

/// As a damaged checkpoint may name them.
#[test]
fn a_log_opens_with_offsets_at_the_edge_of_all_numbers_and_loses_no_record_below_its_start() {
    for number in EXTREMES {
        let offset = Offset::new(number);
        for clean in [true, false] {
            let disk = Disk::new();
            let log = disk.open_clean();
            follow(&log, &l3().concat());
            drop(log);
            let options = disk.options().clean(clean).recovery_point(offset);
            let log = options.high_watermark(offset).open(disk.dir()).unwrap();
            assert_eq!(read(&log, 0).unwrap().len(), 3, "{number} {clean}");
            append(&log, &batch(&[(None, NOW.get())]));
            log.flush(true).unwrap();
            assert!((0..=10).contains(&log.recovery_point().get()), "{number} {clean}");
            drop(log);
            if number < 0 {
                let options = disk.options().clean(clean).log_start_offset(offset);
                let log = options.open(disk.dir()).unwrap();
                assert_eq!(log.log_start_offset(), Offset::new(0), "{number} {clean}");
                append(&log, &batch(&[(None, NOW.get())]));
            }
        }
    }
}
