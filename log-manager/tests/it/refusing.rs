//! What no caller may ask for: refused before anything changes.

use std::fs;

use alluvium_log_manager::{
    AppendError, Appended, ErrorCode, InvalidBatch, Isolation, LeaderRequest, LogError,
    ManagerError, NewLog, OffsetQuery, ValidationError,
};
use alluvium_record_format::{LeaderEpoch, Offset, Timestamp, TxnOutcome};
use alluvium_segment::SegmentError;

use crate::batches::{
    HEX_A, NOW, at_offset, batch, hex, l3, marker, patched, sequenced, transactional,
};
use crate::cluster::{Cluster, t};
use crate::disk::{Disk, append, append_marker, bases, follow, read, try_append};

const MAGIC_0: &[u8] = include_bytes!("../golden/4.4.0/magic0/00000000000000000000.log");
const MAGIC_1: &[u8] = include_bytes!("../golden/4.4.0/magic1/00000000000000000000.log");

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

/// Bytes of an append with another number for the epoch of the leader: no checksum covers it.
fn of_epoch(mut batch: Vec<u8>, epoch: i32) -> Vec<u8> {
    batch[12..16].copy_from_slice(&epoch.to_be_bytes());
    batch
}

fn reason(refused: Result<Appended, AppendError>) -> InvalidBatch {
    match refused.unwrap_err() {
        AppendError::Refused { source: ValidationError::Batch { reason, .. }, .. } => reason,
        other => panic!("another refusal: {other:?}"),
    }
}

/// The epochs were forgotten, on the disk too, and a segment could be begun, before the bytes were
/// refused.
#[test]
fn messages_of_old_formats_from_a_leader_are_refused_and_nothing_has_changed() {
    let first = |log: &[u8]| {
        let size = 12 + u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
        at_offset(log[..size].to_vec(), 20)
    };
    let (magic_0, magic_1) = (first(MAGIC_0), first(MAGIC_1));
    let sound = at_offset(hex(HEX_A), 9);
    let appends = [
        (magic_0.clone(), 0),
        (magic_1.clone(), 1),
        ([&sound[..], &magic_1[..]].concat(), 1),
        ([&magic_0[..], &sound[..]].concat(), 0),
    ];
    for (bytes, magic) in appends {
        let disk = Disk::with(|config| config.internal_segment_bytes(Some(400)));
        let log = disk.open_clean();
        follow(&log, &l3().concat());
        log.assign_epoch(LeaderEpoch::new(3), Offset::new(9)).unwrap();
        disk.tasks.run_due();
        let (epochs, names) = (disk.file("leader-epoch-checkpoint"), disk.names());
        let version = log.version();
        let refused = log.append_as_follower(&bytes, LeaderEpoch::new(3));
        assert_eq!(
            refused.as_ref().map_err(AppendError::code).unwrap_err(),
            ErrorCode::UnsupportedForMessageFormat
        );
        let found = reason(refused);
        assert!(matches!(found, InvalidBatch::OldFormat { magic: it, .. } if it == magic));
        // Its epoch is none: not that of the leader.
        let refused = log.append_as_raft_leader(&bytes, LeaderEpoch::new(3)).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidRecord);
        disk.tasks.run_due();
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch::new(3)));
        assert_eq!((disk.file("leader-epoch-checkpoint"), disk.names()), (epochs, names));
        assert_eq!((log.version(), log.log_end_offset()), (version, Offset::new(9)));
        assert_eq!(bases(&log), [0]);
    }
}

/// Refused by the segment, after epochs had been noted and a segment begun.
#[test]
fn a_batch_that_ends_before_it_begins_is_refused_and_nothing_has_changed() {
    let disk = Disk::with(|config| config.internal_segment_bytes(Some(400)));
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    let backwards = of_epoch(patched(l3()[2].clone(), 23, &[0xff; 4]), 5);
    let refused = log.append_as_follower(&at_offset(backwards, 9), LeaderEpoch::new(5));
    assert!(matches!(refused, Err(AppendError::BelowLogEnd { .. })), "{refused:?}");
    assert_eq!((log.latest_epoch(), bases(&log)), (Some(LeaderEpoch::new(1)), vec![0]));
}

/// A follower takes what its leader took.
#[test]
fn the_limit_on_batches_holds_for_a_raft_leader_and_not_for_a_follower() {
    let sent = l3()[0].clone();
    let size = u32::try_from(sent.len()).unwrap();
    let epoch = LeaderEpoch::new(0);
    for (limit, fits) in [(size - 1, false), (size, true)] {
        let disk = Disk::with(|config| config.max_message_bytes(limit));
        let log = disk.open_clean();
        let raft = log.append_as_raft_leader(&sent, epoch);
        assert_eq!(raft.is_ok(), fits, "{raft:?}");
        if let Err(refused) = raft {
            assert_eq!(refused.code(), ErrorCode::MessageTooLarge);
        }
        let next = at_offset(sent.clone(), 3);
        assert_eq!(log.append_as_follower(&next, epoch).unwrap().last_offset, Some(Offset::new(5)));
    }
}

#[test]
fn a_number_below_0_is_no_epoch_of_a_leader_and_nothing_has_changed() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    for number in [i32::MIN, -2, -1] {
        let epoch = LeaderEpoch::new(number);
        let is_refused = |error: &LogError| {
            assert!(matches!(error, LogError::NegativeEpoch { .. }), "{error:?}");
            assert_eq!(error.code(), ErrorCode::UnknownServerError);
        };
        is_refused(&log.assign_epoch(epoch, Offset::new(9)).unwrap_err());
        let sent = of_epoch(hex(HEX_A), number);
        let appends = [
            log.append_as_leader(&mut sent.clone(), LeaderRequest::new(epoch)),
            log.append_as_raft_leader(&at_offset(sent, 9), epoch),
        ];
        for refused in appends {
            match refused {
                Err(AppendError::Log { source, .. }) => is_refused(&source),
                other => panic!("{other:?}"),
            }
        }
    }
    let refused = log.assign_epoch(LeaderEpoch::new(4), Offset::new(-1)).unwrap_err();
    assert!(matches!(refused, LogError::IllegalOffset { .. }), "{refused:?}");
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch::new(1)));
    assert_eq!(log.log_end_offset(), Offset::new(9));
}

/// Where none is named the one before goes on; any other number below 0 is not what a leader
/// wrote.
#[test]
fn a_follower_takes_batches_without_an_epoch_and_none_of_an_epoch_below_that() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    let next = at_offset(hex(HEX_A), 9);
    for number in [i32::MIN, -2] {
        let refused = log.append_as_follower(&of_epoch(next.clone(), number), LeaderEpoch::new(1));
        let code = refused.as_ref().map_err(AppendError::code).unwrap_err();
        assert_eq!(code, ErrorCode::UnknownServerError);
        assert!(
            matches!(reason(refused), InvalidBatch::NegativeEpoch { found, .. } if found == number)
        );
        assert_eq!(log.log_end_offset(), Offset::new(9));
    }
    log.append_as_follower(&of_epoch(next, -1), LeaderEpoch::new(1)).unwrap();
    assert_eq!(log.log_end_offset(), Offset::new(10));
    assert_eq!(log.epoch_for_offset(Offset::new(9)), Some(LeaderEpoch::new(1)));
}

/// The disk did as it was told: not the 56 of a failed one.
#[test]
fn damage_and_offsets_that_do_not_fit_are_no_failures_of_the_disk() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    let far = [at_offset(hex(HEX_A), 9), at_offset(hex(HEX_A), 9 + (1 << 31))].concat();
    let refused = log.append_as_follower(&far, LeaderEpoch::new(0)).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::UnknownServerError, "{refused:?}");
    assert_eq!(log.log_end_offset(), Offset::new(9));

    log.roll().unwrap();
    let path = disk.dir().join("00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[118 + 8..118 + 12].fill(0);
    fs::write(&path, bytes).unwrap();
    // As after a controlled shutdown: what is synced is not read again.
    let log = disk.reopen(log);
    let error = read(&log, 7).unwrap_err();
    assert!(
        matches!(error, LogError::Segment { source: SegmentError::Corrupt { .. }, .. }),
        "{error:?}"
    );
    assert_eq!(error.code(), ErrorCode::CorruptMessage);
    assert_eq!(AppendError::from(error).code(), ErrorCode::CorruptMessage);
}

#[test]
fn every_error_of_a_producer_has_one_number() {
    let marked = |coordinator_epoch: i32| {
        let mut bytes = marker(2, TxnOutcome::Commit);
        let at = bytes.len() - 5;
        bytes[at..at + 4].copy_from_slice(&coordinator_epoch.to_be_bytes());
        patched(bytes, 0, &[])
    };
    let of_epoch_1 = patched(sequenced(1, 0, &[NOW.get()]), 51, &1_i16.to_be_bytes());
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &of_epoch_1);
    append(&log, &transactional(3, 0));
    append_marker(&log, &marked(7)).unwrap();
    let refused = [
        (try_append(&log, &sequenced(1, 0, &[NOW.get()])), 47),
        (try_append(&log, &patched(of_epoch_1, 53, &5_i32.to_be_bytes())), 45),
        (try_append(&log, &sequenced(3, 1, &[NOW.get()])), 48),
        (append_marker(&log, &marked(6)), 52),
        // A marker that a Raft leader brings has no version of the protocol of transactions.
        (log.append_as_raft_leader(&of_epoch(at_offset(marked(8), 3), 0), LeaderEpoch::new(0)), -1),
    ];
    for (refused, number) in refused {
        match refused {
            Err(error @ AppendError::Producer { source, .. }) => {
                assert_eq!((source.code(), error.code().code()), (number, number), "{error:?}");
            }
            other => panic!("{number}: {other:?}"),
        }
    }
}
